"""Scope definitions over the admin API (document, "Scope definition" and "Scopes"; reference 17.4)."""

import pytest

SYSTEM = ["address", "directory.read", "email", "groups", "offline_access", "openid", "phone", "profile"]


async def names(admin):
    return [scope["name"] for scope in (await admin.get("scopes")).json]


async def test_idp_062_idp_063_idp_156_idp_363_the_list_is_the_eight_system_scopes(admin):
    answer = await admin.get("scopes")

    assert answer.status == 200
    assert [scope["name"] for scope in answer.json] == SYSTEM
    assert {frozenset(scope) for scope in answer.json} == {frozenset({"name", "description", "claims", "is_system"})}
    assert all(scope["is_system"] is True for scope in answer.json)
    assert next(scope["claims"] for scope in answer.json if scope["name"] == "directory.read") == []


async def test_idp_066_idp_157_put_makes_a_custom_scope_and_changes_it(admin):
    made = await admin.put("scopes/payroll:read", {"description": "See your pay", "claims": ["salary", "salary"]})
    changed = await admin.put("scopes/payroll:read", {"description": "See pay"})

    scope = {"name": "payroll:read", "description": "See your pay", "claims": ["salary"], "is_system": False}
    assert (made.status, made.json) == (201, scope)
    assert (changed.status, changed.json) == (200, {**scope, "description": "See pay", "claims": []})
    assert changed.json in (await admin.get("scopes")).json


async def test_a_scope_without_description_has_an_empty_one(admin):
    assert (await admin.put("scopes/x", {})).json == {"name": "x", "description": "", "claims": [], "is_system": False}


@pytest.mark.parametrize("name", SYSTEM)
async def test_idp_064_idp_158_idp_160_idp_363_a_system_scope_is_neither_changed_nor_deleted(admin, name):
    before = (await admin.get("scopes")).json

    put = await admin.put(f"scopes/{name}", {"description": "mine", "claims": ["password"]})
    deleted = await admin.delete(f"scopes/{name}")

    assert [(answer.status, answer.json["error"]) for answer in (put, deleted)] == [(403, "forbidden")] * 2
    assert (await admin.get("scopes")).json == before


async def test_idp_118_idp_159_delete_removes_a_custom_scope_once(admin):
    await admin.put("scopes/x", {})

    first, second = await admin.delete("scopes/x"), await admin.delete("scopes/x")

    assert (first.status, first.text, second.status) == (204, "", 404)
    assert await names(admin) == SYSTEM


async def test_s054_a_caller_cannot_make_a_system_scope(admin):
    answer = await admin.put("scopes/x", {"is_system": True, "name": "openid"})

    assert (answer.json["name"], answer.json["is_system"]) == ("x", False)
    assert (await admin.delete("scopes/x")).status == 204


@pytest.mark.parametrize("name", ["two%20words", "quote%22", "back%5Cslash", "%C3%BC", "x" * 129])
async def test_idp_157_a_name_that_is_no_scope_token_is_400(admin, name):
    assert (await admin.put(f"scopes/{name}", {})).status == 400
    assert await names(admin) == SYSTEM


async def test_a_name_may_hold_a_slash(admin):
    assert (await admin.put("scopes/https:%2F%2Fapi.example%2Fread", {})).status == 201
    assert "https://api.example/read" in await names(admin)
    assert (await admin.delete("scopes/https:%2F%2Fapi.example%2Fread")).status == 204


@pytest.mark.parametrize(
    "body",
    [
        {"description": 1},
        {"description": None},
        {"description": "a\u0000b"},
        {"description": "x" * 1025},
        {"claims": "sub"},
        {"claims": ["two words"]},
        {"claims": [""]},
        {"claims": ["x" * 129]},
        {"claims": [None]},
        {"claims": ["c"] * 10 + [str(number) for number in range(101)]},
        [],
    ],
)
async def test_idp_157_a_body_that_breaks_a_rule_is_400_and_nothing_changes(admin, body):
    assert (await admin.put("scopes/x", body)).status == 400
    assert await names(admin) == SYSTEM
    assert not await admin.desk.events("scope_updated")


async def test_changes_of_scopes_tell_who_made_them(admin):
    await admin.put("scopes/x", {})
    await admin.delete("scopes/x")

    events = await admin.desk.events("scope_updated", "scope_deleted")
    assert [(event.event_type, event.sub, event.detail) for event in events] == [
        ("scope_updated", "alice@LOCALHOST", "x"),
        ("scope_deleted", "alice@LOCALHOST", "x"),
    ]
