"""All directories as one, and whether an account may be used now (service ``DIRECTORIES``)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from greatseal.api.directory import AccountState, Directory, Group, Tier, User
from greatseal.api.identity import AccountRefused
from greatseal.api.messages import Message
from greatseal.host import Host
from greatseal.principals import principal_of

T = TypeVar("T")

AHEAD = 600_000_000
"""Microseconds by which a sign-in may seem to lie ahead: the clock of a directory, or ours before it was set back."""


class PasswordChanged(AccountRefused):
    """The password was set after the sign-in: what that began has ended (ASVS 7.4.3)."""


class DirectoriesImpl:
    """The STATIC tier first, then DIRECTORY, each in the configured order; the first that knows a name decides.

    A short name is one of the home realm as long as somebody there has it: the names of other realms are chosen by others.
    """

    def __init__(self, host: Host) -> None:
        self._host = host

    async def user(self, username: str) -> User | None:
        short, at, realm = username.rpartition("@")
        for directory in self._of_realm.get(realm.upper(), ()) if at else self._home_first:
            if (user := await directory.user(short if at else username)) is not None:
                return user
        return None

    async def account(self, subject: str, *, auth_time: int | None) -> User | None:
        """The user of a canonical subject, whose account may sign in now. None for somebody whom no directory has to know.

        That is a service principal, and a user of a realm without a directory. ``auth_time`` (microseconds) is when the person signed in,
        None when no sign-in is behind the question. Raises AccountRefused, PasswordChanged when the password was set after the sign-in,
        and DirectoryUnavailable.
        """
        user = await self.user(subject)
        if user is not None:
            # First: an account that may not be used now may be used again, what was begun with the old password never.
            require_current(user, auth_time, self._host.clock.now())
            require_usable(user.state)
        elif subject.rpartition("@")[2].upper() in self._of_realm and not is_service(subject):
            raise AccountRefused(Message("this service does not know this account, or not any more"), cause=f"no directory has {subject}")
        return user

    async def with_email(self, email: str) -> Sequence[User]:
        return [user for directory in self._all for user in await directory.with_email(email)]

    async def group(self, name: str) -> Group | None:
        for directory in self._all:
            if (group := await directory.group(name)) is not None:
                return group
        return None

    async def users(self, prefix: str, limit: int) -> Sequence[User]:
        return await self._each(limit, lambda directory: directory.users(prefix, limit), lambda user: user.username)

    async def groups(self, prefix: str, limit: int) -> Sequence[Group]:
        return await self._each(limit, lambda directory: directory.groups(prefix, limit), lambda group: group.name)

    async def groups_of(self, user: User) -> Sequence[Group]:
        return await self._host.components(Directory)[user.source].groups_of(user)

    async def hostgroups(self, prefix: str, limit: int) -> Sequence[str]:
        return await self._each(limit, lambda directory: directory.hostgroups(prefix, limit), lambda name: name)

    async def hostgroups_of(self, hostname: str) -> frozenset[str]:
        found = [await directory.hostgroups_of(hostname) for directory in self._all]
        return frozenset().union(*(one or () for one in found))

    async def managed_by(self, principal: str) -> frozenset[str]:
        found = [await directory.managed_by(principal) for directory in self._all]
        return frozenset().union(*(one or () for one in found))

    @cached_property
    def _all(self) -> Sequence[Directory]:
        known = self._host.components(Directory).values()
        return sorted(known, key=lambda directory: directory.tier is not Tier.STATIC)  # which keeps the configured order within a tier

    @cached_property
    def _home_first(self) -> Sequence[Directory]:
        home = self._host.realm.upper()
        return sorted(self._all, key=lambda directory: directory.realm.upper() != home)

    @cached_property
    def _of_realm(self) -> Mapping[str, Sequence[Directory]]:
        """By realm in capitals."""
        realms = {directory.realm.upper() for directory in self._all}
        return {realm: [directory for directory in self._all if directory.realm.upper() == realm] for realm in realms}

    async def _each(self, limit: int, ask: Callable[[Directory], Awaitable[Sequence[T]]], name: Callable[[T], str]) -> list[T]:
        found: dict[str, T] = {}
        for directory in self._all:
            for one in await ask(directory):
                found.setdefault(name(one), one)
            if len(found) >= limit:
                break
        return list(found.values())[:limit]


def require_current(user: User, auth_time: int | None, now: int) -> None:
    """Raises PasswordChanged for a sign-in before the password that is in force was set, and for one that the future holds."""
    if auth_time is None or user.password_changed_at is None:
        return
    if not user.password_changed_at <= auth_time <= now + AHEAD:
        raise PasswordChanged("the password was changed after this sign-in; sign in again")


def require_usable(state: AccountState) -> None:
    """Raises AccountRefused unless an account in this state may sign in and get tokens (decisions, identity provider 10)."""
    if state.disabled:
        raise AccountRefused(Message("this account is disabled"))
    if state.locked:
        raise AccountRefused(Message("this account is locked"))
    if state.expired:
        raise AccountRefused(Message("this account has expired"))
    if state.password_expired:
        raise AccountRefused(Message("the password of this account has expired"))


def is_service(subject: str) -> bool:
    """Whether it is the principal of a service or host, which no directory has to know."""
    named = principal_of(subject)
    return named is not None and named.is_service
