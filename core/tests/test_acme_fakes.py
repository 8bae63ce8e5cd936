"""The ACCOUNTS and CHALLENGES of unit tests keep what their Protocols promise, in transactions that commit and in those that do not."""

import msgspec
import pytest

from greatseal.api.acme import AccountView, Challenge, Identifier
from greatseal.api.problems import BadRequest, IncorrectResponse
from greatseal.api.store import Refuse
from greatseal.testing.acme import FakeAccounts, FakeChallenges
from greatseal.testing.store import open_test_database

ACCOUNT = AccountView(id="a1", url="https://ca.example/acme/account/a1", status="valid", thumbprint="t" * 43)
GONE = msgspec.structs.replace(ACCOUNT, id="a2", status="deactivated")
PROCESSING = Challenge(
    id="c1", type="email-reply-00", status="processing", token="t", identifier=Identifier("email", "someone@a.example"), wildcard=False,
    authorization_id="z1", account_id="a1", account_url=ACCOUNT.url, expires=4_102_444_800_000_000,
)  # fmt: skip
PENDING = msgspec.structs.replace(PROCESSING, id="c2", status="pending")


@pytest.fixture
async def store(tmp_path):
    async with open_test_database(f"sqlite:///{tmp_path}/fakes.db") as opened:
        yield opened


@pytest.fixture
def undone(store):
    """``await undone(fn, ...)``: what it returned in a transaction that did not commit."""

    async def run(fn, *args):
        seen = []

        def refuse(tx):
            seen.append(fn(tx, *args))
            raise Refuse(BadRequest("undone"))

        with pytest.raises(BadRequest, match="undone"):
            await store.write(refuse)
        return seen[-1]

    return run


async def test_an_account_is_granted_profiles_when_the_transaction_commits(store, undone):
    accounts = FakeAccounts(ACCOUNT, GONE)

    assert await undone(accounts.grant, "a1", ("tls",))
    assert await accounts.find("a1") == ACCOUNT
    assert await store.write(accounts.grant, "a1", ("tls",))
    assert (await accounts.find("a1")).profile_grants == ("tls",)


@pytest.mark.parametrize("id", ["a2", "nobody"])
async def test_who_is_no_valid_account_is_granted_nothing(store, id):
    accounts = FakeAccounts(ACCOUNT, GONE)

    assert not await store.write(accounts.grant, id, ("tls",))
    assert await accounts.find("a2") == GONE


@pytest.mark.parametrize(("problem", "status"), [(None, "valid"), (IncorrectResponse("the reply was signed by another"), "invalid")])
async def test_exactly_one_decision_wins_when_it_commits(store, undone, problem, status):
    challenges = FakeChallenges(PROCESSING)

    def decide_twice(tx):
        return [challenges.decide(tx, "c1", problem) for _ in range(2)], challenges.view(tx, "c1").status

    assert await undone(decide_twice) == ([True, False], status)
    assert challenges.challenges["c1"] == PROCESSING
    assert await store.write(decide_twice) == ([True, False], status)
    assert challenges.problems == ({} if problem is None else {"c1": problem})
    assert not await store.write(challenges.decide, "c1", None)
    assert (await store.read(challenges.view, "c1")).status == status


@pytest.mark.parametrize("id", ["c2", "none"])
async def test_what_is_not_processing_is_not_decided(store, id):
    challenges = FakeChallenges(PROCESSING, PENDING)

    assert not await store.write(challenges.decide, id, None)
    assert challenges.challenges["c2"] == PENDING
