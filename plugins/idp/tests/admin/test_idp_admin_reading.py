"""Users, groups and nodes over the admin API: they are only read (document, "Users and groups"; ruling R55)."""

import socket
import sys

import pytest

from greatseal import __version__
from greatseal.testing import FakeClock
from greatseal.testing.distributions import install

CREW = """
from greatseal import hookimpl
from greatseal.api.directory import AccountState, Directory, DirectoryUnavailable, Group, Tier, User

GROUPS = {
    "staff": Group(name="staff", realm="CREW", source="crew", display_name="All staff", gid_number=100, members=("alice", "zoe")),
    "empty": Group(name="empty", realm="CREW", source="crew"),
}
FACTS = {"down": False}


class Crew(Directory):
    name = "crew"
    tier = Tier.STATIC
    realm = "CREW"

    async def user(self, username):
        return None

    async def group(self, name):
        return GROUPS.get(name)

    async def groups(self, prefix, limit, after=""):
        return [GROUPS[name] for name in sorted(GROUPS) if name.startswith(prefix) and name > after][:limit]


class Far(Directory):
    name = "far"
    tier = Tier.DIRECTORY
    realm = "FAR"

    async def user(self, username):
        if FACTS["down"]:
            raise DirectoryUnavailable("the directory cannot be reached")
        known = User(username="zoe", realm="FAR", source="far", state=AccountState(disabled=True))
        return known if username == "zoe" else None

    async def users(self, prefix, limit, after=""):
        raise AssertionError("only static users are listed")

    async def group(self, name):
        return Group(name="everybody", realm="FAR", source="far", members=("zoe",), whole=False) if name == "everybody" else None


class Plugin:
    @hookimpl
    def directories(self, host):
        return [Far(), Crew()]
"""


@pytest.fixture
async def admin(open_admin, tmp_path, monkeypatch):
    folder = tmp_path / "crew"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return await open_admin(install(folder, "greatseal-crew", CREW), clock=FakeClock(1_800_000_000_000_000))


async def test_idp_152_the_users_of_static_directories_are_listed(admin):
    answer = await admin.get("users")

    assert (answer.status, [user["username"] for user in answer.json]) == (200, ["alice", "bob"])
    assert answer.json[0] == {
        "username": "alice",
        "display_name": "Alice",
        "email": "alice@example.com",
        "groups": ["staff"],
        "uid_number": 7,
        "gid_number": None,
        "enabled": True,
        "source": "static",
    }


async def test_idp_153_one_user_by_short_name_or_with_the_realm(admin):
    answer = await admin.get("users/bob")

    assert (answer.status, answer.json) == (200, (await admin.get("users/bob@LOCALHOST")).json)
    assert (answer.json["username"], answer.json["source"]) == ("bob", "static")
    unknown = await admin.get("users/nobody")
    assert (unknown.status, unknown.json["error"]) == (404, "not_found")


async def test_a_user_of_a_directory_says_where_it_lives_and_that_it_is_disabled(admin):
    answer = await admin.get("users/zoe")

    assert (answer.json["source"], answer.json["enabled"], answer.json["email"]) == ("far", False, None)


async def test_a_directory_that_is_down_is_503_and_not_404(admin):
    sys.modules["greatseal_crew"].FACTS["down"] = True

    answer = await admin.get("users/nobody")

    assert (answer.status, answer.json["error"]) == (503, "unavailable")
    assert answer.headers["Retry-After"]
    assert (await admin.get("users")).status == 200


async def test_a_user_record_holds_no_password(admin):
    for path in ("users", "users/alice"):
        answer = await admin.get(path)
        assert "wonderland" not in answer.text
        assert "password" not in answer.text


async def test_idp_154_groups_are_listed(admin):
    answer = await admin.get("groups")

    assert (answer.status, [group["name"] for group in answer.json]) == (200, ["empty", "staff"])
    assert answer.json[0] == {"name": "empty", "description": None, "gid_number": None, "members": []}


async def test_idp_155_one_group_with_its_members(admin):
    answer = await admin.get("groups/staff")

    assert (answer.status, answer.json) == (
        200,
        {"name": "staff", "description": "All staff", "gid_number": 100, "members": ["alice", "zoe"], "whole": True},
    )
    assert (await admin.get("groups/nothing")).status == 404


async def test_idp_155_a_group_whose_members_are_not_all_there_says_so(admin):
    group = (await admin.get("groups/everybody")).json

    assert (group["members"], group["whole"]) == (["zoe"], False)


async def test_users_and_groups_cannot_be_written(admin):
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in ("users", "users/alice", "groups", "groups/staff"):
            assert (await admin.ask(method, path, {})).status == 405


async def test_idp_139_r55_the_nodes_are_this_one(admin):
    answer = await admin.get("nodes")

    assert (answer.status, answer.json) == (
        200,
        [
            {
                "node_id": "n1",
                "name": socket.gethostname(),
                "address": admin.desk.url,
                "status": "alive",
                "last_seen": 1_800_000_000,
                "self": True,
                "version": __version__,
                "started_at": 1_800_000_000,
                "protocol": None,
                "clock_offset_ms": 0,
                "differing_buckets": 0,
                "stable_hlc": None,
                "kek_ids": [(await admin.get("keys/cluster")).json["key_id"]],
                "roles": [],
            }
        ],
    )
