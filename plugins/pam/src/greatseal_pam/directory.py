"""The accounts of this machine as a directory."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from greatseal.api.directory import AccountState, Directory, DirectoryUnavailable, Group, Tier, User
from greatseal.api.messages import Message
from greatseal.api.problems import Unavailable
from greatseal.api.tokens import ClaimsProvider
from greatseal_pam.names import is_name, short_name
from greatseal_pam.pool import Helpers


class Account(msgspec.Struct, frozen=True):
    """An account as the helper tells it (:mod:`greatseal_pam.accounts`)."""

    username: str
    uid: int
    gid: int
    home: str
    shell: str
    display_name: str | None = None
    groups: tuple[str, ...] = ()
    locked: bool = False
    expired: bool = False
    password_expired: bool = False


class Unit(msgspec.Struct, frozen=True):
    """A group as the helper tells it."""

    name: str
    gid: int
    members: tuple[str, ...] = ()


class AccountDirectory(Directory):
    """What the name service switch knows: files of this machine, and servers that it is told to ask."""

    name = "pam"
    tier = Tier.DIRECTORY

    def __init__(self, helpers: Helpers, realm: str, min_uid: int) -> None:
        self._helpers = helpers
        self._realm = realm
        self._min_uid = min_uid

    @property
    def realm(self) -> str:
        return self._realm

    async def user(self, username: str) -> User | None:
        if not is_name(username):
            return None
        found: Account | None = await self._ask(Account | None, "user", name=username)
        return self._user(found) if found else None

    async def group(self, name: str) -> Group | None:
        if not is_name(name):
            return None
        found: Unit | None = await self._ask(Unit | None, "group", name=name)
        return self._group(found) if found else None

    async def users(self, prefix: str, limit: int, after: str = "") -> Sequence[User]:
        found: tuple[Account, ...] = await self._ask(tuple[Account, ...], "users", prefix=prefix, limit=limit, after=after)
        return [user for account in found if (user := self._user(account))]

    async def groups(self, prefix: str, limit: int, after: str = "") -> Sequence[Group]:
        found: tuple[Unit, ...] = await self._ask(tuple[Unit, ...], "groups", prefix=prefix, limit=limit, after=after)
        return [self._group(one) for one in found]

    async def _ask(self, type: Any, what: str, **question: object) -> Any:
        try:
            return await self._helpers.ask({"ask": what, "min_uid": self._min_uid, **question}, type)
        except Unavailable as problem:
            raise DirectoryUnavailable(Message("the accounts of this machine cannot be looked up now"), cause=problem.cause) from None

    def _user(self, account: Account) -> User | None:
        username = short_name(account.username, self._realm)
        if username is None:
            return None  # of another domain, which this machine knows too
        return User(
            username=username,
            realm=self._realm,
            source=self.name,
            display_name=account.display_name,
            uid_number=account.uid,
            gid_number=account.gid,
            home_directory=account.home or None,
            login_shell=account.shell or None,
            groups=account.groups,
            state=AccountState(locked=account.locked, expired=account.expired, password_expired=account.password_expired),
        )

    def _group(self, unit: Unit) -> Group:
        return Group(name=unit.name, realm=self._realm, source=self.name, gid_number=unit.gid, members=unit.members)


class AccountClaims(ClaimsProvider):
    """The claims that an account has words for."""

    name = "pam"
    claims = frozenset({"groups", "name", "preferred_username"})

    def __init__(self, directory: AccountDirectory) -> None:
        self._directory = directory

    async def of(self, subject: str, wanted: frozenset[str]) -> Mapping[str, Any]:
        username, _, realm = subject.rpartition("@")
        user = await self._directory.user(username) if realm == self._directory.realm else None
        if user is None:
            return {}
        known = {"name": user.display_name, "preferred_username": user.username, "groups": list(user.groups) or None}
        return {claim: value for claim, value in known.items() if claim in wanted and value is not None}
