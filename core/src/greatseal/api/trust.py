"""Issuers that are not ours, and whom their tokens mean here: the contract of trusted issuers.

The grants jwt-bearer (RFC 7523 s2.1) and token-exchange (RFC 8693) read them: :func:`greatseal.jose.foreign.read` opens a token,
:func:`vouched` finds its issuer and asks it, :func:`check_use` says whether the client may use the answer, and
:meth:`greatseal.api.tokens.Tokens.permitted` whether the person may sign in. Issuers come from the configuration (plugin jwt-bearer), and
from plugins by the hook ``components``; tests inherit :class:`greatseal.testing.trust.TrustedIssuerContract`.

An issuer says who somebody is and nothing else: it makes no person, and no claim of its tokens is put into ours.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from greatseal.api.clients import Client
from greatseal.api.components import Component
from greatseal.api.problems import BadRequest

__all__ = ["ForeignToken", "NotVouched", "TrustedIssuer", "Vouched", "check_use", "vouched"]


class ForeignToken(msgspec.Struct, frozen=True, kw_only=True):
    """A compact JWS that was read, and whose signature nobody checked yet: ``header`` and ``claims`` are what a stranger wrote."""

    text: str
    header: Mapping[str, Any]
    claims: Mapping[str, Any]


class Vouched(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a good token means.

    ``issuer`` and ``subject`` are the words of the issuer, each one printable line; ``local`` is the ``sub`` that our tokens get: the
    canonical subject of a person that a directory knows, or a name for a workload that is neither a person's nor a client's. ``jti`` is
    None where the token has none. Moments are microseconds; ``authenticated_at`` is when the person signed in there as far as the token
    tells (``auth_time``, else ``iat``), and never in the future.

    ``claims`` are all that the token says, for checks; none is handed on. ``scopes`` are the most that a token for the subject may have,
    ``clients`` the ids of those that may bring it; None for no such limit.
    """

    issuer: str
    subject: str
    kind: Literal["person", "workload"]
    local: str
    expires_at: int
    authenticated_at: int
    jti: str | None
    claims: Mapping[str, Any]
    scopes: frozenset[str] | None = None
    clients: frozenset[str] | None = None


class NotVouched(BadRequest):
    """The token is not good here. One sentence for every reason; ``cause`` has the reason for log and audit, without words of the token.

    ``issuer`` is the trusted issuer that refused it, None when there is none. Each grant tells it by its own error code.
    """

    def __init__(self, cause: str, *, issuer: str | None = None) -> None:
        super().__init__("expired, not for this server, or no token of an issuer that is trusted here", cause=cause)
        self.issuer = issuer


class TrustedIssuer(Component):
    """Somebody whose tokens say who a caller is; ``name`` is the issuer, or what stands for many of them, such as a federation."""

    @abstractmethod
    def issued(self, token: ForeignToken) -> bool:
        """Whether the token says that it is of this issuer. Nothing is verified: it decides who is asked. No I/O."""

    @abstractmethod
    async def vouch(self, token: ForeignToken, audiences: frozenset[str]) -> Vouched:
        """Check the token, and say whom it means here. Asked for tokens that :meth:`issued` took.

        The signature is by a key of the issuer (asymmetric, never one that the token brings), ``aud`` names one of ``audiences`` or what
        the issuer was told stands for this service, the token has not expired, lives for no longer than the issuer may give, and is not
        from the future by more than 60 s. A person is one that a directory knows now. Nothing is used up: ``jti`` is the caller's matter.

        Raises :class:`NotVouched` for a token that is not good, Unavailable when keys or directory cannot be had now.
        """


async def vouched(issuers: Iterable[TrustedIssuer], token: ForeignToken, audiences: frozenset[str]) -> Vouched:
    """Ask the one issuer that the token names. Raises :class:`NotVouched`, also when two take it for theirs; Unavailable."""
    named = [one for one in issuers if one.issued(token)]
    if len(named) != 1:
        raise NotVouched("no trusted issuer takes it for its own" if not named else "more than one trusted issuer takes it for its own")
    try:
        return await named[0].vouch(token, audiences)
    except NotVouched as refused:
        raise NotVouched(refused.cause, issuer=named[0].name) from None


def check_use(found: Vouched, client: Client, proven: Mapping[str, str], issuer: str) -> None:
    """Raise :class:`NotVouched` when this client may not use what was vouched for.

    ``issuer`` is ours, ``proven`` are the keys that the request proved to hold. ``may_act`` must name the client with our issuer: a bare
    ``sub`` is a name of the other issuer's (RFC 8693 s4.4). A token with ``act`` is refused: its actors are nobody here, and a token
    without them would hide that somebody acted.
    """
    if found.clients is not None and client.client_id not in found.clients:
        raise NotVouched("the client is none of those that may bring tokens of this issuer", issuer=found.issuer)
    if "cnf" in found.claims and not _holds(proven, found.claims["cnf"]):
        raise NotVouched("it is bound to a key that was not proven", issuer=found.issuer)
    if "act" in found.claims:
        raise NotVouched("it names actors (act), who are nobody here", issuer=found.issuer)
    if "may_act" in found.claims and not _is(found.claims["may_act"], client, issuer):
        raise NotVouched("may_act does not name this client and this issuer", issuer=found.issuer)


def _holds(proven: Mapping[str, str], cnf: object) -> bool:
    return isinstance(cnf, dict) and bool(cnf) and all(proven.get(confirmation) == value for confirmation, value in cnf.items())


def _is(named: object, client: Client, issuer: str) -> bool:
    return isinstance(named, dict) and named.get("sub") == client.client_id and named.get("iss") == issuer
