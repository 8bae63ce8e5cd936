"""Grants, what they give, who may refuse it, and the claims of a subject.

One token request, in order: the client is proven, then its keys (:meth:`TokenBinding.prove`), the extensions are asked
(:meth:`greatseal.api.authorization.Extension.ask`), :meth:`Grant.prepare` (all I/O, and :meth:`Tokens.permitted`: account state and grant
checks), one transaction with :meth:`Grant.redeem`, ``Extension.grant``, the refresh family and the audit events, then signing, then the
reply. Nothing is signed that was not committed.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import msgspec

from greatseal.api.audit import AuditEvent
from greatseal.api.clients import Client, Proof, ProvenRequest
from greatseal.api.http import Call, Caller
from greatseal.api.identity import Headers
from greatseal.api.problems import BadRequest, Problem, Unauthenticated
from greatseal.api.store import Refused, Tx

P = TypeVar("P", bound=msgspec.Struct)


class Authentication(msgspec.Struct, frozen=True, kw_only=True):
    """How and when the person signed in; ``session_id`` is None when no session of ours is behind it. Microseconds."""

    auth_time: int
    amr: tuple[str, ...]
    acr: str | None
    session_id: str | None = None


class IdTokenOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What an ID token needs besides the subject (OpenID Connect Core s2). ``claims`` is the ``id_token`` member of the parameter."""

    nonce: str | None = None
    claims: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A refresh family with the token that was just made current."""

    id: str
    refresh_token: str


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """What tokens are issued for.

    ``subject`` is the ``sub`` of the tokens; ``authentication`` is None when no person is behind them. ``may_refresh`` lets the
    endpoint open a family where ``offline_access`` is granted; ``family`` is the one that the grant continued or opened itself.
    ``not_after`` (microseconds) caps the lifetime. ``origin`` is a digest under which all that is issued now can be revoked later, such
    as that of the code. ``claims`` are added to the access token as they are, such as ``act``, and ``members`` to the token response.
    ``implied`` are scopes that are in no token: the person allowed them for claims that the client asked for by name (OpenID Connect Core
    s5.5).

    ``issued_token_type`` is a member of the response (RFC 8693 s2.2.1). Where it is that of ID tokens, ``id_token`` is set too, and the
    response has an ID token in the place of the access token, with ``claims``.

    ``more`` is what extensions kept when the person authorized, by name; None when no authorization is behind it, as with
    client_credentials. A grant that swaps tokens sets ``exchanged`` to the claims of the one that it took. ``cnf``, and ``bound`` (what
    every refresh must prove again), are set by the token endpoint alone.
    """

    subject: str
    client_id: str
    scopes: tuple[str, ...]
    implied: tuple[str, ...] = ()
    authentication: Authentication | None = None
    audiences: tuple[str, ...] = ()
    more: Mapping[str, Any] | None = None
    exchanged: Mapping[str, Any] | None = None
    cnf: Mapping[str, str] | None = None
    bound: Mapping[str, str] = {}
    claims: Mapping[str, Any] = {}
    members: Mapping[str, Any] = {}
    id_token: IdTokenOrder | None = None
    issued_token_type: str | None = None
    may_refresh: bool = False
    family: Family | None = None
    origin: bytes | None = None
    not_after: int | None = None
    events: tuple[AuditEvent, ...] = ()


class Grant(ABC, Generic[P]):
    """One ``grant_type``. ``P`` is what its transaction needs."""

    grant_type: ClassVar[str]
    handle: ClassVar[tuple[str, str] | None] = None
    """The form parameter that holds a handle, and its kind, for example ``("code", "ac")``. Planned: of several nodes the one that made the
    handle answers the whole request (``Route.owner``), so that the row is always here and what is prepared need not travel."""

    def outside_key(self, form: Mapping[str, Any]) -> str | None:
        """What a request uses up by :meth:`greatseal.host.Strikes.take_within`, as ``<kind>:<key>``; None where there is nothing.

        Planned: of several nodes the one that decides about the key answers the whole request. Nobody is authenticated yet, and nothing
        is refused here.
        """
        return None

    @abstractmethod
    async def prepare(self, request: ProvenRequest) -> P | Granted:
        """Read the parameters and do all I/O. Granted when nothing is to be consumed: then there is no :meth:`redeem`.

        The client may use this grant. Whom the tokens are for, and with what scopes, is asked of :meth:`Tokens.permitted` here. Raises a
        Problem to refuse; nothing is changed then.
        """

    def redeem(self, tx: Tx, prepared: P) -> Granted | Refused:
        """Consume the grant's own row and say what it gives, by one guarded UPDATE.

        Raises Refuse when nothing may change: another client's attempt must not burn a code. Returns Refused when the attempt itself
        changes something: a replay revokes, a poll that came too soon is counted.
        """
        raise TypeError(f"{self.grant_type} was prepared and has no redeem")


# ---- Who may refuse


class GrantQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Whether ``subject`` may get ``scopes`` at ``client``. ``client`` is None at a plain login.

    Phases: ``login`` makes a session, ``authorize`` a code or an approved device, ``token`` redeems, refreshes and polls, ``client`` is a
    program for itself (the client, or a workload that a trusted issuer vouches for), ``exchange`` is RFC 8693 with ``target_service`` and
    the ``actor``'s client. ``auth_time`` (microseconds) is the sign-in behind the question, None when there is none: one before the
    password was changed gets nothing.
    """

    phase: Literal["login", "authorize", "token", "client", "exchange"]
    subject: str
    client: Client | None
    scopes: frozenset[str]
    remote: str
    amr: tuple[str, ...] = ()
    auth_time: int | None = None
    target_service: str | None = None
    actor: Client | None = None


