"""Kerberos: the only acceptor of tickets, and the service as a client of its KDC. Both are provided by the plugin gssapi."""

from enum import Enum
from typing import Protocol

import msgspec

from greatseal.api.declarations import Secret
from greatseal.api.http import Call
from greatseal.api.identity import Continue, Headers
from greatseal.api.problems import Problem

# ---- Who comes with a ticket


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A finished exchange: the initiator's principal, and the authentication indicators of its ticket."""

    principal: str
    indicators: tuple[str, ...]
    headers: Headers


class Absent(msgspec.Struct, frozen=True):
    """The call has no Negotiate header."""


class Ready(msgspec.Struct, frozen=True):
    """There is a credential to accept with."""


class NotConfigured(msgspec.Struct, frozen=True):
    """`[gssapi]` is not configured."""


class Unusable(msgspec.Struct, frozen=True, kw_only=True):
    """The credential cannot be acquired, and why: for the operator alone."""

    reason: str


class Negotiator(Protocol):
    """The only GSS acceptor: the service NEGOTIATE."""

    @property
    def state(self) -> Ready | NotConfigured | Unusable:
        """Whether ``accept`` can succeed now; the keytab is looked at again when it changed."""

    async def accept(self, call: Call) -> Accepted | Continue | Absent:
        """One leg of the exchange. A half-open context lives on ``call.connection``. Behind a trusted proxy there is none, and Continue
        asks the client to begin again, with a ticket at once.

        Raises :class:`NegotiateRefused` for a token that does not authenticate, Unavailable when not Ready, PayloadTooLarge above 48 KiB.
        """


class NegotiateRefused(Problem):
    """The Negotiate token does not authenticate; each endpoint says what that means there."""

    status, error = 403, "access_denied"


# ---- The service as a client


class PasswordVerdict(Enum):
    """What the KDC says of a password."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"
    """There is no such principal."""
    EXPIRED = "expired"
    """The password has expired. Whether it is right is not known: most KDCs say this before they look."""
    REVOKED = "revoked"
    """The account is locked or disabled."""
    ACCOUNT_EXPIRED = "account expired"


class Tickets(Protocol):
    """What the service asks of its KDC: the service TICKETS."""

    def credentials(self, service: str) -> object:
        """Credentials of the service itself, from its keytab, with a ticket for another: what a GSSAPI bind of an LDAP library takes.

        ``service`` is host-based (RFC 2743 s4.1), such as ``ldap@ipa1.example.com``. A ``gssapi.Credentials``, kept and renewed by the
        provider: whoever uses it asks no KDC. To be called in a thread, which waits some seconds at most. Raises Unavailable.
        """

    async def password(self, principal: str, password: Secret) -> PasswordVerdict:
        """Whether this is the password of the principal.

        RIGHT only after the service accepted a ticket of the principal with its own keytab: whoever answers in the KDC's place cannot
        make one. Raises Unavailable when the KDC cannot be asked, or a ticket cannot be proven.
        """
