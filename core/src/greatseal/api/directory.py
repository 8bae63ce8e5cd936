"""Where users, groups and hosts are looked up.

A lookup has three outcomes that are never confused: a value; None, when the directory answered and does not know the name; or
:class:`DirectoryUnavailable` raised. An outage is never an empty answer: no session, token or certificate name is decided on it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import ClassVar, Protocol

import msgspec

from greatseal.api.problems import Unavailable


class Tier(Enum):
    """Which directories are asked first. STATIC: files of this machine, which cannot be down. DIRECTORY: a server over the network."""

    STATIC = "static"
    DIRECTORY = "directory"


class AccountState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the person may sign in now, as their home says. All of it is read again at redemption, refresh and device poll."""

    disabled: bool = False
    locked: bool = False
    expired: bool = False
    password_expired: bool = False


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A person. ``username`` is short, ``realm`` is that of the home; what the home does not say is None. ``groups`` has nested ones too.

    ``source`` is the directory's name. ``authentication_types`` are FreeIPA's (``password``, ``otp``, ``idp``, ...); empty means any.
    """

    username: str
    realm: str
    source: str
    display_name: str | None = None
    given_name: str | None = None
    family_name: str | None = None
    email: str | None = None
    email_verified: bool | None = None
    phone: str | None = None
    uid_number: int | None = None
    gid_number: int | None = None
    home_directory: str | None = None
    login_shell: str | None = None
    languages: tuple[str, ...] = ()
    """The languages that the person prefers, best first (RFC 2798 s2.7): for mails that no browser of theirs caused."""
    groups: tuple[str, ...] = ()
    authentication_types: tuple[str, ...] = ()
    upstream: str | None = None
    """The provider that signs this user in, where ``idp`` is among ``authentication_types``: the id of its login option."""
    password_changed_at: int | None = None
    """When the password was last set, by whomever, in microseconds since the epoch; None when the home does not know.

    What an earlier sign-in began ends: sessions, codes and refresh families. A home that tells whole seconds (FreeIPA's krbLastPwdChange,
    pwdChangedTime) gives the beginning of the second: a later moment would end the sign-in that follows the change. One that cannot tell,
    such as PAM, says None, never the moment of the look-up.
    """
    state: AccountState = AccountState()

    @property
    def subject(self) -> str:
        """The canonical subject."""
        return f"{self.username}@{self.realm}"


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group of people, of the home ``source`` and of its realm. ``members`` are short usernames of that realm, of nested groups too."""

    name: str
    realm: str
    source: str
    display_name: str | None = None
    gid_number: int | None = None
    members: tuple[str, ...] = ()
    whole: bool = True
    """Whether ``members`` are all of them: a directory need not list those of a very large group."""


class Directory(ABC):
    """One source of users and groups. Names are compared as the home compares them; the values that come back are canonical.

    A method that a directory has no data for keeps its default: it knows nobody.
    """

    name: ClassVar[str]
    tier: ClassVar[Tier]

    @property
    @abstractmethod
    def realm(self) -> str:
        """The realm of its users. A lookup of a subject goes to the directories of its realm alone."""

    @abstractmethod
    async def user(self, username: str) -> User | None:
        """The user of a short name, with its state."""

    @abstractmethod
    async def group(self, name: str) -> Group | None:
        """The group with its members."""

    async def with_email(self, email: str) -> Sequence[User]:
        """Users with that address, in ASCII, compared without case; two are enough where there are more. ``groups`` may be left out."""
        return ()

    async def users(self, prefix: str, limit: int, after: str = "") -> Sequence[User]:
        """Users whose short name begins with ``prefix`` and comes after ``after``, by name, at most ``limit``; ``groups`` may be left out.

        By name is in the order of Unicode code points.
        """
        return ()

    async def groups(self, prefix: str, limit: int, after: str = "") -> Sequence[Group]:
        """As :meth:`users`; ``members`` may be left out."""
        return ()

    async def groups_of(self, user: User) -> Sequence[Group]:
        """The groups of a user whom :meth:`user` gave, nested ones too; ``members`` may be left out."""
        return [Group(name=name, realm=user.realm, source=user.source) for name in user.groups]

    async def hostgroups(self, prefix: str, limit: int) -> Sequence[str]:
        """Names of host groups that begin with ``prefix``."""
        return ()

    async def hostgroups_of(self, hostname: str) -> frozenset[str] | None:
        """The host groups of a machine, nested ones too."""
        return None

    async def managed_by(self, principal: str) -> frozenset[str] | None:
        """Host names of the hosts and services that a host or service principal manages."""
        return None


class Directories(Protocol):
    """All directories as one: the STATIC tier first, then DIRECTORY, each in the configured order; the first that knows the name decides.

    DirectoryUnavailable from one that would have been asked is raised, and nothing after it is asked.
    """

    async def user(self, username: str) -> User | None:
        """By short name, of the home realm before all others, or by ``name@realm`` among the directories of that realm."""

    async def with_email(self, email: str) -> Sequence[User]:
        """Users of every directory with that address, in ASCII, compared without case."""

    async def group(self, name: str) -> Group | None:
        """By name."""

    async def users(self, prefix: str, limit: int) -> Sequence[User]:
        """From every directory in order, each name once, at most ``limit``."""

    async def groups(self, prefix: str, limit: int) -> Sequence[Group]:
        """As :meth:`users`."""

    async def groups_of(self, user: User) -> Sequence[Group]:
        """The groups of a user, as their home tells them; ``members`` may be left out."""

    async def hostgroups(self, prefix: str, limit: int) -> Sequence[str]:
        """As :meth:`users`."""

    async def hostgroups_of(self, hostname: str) -> frozenset[str]:
        """Those of every directory that knows the machine; empty when none does."""

    async def managed_by(self, principal: str) -> frozenset[str]:
        """Those of every directory that knows the principal; empty when none does."""


class DirectoryUnavailable(Unavailable):
    """A directory cannot be reached or gave no usable answer; ``cause`` says which and how."""
