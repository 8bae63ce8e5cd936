"""What differs between kinds of directories: where people, groups and hosts are, and what their attributes mean."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

import msgspec

from greatseal.api.declarations import Secret
from greatseal.api.directory import Group, User
from greatseal.api.moments import SECOND
from greatseal_ipa.library import Entry, Query
from greatseal_ipa.names import filter_value

SOURCE = "ipa"
"""What :attr:`greatseal.api.directory.User.source` says, and the name of the directory and its authenticator."""
TIME = re.compile(r"(?P<digits>\d{10}(?:\d\d){0,2})(?:[.,]\d+)?(?P<zone>Z|[+-]\d\d(?:\d\d)?)", re.ASCII)
ONE = 2
"""Entries that are asked for where one is expected: a second one is a mistake of the directory."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known besides the entry when a user is made of it. ``now`` is microseconds."""

    now: int
    groups: tuple[str, ...] = ()
    default_types: tuple[str, ...] | None = None
    """Authentication types of everybody who has none of their own; None when the directory has no such notion."""
    types_fixed: bool = False
    """Whether those of people themselves do not count."""
    upstreams: "dict[str, str] | None" = None
    """Ids of login options by the normalised DN of a provider's entry, as :func:`greatseal_ipa.names.folded` gives it."""


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """An identity provider that the directory names (FreeIPA's ipaIdP)."""

    id: str
    dn: str
    display_name: str
    client_id: str
    issuer: str | None
    scopes: tuple[str, ...]
    subject_claim: str
    """The claim of the provider's user whose value a person's entry holds."""
    client_secret: Secret | None = None
    """Where the service may read it, by a permission of its own."""
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    userinfo_endpoint: str | None = None
    jwks_uri: str | None = None
    device_endpoint: str | None = None

    def same_as(self, other: "Provider") -> bool:
        """Whether nothing was changed."""
        mine, theirs = (None if one.client_secret is None else one.client_secret.value for one in (self, other))
        return mine == theirs and msgspec.structs.replace(self, client_secret=None) == msgspec.structs.replace(other, client_secret=None)

    @property
    def usable(self) -> bool:
        """Whether a browser can be sent there: by discovery, or with all that is needed without."""
        return bool(self.issuer or (self.authorization_endpoint and self.token_endpoint and self.userinfo_endpoint))


