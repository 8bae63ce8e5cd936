"""The narrow interface to an LDAP library: what a connection can do here. :mod:`greatseal_ipa.ldap3_link` is the only user of ldap3.

Everything blocks and is called in threads. A connection is used by one thread at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias

import msgspec

MAX_ANSWER = 8 * 1024 * 1024
"""Octets of all that a server says to one question. Above, the question fails: a page of people has a tenth of it."""
PAGE = 500
"""Entries of a page (RFC 2696)."""
Credentials: TypeAlias = Callable[[str], object]
"""``gssapi.Credentials`` with a ticket for a host-based service (:class:`greatseal.api.kerberos.Tickets`)."""
NOTHING: Mapping[str, tuple[bytes, ...]] = MappingProxyType({})


class Server(msgspec.Struct, frozen=True):
    """Where a server is. ``path`` is that of a Unix socket, for ``ldapi``."""

    scheme: str
    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        return f"ldapi://{self.path}" if self.scheme == "ldapi" else f"{self.scheme}://{self.host}:{self.port}"


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How connections are made. ``connect_seconds`` is for TCP and for TLS, ``seconds`` for each question with its whole answer."""

    connect_seconds: float = 2.0
    seconds: float = 4.0
    start_tls: bool = True
    """For ``ldap://``: TLS before anything else is said, and no connection without it."""
    ca_cert_file: Path | None = None
    """Whom a server's certificate must come from; None trusts whom the system trusts."""
    max_answer: int = MAX_ANSWER


class Scope(Enum):
    """Which entries a search looks at (RFC 4511 s4.5.1.2)."""

    BASE = "BASE"
    ONE = "LEVEL"
    SUBTREE = "SUBTREE"


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A search. Attributes are asked for by name; ``limit`` is the number of entries that are wanted at most."""

    base: str
    filter: str = "(objectClass=*)"
    attributes: tuple[str, ...]
    scope: Scope = Scope.SUBTREE
    limit: int = PAGE


class Entry(msgspec.Struct, frozen=True):
    """What a server knows under a name. ``values`` has attribute names in lower case."""

    dn: str
    values: Mapping[str, tuple[bytes, ...]] = NOTHING

    def text(self, name: str) -> str | None:
        """The first value, None where there is none; what is no UTF-8 counts as none."""
        return next(iter(self.texts(name)), None)

    def texts(self, name: str) -> tuple[str, ...]:
        """All values that are UTF-8 and not empty."""
        return tuple(text for value in self.values.get(name.lower(), ()) if (text := _text(value)))


class Found(msgspec.Struct, frozen=True):
    """The entries of a search; not ``complete`` where a limit, ours or the server's, cut it."""

    entries: Sequence[Entry]
    complete: bool = True


class Outcome(msgspec.Struct, frozen=True):
    """How a server answered a bind or a change of a password: the result code of RFC 4511, its text, and what its password policy said.

    ``policy`` is that of draft-behera-ldap-password-policy s6.2, such as 0 for an expired password, though a bind may still succeed, and 1
    for a locked account.
    """

    code: int
    message: str = ""
    policy: int | None = None

    @property
    def ok(self) -> bool:
        """Whether the server did it."""
        return self.code == SUCCESS


class Change(msgspec.Struct, frozen=True):
    """One change of an attribute (RFC 4511 s4.6)."""

    how: Literal["add", "delete", "replace"]
    name: str
    values: Sequence[str | bytes] = ()


SUCCESS = 0
INVALID_CREDENTIALS = 49
UNWILLING = 53
EXPIRED, LOCKED, MUST_CHANGE = 0, 1, 2


class Down(Exception):
    """No usable server there: not reached, no answer in time, or broken off. ``silent`` when time ran out."""

    def __init__(self, reason: str, *, silent: bool = False) -> None:
        super().__init__(reason)
        self.silent = silent


class NoTicket(Down):
    """No Kerberos ticket for the server, and what to do: it may be well, and was not asked."""


class Refused(Exception):
    """The server answered, and not with what was asked for; ``code`` is that of RFC 4511."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Unusable(Exception):
    """An answer that cannot be one: a referral, entries of elsewhere, or far more than was asked for."""


class Oversized(Unusable):
    """More octets than an answer may have."""


class Link(Protocol):
    """One connection. Every call raises Down; ``search`` raises Refused and Unusable too. After an exception the connection is closed."""

    def bind(self, dn: str, password: str, *, with_code: bool = False) -> Outcome:
        """A simple bind. Raises ValueError for an empty password, which servers take for no password at all (RFC 4513 s5.1.2).

        ``with_code`` is for FreeIPA: the password ends with a one-time code, and without a good one it is wrong. A server that does not
        check codes answers 12, unavailableCriticalExtension.
        """

    def bind_gssapi(self, credentials: Credentials | None) -> Outcome:
        """A SASL bind by a ticket for ``ldap@<host>``; None takes that of the process's own cache. Raises NoTicket, and what they raise."""

    def search(self, query: Query) -> Found:
        """Ask. A base that is not there has no entries. Referrals are never followed, and continuation references are left out."""

    def change_password(self, dn: str, old: str, new: str) -> Outcome:
        """RFC 3062, for the entry that is bound."""

    def add(self, dn: str, values: Mapping[str, Sequence[str | bytes]]) -> Outcome:
        """Make an entry."""

    def modify(self, dn: str, changes: Sequence[Change]) -> Outcome:
        """Change an entry: all of it or nothing."""

    def delete(self, dn: str) -> Outcome:
        """Delete an entry."""

    def close(self) -> None:
        """Say goodbye without waiting."""


class Library(Protocol):
    """Opens connections."""

    def open(self, server: Server, terms: Terms) -> Link:
        """A connection, with TLS where the terms ask for it. Raises Down."""


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ""
