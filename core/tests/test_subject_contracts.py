"""The contracts of claims providers and grant checks, driven by the people of the testing kit and by some that break them."""

import pytest

from greatseal.api.tokens import GrantQuestion
from greatseal.testing.people import Plugin
from greatseal.testing.subjects import ClaimsProviderContract, GrantCheckContract


class TestClaims(ClaimsProviderContract):
    subject = "alice@LOCALHOST"

    def provider(self):
        return Plugin().claims(None)[0]


def question(phase, *scopes):
    return GrantQuestion(phase=phase, subject="alice@LOCALHOST", client=None, scopes=frozenset(scopes), remote="192.0.2.1")


class TestCheck(GrantCheckContract):
    allowed = question("token", "openid", "email")
    denied = question("exchange", "openid")

    def check(self):
        people = Plugin()
        people.people.shut, people.people.withheld = "exchange", frozenset({"email"})
        return people.grant_checks(None)[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [({"name": None}, "left out"), ({"name": "A", "more": 1}, "not wanted"), (None, "returns a mapping")],
)
async def test_the_contract_notices_claims_that_are_wrong(given, said):
    class Provider:
        name = "wrong"
        claims = frozenset({"name"})

        async def of(self, subject, wanted):
            return given

    contract = TestClaims()
    contract.provider = Provider

    with pytest.raises(AssertionError, match=said):
        await contract.test_what_is_known_is_json_and_the_same_each_time()


@pytest.mark.parametrize("left", [frozenset({"openid", "admin"}), frozenset(), None, {"openid"}])
async def test_the_contract_notices_a_check_that_widens_or_leaves_nothing(left):
    class Check:
        name = "wrong"

        def concerns(self, question):
            return True

        async def check(self, question):
            return left

    contract = TestCheck()
    contract.check = Check

    with pytest.raises(AssertionError):
        await contract.test_it_leaves_a_subset_and_the_same_each_time()
    with pytest.raises(pytest.fail.Exception):
        await contract.test_whom_it_refuses_is_denied()
