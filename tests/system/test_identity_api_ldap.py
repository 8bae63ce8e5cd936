"""What hosts ask of the people in an LDAP server: nested groups, hostile names, and a server that is down."""

from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
import pytest_asyncio
from rig.slapd import REALM, SERVICE, SERVICE_PASSWORD, SUFFIX, Slapd
from security.idp_desk import Desk, open_desk

from greatseal.testing.desk import Answer, bearer

pytestmark = pytest.mark.asyncio(loop_scope="module")

USERS, GROUPS, EXACT = "/api/identity/users", "/api/identity/groups", "&exact=true"
HOSTILE = (
    "*",
    "al*",
    "alice)(uid=*",
    "*)(objectClass=*",
    "alice%00",
    "%5c2a",
    "%5c",
    "alice%29%28%7c(uid=%2a",
    "(",
    "%00",
    "dc=test",
    "e" * 4000,
)


class Hosts:
    """A service over a directory, and a token of its hosts."""

    def __init__(self, desk: Desk, slapd: Slapd, token: str) -> None:
        self.slapd = slapd
        self._desk = desk
        self._token = token

    async def look(self, path: str) -> Answer:
        return await self._desk.get(path, headers=bearer(self._token))

    async def found(self, path: str) -> Any:
        answer = await self.look(path)
        assert answer.status == 200, answer.text
        return answer.json


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hosts(tmp_path_factory: pytest.TempPathFactory, make_slapd: Any) -> AsyncIterator[Hosts]:
    folder: Path = tmp_path_factory.mktemp("idp")
    with make_slapd() as slapd:
        ipa = {"ldap_uri": slapd.uri, "base_dn": SUFFIX, "start_tls": False, "bind_dn": SERVICE, "bind_password": SERVICE_PASSWORD}
        async with open_desk(folder, "ipa", "identity-api", server={"auth_rate_limit": 0, "realm": REALM}, ipa=ipa) as desk:
            client = await desk.registered(grant_types=["client_credentials"], redirect_uris=[], scopes=["directory.read"])
            answer = await desk.form("/token", {"grant_type": "client_credentials", "scope": "directory.read"}, by=client)
            yield Hosts(desk, slapd, answer.json["access_token"])


@pytest.mark.parametrize("name", ["alice", "ALICE", f"alice@{REALM}", f"alice@{REALM.lower()}"])
async def test_idp_335_a_user_is_found_and_has_the_id_of_the_canonical_name(hosts: Hosts, name: str) -> None:
    (alice,) = await hosts.found(f"{USERS}?username={name}{EXACT}")

    assert (alice["id"], alice["username"], alice["name"]) == (f"alice@{REALM}", "alice", "Alice Anderson")
    assert {"uid_number", "gid_number"} <= set(alice)


async def test_idp_336_groups_are_told_with_nested_ones_and_those_without_a_number(hosts: Hosts) -> None:
    groups = {group["id"]: group for group in await hosts.found(f"{USERS}/alice@{REALM}/groups")}

    assert set(groups) == {"devs", "editors", "ipausers", "ops"}
    assert groups["ops"] == {"id": "ops", "name": "ops", "path": "/ops", "description": "group ops", "gid_number": 200003}
    assert "gid_number" not in groups["ipausers"]


async def test_idp_338_members_of_a_nested_group_are_members(hosts: Hosts) -> None:
    members = await hosts.found(f"{GROUPS}/ops/members")

    assert sorted(one["username"] for one in members) == ["alice", "bob", "dave", "henry"]
    assert all(one == {"id": f"{one['username']}@{REALM}", "username": one["username"]} for one in members)


@pytest.mark.parametrize(
    ("name", "id_"),
    [("domain admins", "domain%20admins"), ("q/a? #1 100%", "q%2Fa%3F%20%231%20100%25"), ("(büro)*", "(b%C3%BCro)*")],
)
async def test_idp_338_a_group_of_any_name_is_found_by_its_id_as_it_is(hosts: Hosts, name: str, id_: str) -> None:
    place = b64encode(f"cn={name.replace('#', chr(92) + '#')},cn=groups,cn=accounts,{SUFFIX}".encode()).decode()
    value, bob = b64encode(name.encode()).decode(), f"uid=bob,cn=users,cn=accounts,{SUFFIX}"
    classes = "".join(f"objectClass: {one}\n" for one in ("top", "groupOfNames", "nestedGroup", "ipaUserGroup", "ipaObject"))
    unique = f"ipaUniqueID: {uuid4()}\n"
    hosts.slapd.modify(f"dn:: {place}\nchangetype: add\n{classes}cn:: {value}\nmember: {bob}\n{unique}")
    hosts.slapd.modify(f"dn: {bob}\nchangetype: modify\nadd: memberOf\nmemberOf:: {place}\n")

    (group,) = await hosts.found(f"{GROUPS}?search={quote(name, safe='')}{EXACT}")
    assert (group["id"], group["name"]) == (id_, name)
    assert await hosts.found(f"{GROUPS}/{group['id']}/members") == [{"id": f"bob@{REALM}", "username": "bob"}]


@pytest.mark.parametrize("name", HOSTILE)
async def test_s087_no_name_is_a_filter(hosts: Hosts, name: str) -> None:
    assert await hosts.found(f"{USERS}?username={name}{EXACT}") == []
    assert await hosts.found(f"{USERS}?username={name}%40{REALM}{EXACT}") == []
    assert await hosts.found(f"{GROUPS}?search={name}{EXACT}") == []
    assert (await hosts.look(f"{USERS}/{name}/groups")).status == 404
    assert (await hosts.look(f"{GROUPS}/{name}/members")).status == 404


async def test_while_the_server_is_down_nobody_is_told_to_be_gone(hosts: Hosts) -> None:
    hosts.slapd.stop()
    try:
        for path in (
            f"{USERS}?username=bob{EXACT}",
            f"{USERS}?username=nobody{EXACT}",
            f"{USERS}/bob/groups",
            f"{GROUPS}?search=admins{EXACT}",
            f"{GROUPS}/admins/members",
        ):
            answer = await hosts.look(path)
            assert answer.outcome == (503, "directory_unavailable")
            assert int(answer.headers["Retry-After"]) > 0
    finally:
        hosts.slapd.start()
