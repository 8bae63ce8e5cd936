"""What hosts ask the identity provider: users and groups as SSSD looks them up, byte for byte, and who signs in on a host."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import pytest_asyncio
from rig.people import write_users
from security.idp_desk import PASSWORD, SECRET, Desk, open_desk
from security.idp_device import GRANT, device_of

from greatseal.testing.desk import Answer, bearer

pytestmark = pytest.mark.asyncio(loop_scope="module")

REALM = "EXAMPLE.TEST"
USERS, GROUPS = "/api/identity/users", "/api/identity/groups"
EXACT = "&exact=true"
GROUP = '[[group]]\nname = "staff"\ndescription = "Who works here"\ngid_number = 2001\n'
PEOPLE: dict[str, dict[str, Any]] = {
    "ann": {
        "display_name": "Ann Smith",
        "given_name": "Ann",
        "family_name": "Smith",
        "email": "ann@example.test",
        "uid_number": 1001,
        "gid_number": 2001,
        "home_directory": "/home/ann",
        "login_shell": "/bin/bash",
        "groups": ["staff", "admins"],
    },
    "ben": {"enabled": False, "groups": ["staff"]},
    "admin": {},
}


class Hosts(Desk):
    """A provider whose hosts look people up with a token of their own."""

    token = ""

    async def look(self, path: str) -> Answer:
        """As SSSD asks: with a content type and no body."""
        return await self.get(path, headers={**bearer(self.token), "Content-Type": "application/json", "Accept": "application/json"})

    async def found(self, path: str) -> Any:
        answer = await self.look(path)
        assert (answer.status, answer.headers["Content-Type"], answer.headers["Cache-Control"]) == (200, "application/json", "no-store")
        return answer.json


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hosts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hosts]:
    folder = tmp_path_factory.mktemp("idp")
    users = write_users(folder / "people.toml", PASSWORD, PEOPLE)
    users.write_text(f"{users.read_text()}\n{GROUP}")
    server = {"auth_rate_limit": 0, "realm": REALM}
    async with open_desk(folder, "device-flow", "identity-api", users={"file": str(users)}, server=server) as desk:
        hosts = Hosts(desk.service, desk.http, desk.clock, folder)
        hosts.admin = desk.admin
        hosts.client = await hosts.registered(
            token_endpoint_auth_method="client_secret_post",
            grant_types=["client_credentials", GRANT],
            redirect_uris=[],
            scopes=["openid", "profile", "email", "directory.read"],
        )
        hosts.token = await token_of(hosts, "directory.read")
        yield hosts


async def token_of(hosts: Hosts, scope: str) -> str:
    client = {"client_id": hosts.client["client_id"], "client_secret": SECRET}
    answer = await hosts.post("/token", data={"grant_type": "client_credentials", **client, "scope": scope})
    assert answer.status == 200, answer.text
    token: str = answer.json["access_token"]
    return token


async def test_idp_108_idp_335_a_user_is_found_by_the_exact_name(hosts: Hosts) -> None:
    (ann,) = await hosts.found(f"{USERS}?username=ann{EXACT}")

    assert ann == {
        "id": f"ann@{REALM}", "username": "ann", "enabled": True, "name": "Ann Smith", "given_name": "Ann", "family_name": "Smith",
        "firstName": "Ann", "lastName": "Smith", "email": "ann@example.test", "uid_number": 1001, "gid_number": 2001,
        "home_directory": "/home/ann", "login_shell": "/bin/bash",
    }  # fmt: skip
    assert await hosts.found(f"{USERS}?username=ben{EXACT}") == [{"id": f"ben@{REALM}", "username": "ben", "enabled": False}]


@pytest.mark.parametrize("name", [f"ann%40{REALM}", "ann@example.test", "ann%40Example.Test"])
async def test_idp_335_the_realm_of_a_name_may_be_in_any_case(hosts: Hosts, name: str) -> None:
    (ann,) = await hosts.found(f"{USERS}?username={name}{EXACT}&unknown=parameter&briefRepresentation=false")

    assert (ann["id"], ann["username"]) == (f"ann@{REALM}", "ann")


@pytest.mark.parametrize(
    "name",
    ["an", "annn", "Ann", "ann@OTHER.TEST", "@EXAMPLE.TEST", "%40", "a*", "*", "ann%00", "%20ann", "ann)(uid=*", "%5c2a", "a" * 4000],
)
async def test_s087_idp_335_only_the_whole_name_finds_a_user(hosts: Hosts, name: str) -> None:
    assert await hosts.found(f"{USERS}?username={name}{EXACT}") == []


@pytest.mark.parametrize("name", ["staf", "STAFF", "*", "st*", "staff)(cn=*", "staff%00", "%5c", "staff@EXAMPLE.TEST"])
async def test_s087_idp_337_only_the_whole_name_finds_a_group(hosts: Hosts, name: str) -> None:
    assert await hosts.found(f"{GROUPS}?search={name}{EXACT}") == []


async def test_idp_337_a_group_is_found_by_the_exact_name(hosts: Hosts) -> None:
    asked = f"{GROUPS}?search=staff{EXACT}&populateHierarchy=false&briefRepresentation=false"
    staff = {"id": "staff", "name": "staff", "path": "/staff", "description": "Who works here", "gid_number": 2001}

    assert await hosts.found(asked) == [staff]
    assert await hosts.found(f"{GROUPS}?search=admins{EXACT}") == [{"id": "admins", "name": "admins", "path": "/admins"}]


@pytest.mark.parametrize("id_", ["ann", f"ann@{REALM}", "ann@example.test", "ann%40EXAMPLE.TEST"])
async def test_idp_336_the_groups_of_a_user_by_the_short_name_or_the_whole(hosts: Hosts, id_: str) -> None:
    staff, admins = await hosts.found(f"{USERS}/{id_}/groups?briefRepresentation=false")

    assert (staff["id"], staff["gid_number"], admins["id"]) == ("staff", 2001, "admins")
    assert "username" not in staff
    assert await hosts.found(f"{USERS}/admin/groups") == []


async def test_idp_108_idp_338_members_have_an_id_and_a_username_and_nothing_else(hosts: Hosts) -> None:
    assert await hosts.found(f"{GROUPS}/staff/members") == [
        {"id": f"ann@{REALM}", "username": "ann"},
        {"id": f"ben@{REALM}", "username": "ben"},
    ]


@pytest.mark.parametrize(
    "path", [f"{USERS}/nobody/groups", f"{USERS}/ann@OTHER/groups", f"{USERS}/@{REALM}/groups", f"{GROUPS}/none/members"]
)
async def test_idp_336_idp_338_who_is_not_there_is_404_in_the_second_phase(hosts: Hosts, path: str) -> None:
    assert (await hosts.look(path)).outcome == (404, "not_found")


@pytest.mark.parametrize(
    "asked",
    [
        f"{USERS}", f"{USERS}?exact=true", f"{USERS}?username=&exact=true", f"{USERS}?username=ann", f"{USERS}?username=ann&exact=false",
        f"{USERS}?username=ann&exact=True", f"{USERS}?username=ann&username=ben&exact=true", f"{USERS}?username=%ff&exact=true",
        f"{GROUPS}", f"{GROUPS}?search=staff", f"{GROUPS}?exact=true", f"{GROUPS}?search=staff&exact=1",
    ],
)  # fmt: skip
async def test_idp_335_idp_337_a_search_needs_a_name_and_exact(hosts: Hosts, asked: str) -> None:
    assert (await hosts.look(asked)).outcome == (400, "invalid_request")


@pytest.mark.parametrize(
    "path", [f"{USERS}?username=ann{EXACT}", f"{USERS}/ann/groups", f"{GROUPS}?search=staff{EXACT}", f"{GROUPS}/staff/members"]
)
async def test_idp_065_idp_334_idp_347_every_call_needs_a_token_with_the_scope(hosts: Hosts, path: str) -> None:
    without, other = await hosts.get(path), await token_of(hosts, "profile")

    assert (without.outcome, without.headers["WWW-Authenticate"]) == ((401, "unauthenticated"), "Bearer")
    for headers in (bearer("x"), bearer(hosts.token[:-4] + "AAAA")):
        refused = await hosts.get(path, headers=headers)
        assert (refused.outcome, 'error="invalid_token"' in refused.headers["WWW-Authenticate"]) == ((401, "invalid_token"), True)
    refused = await hosts.get(path, headers=bearer(other))
    assert refused.outcome == (403, "insufficient_scope")
    assert 'error="insufficient_scope"' in refused.headers["WWW-Authenticate"]
    assert 'scope="directory.read"' in refused.headers["WWW-Authenticate"]
    assert (await hosts.look(path)).status == 200
    assert (await hosts.ask("POST", path, headers=bearer(hosts.token))).status == 405


async def test_idp_065_a_client_gets_the_scope_only_when_an_administrator_gave_it(hosts: Hosts) -> None:
    client = await hosts.registered(grant_types=["client_credentials"], redirect_uris=[], scopes=["openid"])

    answer = await hosts.form("/token", {"grant_type": "client_credentials", "scope": "directory.read"}, by=client)

    assert answer.outcome == (400, "invalid_scope")


async def test_the_requests_of_sssd_byte_for_byte(hosts: Hosts) -> None:
    async def ask(target: str) -> Any:
        place = urlsplit(hosts.url)
        lines = (
            f"GET {target} HTTP/1.1", f"Host: {place.netloc}", "User-Agent: SSSD oidc_child/0.0", "Accept: application/json",
            f"Authorization: Bearer {hosts.token}", "Content-Type: application/json", "Connection: close",
        )  # fmt: skip
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write("\r\n".join((*lines, "", "")).encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert head.startswith(b"HTTP/1.1 200 ")
        return msgspec.json.decode(body)

    (user,) = await ask(f"{USERS}?username=ann%40example.test&exact=true")
    groups = await ask(f"{USERS}/{user['id']}/groups?briefRepresentation=false")
    (group,) = await ask(f"{GROUPS}?search=staff&exact=true&populateHierarchy=false&briefRepresentation=false")
    members = await ask(f"{GROUPS}/{group['id']}/members")

    assert ([one["name"] for one in groups], [one["username"] for one in members]) == (["staff", "admins"], ["ann", "ben"])


async def test_whoever_signs_in_on_a_host_has_the_id_that_was_looked_up(hosts: Hosts) -> None:
    """With an issuer alone SSSD asks for every scope of the metadata: what the client may have is granted."""
    device = await device_of(hosts, consent="implicit", scopes=["openid", "profile"])
    metadata = (await hosts.get("/.well-known/openid-configuration")).json
    ann = await hosts.cookie("ann")

    await device.begin(scope=" ".join(metadata["scopes_supported"]))
    assert (await device.decide(ann)).status == 200
    tokens = (await device.poll()).json

    assert {"directory.read", "offline_access", "groups"} <= set(metadata["scopes_supported"])
    assert set(tokens["scope"].split()) == {"openid", "profile"}
    (looked_up,) = await hosts.found(f"{USERS}?username=ann{EXACT}")
    assert (await hosts.userinfo(tokens["access_token"])).json["sub"] == looked_up["id"] == f"ann@{REALM}"
