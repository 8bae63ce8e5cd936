"""Services: one provider each, found by a typed key."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import msgspec

if TYPE_CHECKING:
    from greatseal.api.acme import Accounts, Challenges, EabKeys, Examiner
    from greatseal.api.authorization import Authorizations
    from greatseal.api.clients import Clients
    from greatseal.api.directory import Directories
    from greatseal.api.identity import Login
    from greatseal.api.issuance import Issuance
    from greatseal.api.kerberos import Negotiator, Tickets
    from greatseal.api.nodes import Peers
    from greatseal.api.notices import Notices
    from greatseal.api.pages import Pages
    from greatseal.api.tokens import Families, Tokens

T = TypeVar("T")


class ServiceKey(Generic[T]):
    """The name of a service and the Protocol that its provider keeps. Keys are compared by name.

    ``keeps`` says where the Protocol is, as ``package.module:Class``, so that a start can refuse a service without its members; without
    it nobody looks.
    """

    def __init__(self, name: str, keeps: str = "") -> None:
        self.name = name
        self.keeps = keeps

    def members(self) -> Sequence[str]:
        """The public members of the Protocol, where it is known."""
        if not self.keeps:
            return ()
        module, _, name = self.keeps.partition(":")
        return [one for one in vars(getattr(import_module(module), name)) if not one.startswith("_")]

    def __repr__(self) -> str:
        return f"ServiceKey({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServiceKey) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class CaaRecord(msgspec.Struct, frozen=True):
    """One CAA property (RFC 8659 s4.1), as found: tags are compared without case; of ``flags`` 128 is critical."""

    flags: int
    tag: str
    value: str


class Found(msgspec.Struct, Generic[T], frozen=True):
    """The records of a question, none for a name without such records, and who answered, as ``192.0.2.1 port 53``: for messages."""

    records: Sequence[T]
    server: str


class Resolver(Protocol):
    """DNS, from `[resolver] hosts` first. ``server`` asks one resolver (``address[:port]``) instead of the configured one.

    Every method raises :class:`greatseal.api.problems.DnsFailure` with question, resolver and rcode when there is no usable answer, and
    Internal for a resolver address that turned out bad. A name without such records is no failure; NXDOMAIN is one, but for CAA.
    """

    async def addresses(self, name: str) -> Sequence[str]:
        """IPv4 and IPv6 addresses, IPv4 first; an IP literal is its own answer. None at all is a DnsFailure."""

    async def txt(self, name: str, *, server: str | None = None) -> Found[str]:
        """TXT values, the strings of each record joined; aliases are followed. At most 200."""

    async def caa(self, name: str) -> Found[CaaRecord]:
        """CAA records at exactly this name, aliases followed.

        A name that does not exist has none (RFC 8659 s3).
        """

    async def query(self, name: str, kind: str, *, server: str | None = None) -> Found[Any]:
        """Records of any type, as dnspython rdata."""


class Metadata(Protocol):
    """What this issuer says of itself, for documents that repeat it: host.discovery() has only what plugins add."""

    async def document(self, name: Literal["openid", "oauth"]) -> Mapping[str, Any]:
        """The members of the discovery document as they are now (OpenID Connect Discovery s3, RFC 8414 s2)."""

    def key_set(self) -> Mapping[str, Any]:
        """What is behind ``jwks_uri`` now (RFC 7517 s5)."""


RESOLVER: ServiceKey[Resolver] = ServiceKey("resolver", "greatseal.api.services:Resolver")
"""DNS (plugin resolver)."""
ISSUANCE: "ServiceKey[Issuance]" = ServiceKey("issuance", "greatseal.api.issuance:Issuance")
"""The certificate authority (plugin ca)."""
CHALLENGES: "ServiceKey[Challenges]" = ServiceKey("challenges", "greatseal.api.acme:Challenges")
"""The challenges of ACME orders (plugin acme)."""
ACCOUNTS: "ServiceKey[Accounts]" = ServiceKey("accounts", "greatseal.api.acme:Accounts")
"""ACME accounts (plugin acme)."""
EXAMINER: "ServiceKey[Examiner]" = ServiceKey("examiner", "greatseal.api.acme:Examiner")
"""Why a certificate would be refused (plugin acme)."""
EABKEYS: "ServiceKey[EabKeys]" = ServiceKey("eab_keys", "greatseal.api.acme:EabKeys")
"""Keys of external account binding (plugin eab)."""
LOGIN: "ServiceKey[Login]" = ServiceKey("login", "greatseal.api.identity:Login")
"""Sign-in and sessions (plugin idp)."""
PAGES: "ServiceKey[Pages]" = ServiceKey("pages", "greatseal.api.pages:Pages")
"""Pages for people (plugin idp)."""
DIRECTORIES: "ServiceKey[Directories]" = ServiceKey("directories", "greatseal.api.directory:Directories")
"""Users, groups and hosts of every directory (plugin idp)."""
CLIENTS: "ServiceKey[Clients]" = ServiceKey("clients", "greatseal.api.clients:Clients")
"""OAuth clients (plugin idp)."""
TOKENS: "ServiceKey[Tokens]" = ServiceKey("tokens", "greatseal.api.tokens:Tokens")
"""Tokens of this issuer (plugin idp)."""
AUTHORIZATIONS: "ServiceKey[Authorizations]" = ServiceKey("authorizations", "greatseal.api.authorization:Authorizations")
"""Requests for authorization (plugin idp)."""
FAMILIES: "ServiceKey[Families]" = ServiceKey("families", "greatseal.api.tokens:Families")
"""Refresh token families (plugin idp)."""
METADATA: ServiceKey[Metadata] = ServiceKey("metadata", "greatseal.api.services:Metadata")
"""What this issuer says of itself (plugin idp)."""
PEERS: "ServiceKey[Peers]" = ServiceKey("peers", "greatseal.api.nodes:Peers")
"""The other nodes. Planned, for the feature cluster-nats."""
NOTICES: "ServiceKey[Notices]" = ServiceKey("notices", "greatseal.api.notices:Notices")
"""Notices to people about their account (plugin notices)."""
NEGOTIATE: "ServiceKey[Negotiator]" = ServiceKey("negotiate", "greatseal.api.kerberos:Negotiator")
"""The GSS acceptor (plugin gssapi)."""
TICKETS: "ServiceKey[Tickets]" = ServiceKey("tickets", "greatseal.api.kerberos:Tickets")
"""The service as a client of its KDC (plugin gssapi)."""
