"""The decisive lines about further factors, run against the fakes of greatseal.testing."""

import msgspec
from architecture.typing import policies

from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.identity import Authenticated
from greatseal.testing.calls import FakeCall


async def test_a_policy_of_groups() -> None:
    policy = policies.AdministratorsByTwo("admins")
    ann = User(username="ann", realm="EXAMPLE", source="ipa", groups=("admins",))
    proven = Authenticated(username="ann", realm="EXAMPLE", amr=("pwd",))

    call = FakeCall("POST")

    assert await policy.missing(proven, ann, call) == ("PasswordAndCode",)
    assert await policy.missing(msgspec.structs.replace(proven, amr=("pwd", "otp", "mfa")), ann, call) == ()
    assert await policy.missing(proven, None, call) == ()
    assert await policy.enrolment(proven, ann) is None


async def test_a_factor_that_is_used_up() -> None:
    paper = policies.PaperList({"ann@EXAMPLE": ["17", "4"]})

    good = [await paper.prove("ann@EXAMPLE", None, Secret(code)) for code in ("4", "17", "17", "4")]

    assert good == [False, True, False, True]
    assert not await paper.held("ann@EXAMPLE", None)
    assert not await paper.held("ben@EXAMPLE", None)
