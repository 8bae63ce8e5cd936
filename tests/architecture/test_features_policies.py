"""The decisive lines about further factors, run against the fakes of greatseal.testing."""

import msgspec
from architecture.typing import policies

from greatseal.api.directory import User
from greatseal.api.identity import Authenticated


async def test_a_policy_of_groups() -> None:
    policy = policies.AdministratorsByTwo("admins")
    ann = User(username="ann", realm="EXAMPLE", source="ipa", groups=("admins",))
    proven = Authenticated(username="ann", realm="EXAMPLE", amr=("pwd",))

    assert await policy.missing(proven, ann) == ("PasswordAndCode",)
    assert await policy.missing(msgspec.structs.replace(proven, amr=("pwd", "otp", "mfa")), ann) == ()
    assert await policy.missing(proven, None) == ()
