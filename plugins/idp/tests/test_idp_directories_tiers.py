"""Several directories as one."""

from collections.abc import Sequence
from types import SimpleNamespace

import msgspec
import pytest

from greatseal.api.directory import AccountState, Directory, DirectoryUnavailable, Group, Tier, User
from greatseal.api.identity import AccountRefused
from greatseal.testing import FakeClock
from greatseal_idp.directories import DirectoriesImpl, PasswordChanged


class Source(Directory):
    """Names are users and groups at once."""

    def __init__(self, name: str, tier: Tier, realm: str, *names: str) -> None:
        self.name, self.tier, self._realm = name, tier, realm  # type: ignore[misc]  # one class for several sources
        self.names = names
        self.down = False
        self.asked: list[str] = []

    @property
    def realm(self) -> str:
        return self._realm

    async def user(self, username: str) -> User | None:
        self._ask(username)
        state = AccountState(disabled=username == "off")
        if username not in self.names:
            return None
        changed = 100 if username in {"off", "new"} else None
        return User(username=username, realm=self._realm, source=self.name, state=state, password_changed_at=changed)

    async def group(self, name: str) -> Group | None:
        self._ask(name)
        return Group(name=name, realm=self._realm, source=self.name) if name in self.names else None

    async def users(self, prefix: str, limit: int, after: str = "") -> Sequence[User]:
        self._ask(prefix)
        found = [name for name in sorted(self.names) if name.startswith(prefix)]
        return [User(username=name, realm=self._realm, source=self.name) for name in found][:limit]

    async def hostgroups_of(self, hostname: str) -> frozenset[str] | None:
        return frozenset(self.names) if hostname in self.names else None

    def _ask(self, name: str) -> None:
        self.asked.append(name)
        if self.down:
            raise DirectoryUnavailable(cause=self.name)


@pytest.fixture
def sources():
    return [
        Source("ldap", Tier.DIRECTORY, "EXAMPLE.COM", "ann", "ben", "off", "new"),
        Source("file", Tier.STATIC, "EXAMPLE.COM", "ann", "cleo"),
        Source("other", Tier.STATIC, "OTHER", "ann", "dora"),
    ]


@pytest.fixture
def directories(sources):
    return directories_of(sources)


def directories_of(sources, realm="EXAMPLE.COM"):
    return DirectoriesImpl(SimpleNamespace(components=lambda _: {one.name: one for one in sources}, clock=FakeClock(), realm=realm))


async def test_static_files_are_asked_first_and_the_first_that_knows_decides(directories, sources):
    assert (await directories.user("ann")).source == "file"
    assert sources[0].asked == []
    assert (await directories.user("ben")).source == "ldap"
    assert (await directories.group("dora")).source == "other"
    assert await directories.user("nobody") is None


async def test_a_short_name_is_that_of_the_home_realm_before_one_of_another_realm(directories, sources):
    """Another provider, or a partner, chooses the names of its realm: nobody there is taken for somebody of this one."""
    partner = Source("partner", Tier.STATIC, "PARTNER", "ben", "eve")
    directories = directories_of([partner, *sources])

    assert (await directories.user("ben")).source == "ldap"
    assert partner.asked == []
    assert (await directories.user("eve")).source == "partner"
    sources[0].down = True
    with pytest.raises(DirectoryUnavailable):
        await directories.user("eve")


@pytest.mark.parametrize("name", ["ann@OTHER", "ann@other"])
async def test_a_subject_is_looked_up_in_its_realm_alone(directories, sources, name):
    assert (await directories.user(name)).source == "other"
    assert await directories.user("cleo@OTHER") is None
    assert sources[0].asked == sources[1].asked == []
    assert await directories.user("ann@NOWHERE") is None


async def test_the_groups_of_a_user_are_those_of_their_home(directories):
    ann = msgspec.structs.replace(await directories.user("ann@OTHER"), groups=("ann", "staff"))

    assert [(group.name, group.realm, group.source) for group in await directories.groups_of(ann)] == [
        ("ann", "OTHER", "other"),
        ("staff", "OTHER", "other"),
    ]


async def test_an_outage_is_never_an_empty_answer_and_nothing_after_it_is_asked(directories, sources):
    sources[0].down = True
    assert (await directories.user("cleo")).source == "file"
    with pytest.raises(DirectoryUnavailable):
        await directories.user("ben")
    sources[1].down = True
    with pytest.raises(DirectoryUnavailable):
        await directories.user("ann")
    assert sources[0].asked == ["ben"]


async def test_a_search_has_each_name_once_and_ends_at_its_limit(directories, sources):
    assert [(user.username, user.source) for user in await directories.users("", 3)] == [
        ("ann", "file"),
        ("cleo", "file"),
        ("dora", "other"),
    ]
    assert sources[0].asked == []
    assert len(await directories.users("", 10)) == 6
    assert await directories.hostgroups_of("ann") == {"ann", "ben", "cleo", "dora", "off", "new"}
    assert await directories.hostgroups_of("nobody") == frozenset()


async def test_accounts_that_may_not_be_used(directories):
    assert (await directories.account("ann@EXAMPLE.COM", auth_time=None)).username == "ann"
    for subject in ("off@EXAMPLE.COM", "gone@EXAMPLE.COM"):
        with pytest.raises(AccountRefused):
            await directories.account(subject, auth_time=None)


async def test_what_was_begun_before_the_password_was_set_has_ended(directories):
    for auth_time in (100, 101, None):
        assert (await directories.account("new@EXAMPLE.COM", auth_time=auth_time)).username == "new"
    assert (await directories.account("ann@EXAMPLE.COM", auth_time=0)).username == "ann"
    for subject in ("new@EXAMPLE.COM", "off@EXAMPLE.COM"):  # the other one is disabled too, and may be enabled again
        with pytest.raises(PasswordChanged):
            await directories.account(subject, auth_time=99)


async def test_service_principals_and_foreign_realms_need_no_entry(directories):
    assert await directories.account("host/web.example.com@EXAMPLE.COM", auth_time=None) is None
    assert await directories.account("zoe@TRUSTED", auth_time=None) is None
