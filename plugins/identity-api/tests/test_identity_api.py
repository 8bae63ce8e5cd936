"""Ids, outages, large groups, and what a directory is never asked."""

import asyncio
import re
from urllib.parse import quote, unquote, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.directory import AccountState, Group, User
from greatseal.testing.calls import FakeCall
from greatseal.testing.directories import FakeDirectories
from greatseal_identity_api.members import KEPT, MOST, PIECE, Members, TooManyMembers
from greatseal_identity_api.objects import group_of, id_of, member_of, user_of
from greatseal_identity_api.routes import DirectoryDown, IdentityApi

REALM = "EXAMPLE.TEST"
ANN = User(username="ann", realm=REALM, source="ipa", groups=("staff", "ops"))
BEN = User(username="ben", realm=REALM, source="ipa", groups=("staff",))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
SSSD = re.compile(r"(?:[A-Za-z0-9._~@!$&'()*+,;=:-]|%[0-9A-F]{2})+")


class Asked(FakeDirectories):
    """Keeps what was asked."""

    def __init__(self, *people):
        super().__init__(*people)
        self.questions = []

    async def user(self, username):
        self.questions.append(username)
        return await super().user(username)

    async def group(self, name):
        self.questions.append(name)
        return await super().group(name)


def body_of(reply):
    assert (reply.status, reply.content_type) == (200, "application/json")
    return msgspec.json.decode(reply.body)


def searching(parameter, name):
    return FakeCall(url=f"https://idp.example/x?{parameter}={quote(name, safe='')}&exact=true")


def about(**path):
    call = FakeCall()
    call.path = path
    return call


# ---- Ids


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ann@EXAMPLE.TEST", "ann@EXAMPLE.TEST"),
        ("a.b_c~d-e!$&'()*+,;=:", "a.b_c~d-e!$&'()*+,;=:"),
        ("domain admins", "domain%20admins"),
        ("a/b?c#d", "a%2Fb%3Fc%23d"),
        ("100%", "100%25"),
        ("büro", "b%C3%BCro"),
    ],
)
def test_an_id_is_the_name_as_it_stands_in_an_url(name, expected):
    assert id_of(name) == expected


@given(NAMES)
def test_whatever_the_name_its_id_leads_back_to_it_and_to_nobody_else(name):
    id_ = id_of(name)
    assert SSSD.fullmatch(id_)

    url = urlsplit(f"https://idp.example/api/identity/groups/{id_}/members")
    assert [unquote(segment) for segment in url.path.split("/")[1:]] == ["api", "identity", "groups", name, "members"]
    assert (url.netloc, url.query, url.fragment) == ("idp.example", "", "")


@given(NAMES, NAMES)
def test_a_name_cannot_make_the_path_of_another(name, other):
    if name != other:
        assert id_of(name) != id_of(other)


def test_a_group_is_never_taken_for_a_user():
    group = Group(name="username", realm=REALM, source="ipa", display_name="username", gid_number=1, members=("username",))

    assert group_of(group) == {"id": "username", "name": "username", "path": "/username", "description": "username", "gid_number": 1}


def test_what_the_home_does_not_say_is_left_out():
    off = User(username="o p", realm=REALM, source="ipa", gid_number=0, state=AccountState(disabled=True))

    assert user_of(off) == {"id": f"o%20p@{REALM}", "username": "o p", "enabled": False, "gid_number": 0}
    assert member_of("o p", REALM) == {"id": f"o%20p@{REALM}", "username": "o p"}


# ---- Look-ups


@given(NAMES)
def test_s087_a_look_up_finds_the_very_name_or_nobody(name):
    api = IdentityApi(FakeDirectories(ANN, BEN))

    async def found():
        return body_of(await api.users(searching("username", name))), body_of(await api.groups(searching("search", name)))

    users, groups = asyncio.run(found())
    assert [user["username"] for user in users] == [one.username for one in (ANN, BEN) if name in {one.username, one.subject}]
    assert [group["name"] for group in groups] == [one for one in ("staff", "ops") if one == name]


@pytest.mark.parametrize("name", ["a\0", "\n", "a\x7f"])
async def test_s087_no_directory_is_asked_for_a_name_that_nobody_has(name):
    directories = Asked(ANN)
    api = IdentityApi(directories)

    assert body_of(await api.users(searching("username", name))) == []
    assert body_of(await api.groups(searching("search", name))) == []
    assert body_of(await api.users(searching("username", f"@{REALM}"))) == []
    assert directories.questions == []


async def test_an_outage_is_503_and_never_an_empty_answer():
    directories = FakeDirectories(ANN)
    api = IdentityApi(directories)
    directories.down = True

    for asked in (
        api.users(searching("username", "ann")),
        api.users(searching("username", "nobody")),
        api.groups(searching("search", "staff")),
        api.groups_of(about(id="ann")),
        api.members(about(name="staff")),
    ):
        with pytest.raises(DirectoryDown) as refused:
            await asked
        assert (refused.value.status, refused.value.error) == (503, "directory_unavailable")
        assert int(refused.value.headers["Retry-After"]) > 0


async def test_an_outage_between_a_user_and_their_groups_is_503():
    directories = FakeDirectories(ANN)
    real = directories.user

    async def last(username):
        found = await real(username)
        directories.down = True
        return found

    directories.user = last
    with pytest.raises(DirectoryDown):
        await IdentityApi(directories).groups_of(about(id="ann"))


# ---- Large groups


def large(count, name="all"):
    return Group(name=name, realm=REALM, source="ipa", members=tuple(f"user{number:06}" for number in range(count)))


@pytest.mark.parametrize("count", [0, 1, PIECE, PIECE + 1, 3 * PIECE])
async def test_idp_338_every_member_is_told_once_in_order(count):
    told = msgspec.json.decode(await Members().of(large(count)))

    assert [one["username"] for one in told] == [f"user{number:06}" for number in range(count)]
    assert all(one == {"id": f"{one['username']}@{REALM}", "username": one["username"]} for one in told)


async def test_half_a_group_is_no_answer():
    with pytest.raises(TooManyMembers, match=f"{MOST} are told at most") as refused:
        await Members().of(large(MOST + 1))

    assert (refused.value.status, refused.value.error) == (409, "too_many_members")


async def test_a_group_that_its_directory_does_not_list_whole_is_no_answer():
    with pytest.raises(TooManyMembers, match="more members than its directory lists"):
        await Members().of(msgspec.structs.replace(large(2), whole=False))


async def test_others_are_served_while_a_large_group_is_written():
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    await Members().of(large(10 * PIECE))
    other.cancel()

    assert turns >= 10


async def test_those_who_ask_for_one_large_group_share_its_answer():
    members = Members()
    first = await members.of(large(5 * PIECE))

    again = [await members.of(large(5 * PIECE)) for _ in range(10)]

    assert all(one is first for one in again)
    changed = msgspec.json.decode(await members.of(large(5 * PIECE + 1)))
    assert len(changed) == 5 * PIECE + 1


async def test_a_few_answers_are_kept_and_those_that_were_asked_last():
    members = Members()
    first = await members.of(large(PIECE + 1, "0"))
    for number in range(1, KEPT):
        await members.of(large(PIECE + 1, str(number)))
    assert await members.of(large(PIECE + 1, "0")) is first
    await members.of(large(PIECE + 1, "more"))

    assert await members.of(large(PIECE + 1, "0")) is first
    assert len(members._kept) == KEPT
    assert "1" not in members._kept
