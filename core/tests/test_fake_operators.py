"""The operators of the testing kit."""

import pytest

from greatseal.api.http import Operator, Route
from greatseal.api.problems import Forbidden
from greatseal.testing.calls import FakeCall
from greatseal.testing.operators import FakeOperators
from greatseal.testing.schemes import AuthSchemeContract


def call_of(token: str) -> FakeCall:
    route = Route("GET", "/admin/x", None, auth=Operator(("auditor", "ca_ra")))
    return FakeCall(route=route, headers=[("Authorization", f"Bearer {token}")])


class TestFakeOperators(AuthSchemeContract):
    def scheme(self):
        return FakeOperators()

    async def call(self, *, right):
        return call_of("ann:auditor" if right else "ann:administrator")


@pytest.mark.parametrize(("token", "ca_id"), [("ann:auditor", None), ("bob:ca_ra@second", "second")])
async def test_a_token_says_who_acts_in_which_role_for_which_ca(token, ca_id):
    caller = await FakeOperators().authenticate(call_of(token))

    assert f"{caller.subject}:{caller.role}" == token.partition("@")[0]
    assert caller.ca_id == ca_id


async def test_another_role_is_refused():
    with pytest.raises(Forbidden):
        await FakeOperators().authenticate(call_of("ann:administrator"))
