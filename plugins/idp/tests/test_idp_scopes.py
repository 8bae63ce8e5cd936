"""Scopes: the eight of the system, and custom ones."""

from typing import Any

import pytest

from greatseal.api.problems import BadRequest
from greatseal.testing.plugin import StartService
from greatseal_idp.scopes import PROFILE_CLAIMS, Scopes


@pytest.fixture
async def service(start_service: StartService) -> Any:
    return await start_service("idp")


@pytest.fixture
def scopes(service: Any) -> Scopes:
    return service.kernel.hooks.instances["idp"].assembly(service.host("idp")).scopes


async def test_idp_063_idp_065_eight_built_in_scopes_are_made_at_the_first_start(scopes: Scopes) -> None:
    known = await scopes.all()

    assert {name for name, scope in known.items() if scope.is_system} == {
        "openid", "offline_access", "profile", "email", "phone", "address", "groups", "directory.read"
    }  # fmt: skip
    assert known["openid"].claims == ("sub",)
    assert known["profile"].claims == PROFILE_CLAIMS
    assert known["email"].claims == ("email", "email_verified")
    assert known["phone"].claims == ("phone_number", "phone_number_verified")
    assert known["address"].claims == ("address",)
    assert known["groups"].claims == ("groups",)
    assert known["directory.read"].claims == known["offline_access"].claims == ()
    assert all(scope.description for scope in known.values())


@pytest.mark.parametrize("name", ["", "a\nb"])
async def test_idp_157_a_name_that_no_path_holds_is_none_either(scopes: Scopes, name: str) -> None:
    with pytest.raises(BadRequest):
        await scopes.put(name, "", [], by="root")


async def test_a_second_start_leaves_everything_as_it_was(scopes: Scopes) -> None:
    await scopes.put("mine", "Mine", [], by="root")
    before = dict(await scopes.all())

    await scopes.open()

    assert await scopes.all() == before