class GrantCheck(ABC):
    """Policy over who gets what. Checks run in the order of their names; each sees what those before it left."""

    name: ClassVar[str]
    decides_targets: ClassVar[bool] = False
    """Whether it decides about ``target_service``. Where no check does, every target is refused."""
    decides_programs: ClassVar[bool] = False
    """Whether it decides about clients with a ``kerberos_hbac_service``. Where no check does, every one of them is refused."""

    def concerns(self, question: GrantQuestion) -> bool:
        """Whether the check has a word about it. Cheap, for every grant is asked about."""
        return True

    @abstractmethod
    async def check(self, question: GrantQuestion) -> frozenset[str]:
        """The scopes that may be granted, a subset of those asked for. Raises AccessDenied, and Unavailable when it cannot decide."""


# ---- Claims


class ClaimsProvider(ABC):
    """Knows claims of subjects. For each claim the first provider that has a value decides, in the configured order."""

    name: ClassVar[str]
    claims: ClassVar[frozenset[str]]
    """All that it may ever give, for the discovery document."""

    @abstractmethod
    async def of(self, subject: str, wanted: frozenset[str]) -> Mapping[str, Any]:
        """Those of ``wanted`` that it knows; a claim without value is left out, never None. An unknown subject has none.

        Raises DirectoryUnavailable: the reply is 503 then, never a token with claims missing.
        """


# ---- Services of the identity provider


class AccessToken(msgspec.Struct, frozen=True, kw_only=True):
    """A verified access token: signature, times and revocation were checked. Microseconds."""

    subject: str
    client_id: str
    scopes: frozenset[str]
    expires_at: int
    jti: str
    claims: Mapping[str, Any]


class BearerCaller(Caller, frozen=True, kw_only=True):
    """The caller of routes with the rule Bearer. ``headers`` of its binding go out with the reply."""

    token: AccessToken
    headers: Headers = ()


class SubjectToken(msgspec.Struct, frozen=True, kw_only=True):
    """A verified token of RFC 8693, ours or of a configured issuer; ``client_id`` is set for ours."""

    subject: str
    issuer: str
    client_id: str | None
    scopes: frozenset[str]
    expires_at: int
    authentication: Authentication | None
    claims: Mapping[str, Any]


class Tokens(Protocol):
    """The tokens of this issuer."""

    async def access(self, token: str) -> AccessToken | None:
        """The token when it is live, for this issuer and of type access token; None for every other reason."""

    async def sign(self, typ: str, claims: Mapping[str, Any], *, alg: str | None = None) -> str:
        """A JWT of this issuer for somebody else to check, with the header ``typ``, for example ``logout+jwt``; ``iss`` is set here.

        ``alg`` None is the default algorithm. Raises ValueError for the types that this service takes back, access tokens and ID tokens:
        those come from grants alone. ``JWT`` is also the type of ID tokens, and good for claims without ``sub`` or without ``aud``, as no
        ID token is. KeyError for an algorithm that is not offered, Unavailable when there is no key.
        """

    async def subject(self, token: str, token_type: str) -> SubjectToken | None:
        """A token given for an exchange, by its token type URI; None when it is not good, BadRequest for a type that is not offered."""

    async def permitted(self, question: GrantQuestion) -> frozenset[str]:
        """The scopes that every grant check leaves, of a subject whose account may sign in now.

        Raises AccessDenied when scopes were asked for and none is left, AccountRefused for the account, Unavailable.
        """

    def revoke_origin(self, tx: Tx, origin: bytes) -> None:
        """Revoke all that was issued under a :attr:`Granted.origin`, its families too."""


