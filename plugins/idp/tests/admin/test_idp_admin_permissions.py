"""The permission matrix: every route with a permission, tried with every role and with none (S069, rulings R10 and R45)."""

import re

import pytest

from greatseal.api.http import Permission

NAMES = (
    "clients:read", "clients:write", "keys:read", "keys:rotate", "nodes:read", "users:read", "users:write", "scopes:read", "scopes:write",
    "audit:read",
)  # fmt: skip
"""Those of the document that this plugin guards (IDP-344)."""
ROLES = {
    **{f"only-{name.replace(':', '-')}": [name] for name in NAMES},
    **{f"all-but-{name.replace(':', '-')}": [other for other in NAMES if other != name] for name in NAMES},
    **{f"any-{resource}": [f"{resource}:*"] for resource in sorted({name.partition(":")[0] for name in NAMES})},
    "everything": ["*"],
    "nothing": [],
}
"""Roles by name; a user of the same name has that role alone. ``nobody`` has none."""


def guarded(desk):
    return [route for route in desk.service.kernel.routes if isinstance(route.auth, Permission)]


def granted(permissions, name):
    return bool({name, "*", f"{name.partition(':')[0]}:*"} & set(permissions))


@pytest.fixture
async def desk(open_idp):
    """A service with a role for every user, and a user for every role."""
    roles = [{"name": f"role of {name}", "permissions": permissions, "users": [name]} for name, permissions in ROLES.items()]
    desk = await open_idp(rbac={"role": roles}, server={"auth_rate_limit": 0})
    for name in (*ROLES, "nobody"):
        desk.people.add(name)
    return desk


async def ask(desk, route, **more):
    path = re.sub(r"\{[a-z_]+\*?\}", "x", route.path)
    if route.method in {"POST", "PUT"}:
        more["headers"] = {"Content-Type": "application/json", **more.get("headers", {})}
        more["data"] = b"[]"
    return await desk.ask(route.method, path, **more)


async def test_s069_every_route_under_api_admin_asks_for_a_permission(desk):
    routes = [route for route in desk.service.kernel.routes if route.path.startswith("/api/admin")]

    assert len(routes) >= 21
    assert {route.auth.name for route in routes if isinstance(route.auth, Permission)} == set(NAMES)
    for route in routes:
        assert isinstance(route.auth, Permission), route
        assert (route.listener, route.style) == ("main", "api")


async def test_idp_344_the_declared_permissions_are_those_of_the_document(desk):
    declared = {one.name for one in desk.service.kernel.hooks.collect("idp", "permissions")}

    assert declared == set(NAMES)


async def test_idp_018_idp_016_idp_341_without_a_session_every_guarded_route_is_401(desk):
    for route in guarded(desk):
        for more in ({}, {"cookie": "greatseal_session=x"}, {"headers": {"Authorization": "Bearer x"}}):
            answer = await ask(desk, route, **more)
            assert (answer.status, answer.json["error"]) == (401, "unauthenticated"), route
            assert "WWW-Authenticate" not in answer.headers


async def test_s069_idp_123_idp_343_a_route_answers_whom_a_role_grants_its_permission_and_nobody_else(desk):
    for name in (*ROLES, "nobody"):
        cookie = await desk.cookie(name)
        for route in guarded(desk):
            answer = await ask(desk, route, cookie=cookie)

            if granted(ROLES.get(name, []), route.auth.name):
                # The body is no object and nothing is named in the query: a write gets as far as reading it, everything else answers.
                read = route.method in {"POST", "PUT"} or (route.method == "DELETE" and "{" not in route.path)
                assert answer.status in ({400} if read else {200, 404}), (name, route, answer.text)
            else:
                assert answer.status == 403, (name, route, answer.text)
                assert (answer.json["error"], answer.json["required_permission"]) == ("forbidden", route.auth.name)


async def test_idp_342_a_role_is_lost_with_the_group_that_gave_it(open_idp):
    desk = await open_idp(rbac={"role": [{"name": "r", "permissions": ["*"], "groups": ["staff"]}]})
    cookie = await desk.cookie("alice")
    assert (await desk.get("/api/admin/nodes", cookie=cookie)).status == 200

    desk.people.change("alice", groups=())

    assert (await desk.get("/api/admin/nodes", cookie=cookie)).status == 403


async def test_idp_360_without_roles_every_admin_request_is_403(open_idp):
    desk = await open_idp()
    cookie = await desk.cookie("alice")

    for route in guarded(desk):
        assert (await ask(desk, route, cookie=cookie)).status == 403


async def test_s066_an_admin_write_in_another_media_type_is_refused(desk):
    cookie = await desk.cookie("everything")

    for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        for route in guarded(desk):
            if route.method in {"POST", "PUT"}:
                answer = await ask(desk, route, cookie=cookie, headers={"Content-Type": media_type})
                assert answer.status in {403, 415}, route


async def test_s075_s076_admin_answers_are_not_stored_and_carry_no_cors(desk):
    cookie = await desk.cookie("everything")

    for route in guarded(desk):
        answer = await ask(desk, route, cookie=cookie, headers={"Origin": desk.url})
        assert answer.headers["Cache-Control"] == "no-store"
        assert not [name for name in answer.headers if name.startswith("Access-Control")]


async def test_an_unknown_path_under_api_admin_is_404_and_a_wrong_method_405(desk):
    cookie = await desk.cookie("everything")

    assert (await desk.get("/api/admin/nothing", cookie=cookie)).status == 404
    answer = await desk.ask("PATCH", "/api/admin/clients", cookie=cookie)
    assert (answer.status, answer.json["error"], answer.headers["Allow"]) == (405, "method_not_allowed", "GET, HEAD, POST")
