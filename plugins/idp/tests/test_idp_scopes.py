"""Scopes: the eight of the system, and custom ones."""

from typing import Any

import pytest
from sqlalchemy import select

from greatseal.api.problems import BadRequest
from greatseal.testing.plugin import StartService
from greatseal.testing.store import audit
from greatseal_idp.scopes import PROFILE_CLAIMS, Scopes, SystemScope


@pytest.fixture
async def service(start_service: StartService) -> Any:
    return await start_service("idp")


@pytest.fixture
def scopes(service: Any) -> Scopes:
    return service.kernel.hooks.instances["idp"].provider(service.host("idp")).scopes


async def test_idp_063_eight_built_in_scopes_are_made_at_the_first_start(scopes: Scopes) -> None:
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
    assert all(scope.description for scope in known.values())


async def test_idp_065_directory_read_and_offline_access_release_no_claims(scopes: Scopes) -> None:
    known = await scopes.all()
    assert known["directory.read"].claims == known["offline_access"].claims == ()


async def test_idp_064_a_system_scope_can_be_neither_changed_nor_deleted(scopes: Scopes) -> None:
    before = dict(await scopes.all())
    for name in before:
        with pytest.raises(SystemScope):
            await scopes.put(name, "mine", ["email"], by="eve")
        with pytest.raises(SystemScope):
            await scopes.delete(name, by="eve")
    assert await scopes.all() == before


async def test_idp_066_custom_scopes_are_made_changed_and_deleted(service: Any, scopes: Scopes) -> None:
    made, new = await scopes.put("payroll:read", "See what people earn", ["salary", "salary"], by="root")
    assert new
    assert made.claims == ("salary",)
    assert (await scopes.all())["payroll:read"] == made
    assert not made.is_system

    changed, new = await scopes.put("payroll:read", "", [], by="root")
    assert not new
    assert (await scopes.all())["payroll:read"] == changed

    assert await scopes.delete("payroll:read", by="root")
    assert "payroll:read" not in await scopes.all()
    assert not await scopes.delete("payroll:read", by="root")
    told = await service.host("idp").db.read(lambda tx: [(row.event_type, row.sub, row.detail) for row in tx.all(select(audit))])
    assert told == [
        ("scope_updated", "root", "payroll:read"),
        ("scope_updated", "root", "payroll:read"),
        ("scope_deleted", "root", "payroll:read"),
    ]


@pytest.mark.parametrize("name", ["", "a b", 'a"b', "a\\b", "a\nb", "ä", "x" * 129])
async def test_idp_157_a_scope_name_is_a_scope_token(scopes: Scopes, name: str) -> None:
    with pytest.raises(BadRequest):
        await scopes.put(name, "", [], by="root")


@pytest.mark.parametrize("claims", [[""], ["a b"], ["x" * 129], ["a"] * 1 + [f"c{n}" for n in range(100)]])
async def test_idp_157_claims_are_plain_names(scopes: Scopes, claims: list[str]) -> None:
    with pytest.raises(BadRequest):
        await scopes.put("mine", "", claims, by="root")


async def test_a_second_start_leaves_everything_as_it_was(scopes: Scopes) -> None:
    await scopes.put("mine", "Mine", [], by="root")
    before = dict(await scopes.all())

    await scopes.open()

    assert await scopes.all() == before