class Schema(ABC):
    """One kind of directory. Queries take names as people typed them, and escape them; what ``read_`` gives is canonical.

    A query that a kind has no data for is None. ``realm`` is that of the people.
    """

    name: ClassVar[str]
    levels: ClassVar[int] = 0
    """How often :meth:`groups_with` is asked at most, for groups in groups; 0 where the user's own entry names all groups."""

    password_attribute: ClassVar[str | None] = None
    """What a password is changed by, old value against new one, where the server does not know RFC 3062; the connection must have TLS."""
    state: ClassVar[tuple[str, ...]] = ()
    """Attributes that tell of a new or expired password, where the service may read them."""

    def __init__(self, base_dn: str, realm: str) -> None:
        self.base_dn = base_dn
        self.realm = realm

    # ---- People

    @abstractmethod
    def user(self, name: str) -> Query:
        """The entry of a login name."""

    @abstractmethod
    def users(self, prefix: str) -> Query:
        """Entries whose login name begins so, with the name alone."""

    @abstractmethod
    def anybody(self, limit: int) -> Query:
        """Some people, with all that is read of a person."""

    @abstractmethod
    def people(self, names: Sequence[str]) -> Query:
        """The entries of these users, without their groups."""

    @abstractmethod
    def username(self, entry: Entry) -> str | None:
        """The canonical short name, None for an entry that is no user."""

    def aliases(self, entry: Entry) -> Sequence[str]:
        """Other short names by which :meth:`user` may find an entry: they count to the letter."""
        return ()

    def principal_of(self, entry: Entry) -> str:
        """The user's Kerberos name."""
        return f"{self.username(entry)}@{self.realm}"

    @abstractmethod
    def read_user(self, entry: Entry, facts: Facts) -> User:
        """The user, with the state of the account at ``facts.now``."""

    # ---- Groups

    @abstractmethod
    def group(self, name: str, *, members: bool) -> Query:
        """The entry of a group; without ``members`` nothing that grows with them is asked for."""

    @abstractmethod
    def groups(self, prefix: str) -> Query:
        """Entries of groups whose name begins so, with the name alone."""

    @abstractmethod
    def groups_named(self, names: Sequence[str]) -> Query:
        """The entries of these groups, without members."""

    @abstractmethod
    def group_name(self, entry: Entry) -> str | None:
        """The name, None for an entry that is no group."""

    def members(self, group: Entry) -> Query | None:
        """People in the group, nested ones too, their names alone; None where :meth:`own_members` knows."""
        return None

    def own_members(self, group: Entry) -> tuple[str, ...]:
        """Short names of people that the entry of the group itself names."""
        return ()

    def group_at(self, dn: str) -> Query | None:
        """A group by its DN, with its members."""
        return None

    def subgroups(self, group: Entry) -> tuple[str, ...]:
        """DNs of what else the entry of the group names: groups in it, whose members are asked for."""
        return ()

    def own_groups(self, entry: Entry) -> tuple[str, ...]:
        """Groups that the user's own entry names, for directories with ``levels`` 0."""
        return ()

    def groups_with(self, dns: Sequence[str], usernames: Sequence[str]) -> Query | None:
        """Groups that have one of these entries, or one of these users by name, as a member of their own."""
        return None

    def read_group(self, entry: Entry) -> Group | None:
        """The group, without its members."""
        name = self.group_name(entry)
        if name is None:
            return None
        number = whole(entry.text("gidNumber"))
        description = entry.text("description")
        return Group(name=name, realm=self.realm, source=SOURCE, display_name=description, gid_number=number)

    # ---- Hosts

    def host(self, hostname: str) -> Query | None:
        """The entry of a machine."""
        return None

    def read_hostgroups(self, entry: Entry) -> frozenset[str]:
        """The host groups that a machine's entry names."""
        return frozenset()

    def hostgroups_with(self, dn: str) -> Query | None:
        """Groups that have a machine, nested ones too; None where :meth:`read_hostgroups` knows."""
        return None

    def hostgroups(self, prefix: str) -> Query | None:
        """Entries of host groups whose name begins so."""
        return None

    def hostgroup_name(self, entry: Entry) -> str | None:
        """The name of a host group."""
        return None

    def principal(self, principal: str) -> Query | None:
        """The entry of a host or service by its Kerberos name."""
        return None

    def managed_by(self, dn: str) -> Query | None:
        """Hosts and services that an entry manages."""
        return None

    def read_hosts(self, entry: Entry) -> frozenset[str]:
        """The host names of a host or service."""
        return frozenset()

    # ---- What holds for everybody

    def defaults(self) -> Query | None:
        """The entry with the authentication types of everybody."""
        return None

    def read_defaults(self, entry: Entry | None) -> tuple[tuple[str, ...], bool]:
        """Default authentication types, and whether they alone count."""
        return (), False

    def linked(self, provider: str, value: str) -> Query | None:
        """Entries of people who sign in at the provider of a DN with that value."""
        return None

    def read_linked(self, entry: Entry) -> tuple[str, ...]:
        """The values with which somebody signs in at their provider."""
        return ()

    def with_email(self, email: str) -> Query:
        """Entries of people with that address, with the name alone."""
        return msgspec.structs.replace(self.users(""), filter=f"(&{self.users('').filter}{equals('mail', email)})", limit=ONE)

    def providers(self) -> Query | None:
        """Entries of identity providers."""
        return None

    def read_providers(self, entries: Sequence[Entry]) -> Sequence[Provider]:
        """The providers, with ids that do not change while their names do not."""
        return ()

    # ---- Passwords

    def password_value(self, password: str) -> bytes:
        """A value of ``password_attribute``."""
        return password.encode()

    def refused_as(self, code: int, message: str, policy: int | None) -> str | None:
        """What the refusal of a bind says besides wrong: ``expired``, of a right password alone, ``locked`` or ``disabled``."""
        return None


def equals(attribute: str, value: str) -> str:
    """A filter for one value."""
    return f"({attribute}={filter_value(value)})"


def begins(attribute: str, prefix: str) -> str:
    """A filter for values that begin so."""
    return f"({attribute}={filter_value(prefix)}*)"


def whole(text: str | None) -> int | None:
    """A number that is not negative."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None


def moment(text: str | None) -> int | None:
    """A GeneralizedTime (RFC 4517 s3.3.13) in microseconds since the epoch, a fraction of a second left away; None for what is none."""
    found = TIME.fullmatch(text or "")
    if found is None:
        return None
    digits, zone = found["digits"].ljust(14, "0"), found["zone"].ljust(5, "0").replace("Z0000", "+0000")
    try:
        return int(datetime.strptime(digits + zone, "%Y%m%d%H%M%S%z").timestamp()) * SECOND
    except ValueError:
        return None


def spelt(moment: int) -> str:
    """The GeneralizedTime of microseconds."""
    return datetime.fromtimestamp(moment // SECOND, UTC).strftime("%Y%m%d%H%M%SZ")