class Families(Protocol):
    """Refresh token families (RFC 9700 s4.14.2): one current token each, a replay ends the family."""

    def open(self, tx: Tx, granted: Granted) -> Family:
        """A new family for what was granted, on this node."""

    def revoke(self, tx: Tx, id: str, *, event_type: str, by: str | None = None) -> bool:
        """End a family and its access tokens; False when it was not active. ``by`` is the principal of the audit event."""

    def revoke_of(self, tx: Tx, *, subject: str | None = None, client_id: str | None = None, session_id: str | None = None) -> None:
        """End all families that match every value given; at least one must be. None is good any more; the rows of many follow in bites."""


# ---- Keys that tokens are bound to


class TokenBinding(ABC):
    """One member of ``cnf`` (RFC 7800), and how it is proven.

    A token is bound to one key at most: two proofs with ``access`` in one request are ``invalid_request``. A token whose ``cnf`` has a
    member that no enabled plugin provides is refused everywhere.
    """

    confirmation: ClassVar[str]
    """The member, for example ``jkt`` or ``x5t#S256``."""
    scheme: ClassVar[str] = "Bearer"
    """The word in ``Authorization``, and the ``token_type``."""
    fields: ClassVar[type[msgspec.Struct] | None] = None
    """Members of a client that it brings, with their types; a default asks for nothing."""

    def concerns(self, request: ProvenRequest) -> bool:
        """Whether a key was shown that may bind: not what is there unasked (a certificate) when the client did not register for it.

        Cheap, for every request is asked about, and nothing else of the binding runs where it is False.
        """
        return True

    @abstractmethod
    async def prove(self, request: ProvenRequest) -> Proof | None:
        """At /token and /par: after the client was proven, before the grant, where the request :meth:`concerns` the binding.

        None for a key that binds nothing after all. A Problem refuses, with headers of its own; no code is burned, no family touched.
        """

    def missing(self, client: Client) -> Problem | None:
        """At /token, when no key was proven: why this client may not go without.

        Asked at registration too: two that refuse are ``invalid_client_metadata``, for no request could satisfy both.
        """
        return None

    @abstractmethod
    async def check(self, call: Call, text: str, token: AccessToken, value: str) -> Headers:
        """At a resource, for a token whose ``cnf`` has this member with ``value``; ``text`` is the token as sent.

        Returns headers for the reply, success too. Raises :class:`InvalidToken`, or an Unauthenticated of its own; both carry
        ``WWW-Authenticate``.
        """

    def challenge(self) -> str:
        """What a 401 offers beside Bearer, for a binding with another scheme."""
        return self.scheme


class InvalidToken(Unauthenticated):
    """The token is expired, revoked, malformed, bound to a key that was not proven, or not for this server (RFC 6750 s3.1)."""

    error = "invalid_token"

    def __init__(self, detail: str, *, scheme: str = "Bearer", cause: str = "", headers: Mapping[str, str] | None = None) -> None:
        said = detail.replace("\\", "").replace('"', "'")
        challenge = f'{scheme} error="{self.error}", error_description="{said}"'
        super().__init__(detail, cause=cause, headers={"WWW-Authenticate": challenge, **(headers or {})})


# ---- Refusals of the token endpoint (RFC 6749 s5.2, RFC 8628 s3.5, RFC 8707 s2)


class InvalidGrant(BadRequest):
    """The code, token or assertion is not good, expired, used or another client's."""

    error = "invalid_grant"


class InvalidScope(BadRequest):
    """No scope is left, or one was asked for that cannot be had."""

    error = "invalid_scope"


class InvalidTarget(BadRequest):
    """A resource or audience is not offered to the client."""

    error = "invalid_target"


class UnauthorizedClient(BadRequest):
    """The client may not use this grant."""

    error = "unauthorized_client"


class AuthorizationPending(BadRequest):
    """The person has not decided yet."""

    error = "authorization_pending"


class SlowDown(BadRequest):
    """The device polls too fast; its interval grew."""

    error = "slow_down"


class ExpiredToken(BadRequest):
    """The device code is too old."""

    error = "expired_token"


class AuthorizationDenied(BadRequest):
    """The person said no, at another device: an error of the token endpoint, and not of who may use it."""

    error = "access_denied"
