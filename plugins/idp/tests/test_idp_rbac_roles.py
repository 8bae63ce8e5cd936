"""Roles and permissions (reference 17.6, ruling R45)."""

import pytest

from greatseal.api.directory import AccountState
from greatseal_idp.rbac import grants


def roles(*rows):
    return {"role": [dict(zip(("name", "permissions", "users", "groups"), row, strict=True)) for row in rows]}


async def permissions(idp, username):
    return (await idp.get("/api/auth/me", cookie=await idp.cookie(username))).json["permissions"]


async def test_idp_342_roles_grant_by_user_and_by_group(open_idp):
    idp = await open_idp(
        rbac=roles(
            ("admin", ["*"], [], ["admins"]),
            ("auditor", ["audit:read"], ["alice"], []),
            ("keys", ["keys:*", "audit:read"], ["alice@LOCALHOST"], []),
            ("nobody", ["users:read"], [], []),
        )
    )

    assert await permissions(idp, "alice") == ["audit:read", "keys:*"]
    assert await permissions(idp, "bob") == ["*"]


@pytest.mark.parametrize("user", ["alice@OTHER", "Alice", "alice@", "alic", "*"])
async def test_a_role_of_somebody_else_grants_nothing(open_idp, user):
    idp = await open_idp(rbac=roles(("admin", ["*"], [user], [])))

    assert await permissions(idp, "alice") == []


async def test_a_short_name_in_a_role_means_the_home_realm(open_idp):
    idp = await open_idp(server={"realm": "HOME"}, rbac=roles(("admin", ["*"], ["alice"], [])))

    assert await permissions(idp, "alice") == []


async def test_groups_and_account_state_count_as_they_are_now(open_idp):
    idp = await open_idp(rbac=roles(("admin", ["*"], [], ["admins"])))
    cookie = await idp.cookie("bob")

    idp.people.change("bob", groups=())
    assert (await idp.get("/api/auth/me", cookie=cookie)).json["permissions"] == []
    idp.people.change("bob", state=AccountState(disabled=True))
    assert (await idp.get("/api/auth/me", cookie=cookie)).status == 403


@pytest.mark.parametrize(
    ("granted", "name", "expected"),
    [
        (["*"], "clients:read", True),
        (["clients:*"], "clients:read", True),
        (["clients:read"], "clients:read", True),
        (["clients:read"], "clients:write", False),
        (["client:*"], "clients:read", False),
        (["*:read"], "clients:read", False),
        (["clients:*:x", "clients:", ":*", "c*"], "clients:read", False),
        (["clients", "client*", "CLIENTS:READ", "clients:read ", "**"], "clients:read", False),
        ([], "clients:read", False),
    ],
)
def test_r45_wildcards(granted, name, expected):
    assert grants(granted, name) is expected
