"""OAuth clients: what is registered, and how they prove themselves at the token endpoint and its neighbours.

One authentication, in order: every method's ``credentials`` looks at the request (sync, cheap). Two methods that answer are
``invalid_request`` (RFC 6749 s2.3); ambient ones count only when no other answered. The one that answered runs ``prove``, ``find``; the
client must be registered for it; ``verify`` ends it. For ambient credentials the client is found first and its registered method decides.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from greatseal.api.audit import AuditEvent
from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Parameters
from greatseal.api.identity import Headers
from greatseal.api.problems import BadRequest, Unauthenticated
from greatseal.api.store import Tx

C = TypeVar("C", bound=msgspec.Struct)


class StoredSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A client secret at rest: SHA-256 of a generated one, an Argon2id hash of a chosen one, or sealed where the method needs the value."""

    form: Literal["sha256", "argon2id", "sealed"]
    value: bytes
    length: int | None = None
    """Characters of the secret, where that was noted."""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """A registered client. ``more`` holds the members of RFC 7591 and OpenID that have no field here, as they were registered.

    Moments are microseconds, 0 for a client that is no row of the registry.
    """

    client_id: str
    token_endpoint_auth_method: str
    client_name: str = ""
    redirect_uris: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    grant_types: tuple[str, ...] = ()
    secret: StoredSecret | None = None
    jwks_uri: str | None = None
    jwks: Mapping[str, Any] | None = None
    tls_client_certificate_sha256: str | None = None
    kerberos_principal: str | None = None
    kerberos_principal_pattern: str | None = None
    kerberos_hbac_service: str | None = None
    spiffe_id: str | None = None
    workload_type: str | None = None
    allow_token_exchange_actor: bool = False
    source: str = "admin"
    created_at: int = 0
    updated_at: int = 0
    more: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def is_administered(self) -> bool:
        """Whether an administrator wrote it down; all others say of themselves what they may."""
        return self.source in {"admin", "static"}

    @property
    def host(self) -> str | None:
        """The host of a client whose id is the URL of what it says of itself: all that anybody knows of it for sure."""
        return urlsplit(self.client_id).netloc if self.client_id.startswith("https://") else None

    @property
    def may_be_anybody(self) -> bool:
        """Whether its requests are those of just anybody: it proves nothing, or that it wrote its own metadata."""
        return self.token_endpoint_auth_method == "none" or self.host is not None  # noqa: S105  # the name of a method


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A client that is about to be stored: the whole merged record, and what only this request carries."""

    client: Client
    open: bool
    """Whether it came through /register."""
    client_secret: Secret | None = None
    tls_client_certificate: str | None = None


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a client, with its form. ``audiences`` are what an assertion may name as ``aud`` at this endpoint."""

    call: Call
    form: Parameters
    audiences: tuple[str, ...]


class ClientMatch(msgspec.Struct, frozen=True, kw_only=True):
    """The client that was asked about is proven. ``subject`` is the ``sub`` of tokens that it gets for itself: its id, or a principal.

    ``proven`` are keys that the method verified itself, by the member of ``cnf`` that names each (RFC 7800); they bind nothing unless a
    :class:`greatseal.api.tokens.TokenBinding` takes them up. ``headers`` go out with the reply; those that must go out with a refusal
    too are said to the call (:meth:`greatseal.api.http.Call.also`). ``principal`` is whom a Kerberos ticket proved: policy is asked about
    it. ``events`` is called with the granted scopes when tokens are issued; its events are committed before anything is signed.
    """

    subject: str
    proven: Mapping[str, str] = {}
    headers: Headers = ()
    principal: str | None = None
    events: Callable[[Sequence[str]], Sequence[AuditEvent]] | None = None


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """A key that a request proved to hold: ``value`` in the member ``confirmation`` of ``cnf`` (RFC 7800).

    With ``access`` it is the ``cnf`` of the access token; with ``refresh`` every refresh must prove it again. ``headers`` go out with the
    reply, also when the grant refuses later.
    """

    confirmation: str
    value: str
    access: bool = True
    refresh: bool = False
    headers: Headers = ()


class ProvenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose client was proven. ``proofs``, and what follows from them, are there at the token endpoint and at /par."""

    call: Call
    form: Parameters
    client: Client
    """The client that asks."""
    match: ClientMatch
    proofs: tuple[Proof, ...] = ()
    proven: Mapping[str, str] = {}
    """Every key that the request proved to hold, by confirmation."""
    cnf: Mapping[str, str] | None = None
    """What the access token is bound to, None for nothing."""
    bound: Mapping[str, str] = {}
    """What every refresh must prove again."""
    scopeless: bool = False
    """Whether it may go without ``scope``: an extension has what it asks for instead. Known at the token endpoint."""


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """A client that was just stored, with its secret where it has one: it cannot be had again."""

    client: Client
    client_secret: Secret | None


Also = Callable[[Tx, str], object]
"""What a plugin does in the transaction that stores or deletes the client of that id. Raising Refuse undoes the whole."""


class Clients(Protocol):
    """The client registry, with the clients of every :class:`ClientResolver`; from a cache."""

    async def authenticate(self, call: Call) -> ProvenRequest:
        """Read the form and prove the client, as the token endpoint does (RFC 9126 s2, RFC 8628 s3.1).

        Raises :class:`InvalidClient`, BadRequest for two methods at once or an unreadable form, RateLimited, Unavailable.
        """

    async def register(self, registration: Registration, *, by: str) -> Registered:
        """Check, store and audit a new client; a secret is made where the method needs one and an open registration brought none.

        Its scopes must be defined, and none of an open registration is ``introspect``. Raises :class:`InvalidClientMetadata` and
        :class:`InvalidRedirectUri`.
        """

    async def register_body(self, body: Mapping[str, Any], *, open: bool, by: str, also: Also | None = None) -> Registered:
        """Register what the decoded JSON of a request asks for.

        With ``open`` a client registers itself (RFC 7591 s2): ``scope`` is one text, a client that names no method has
        ``client_secret_basic``, what only an administrator gives is refused, and scopes that are not defined or that nobody gives to
        himself are left out (s2: the server may replace what was asked for). Without it the members are those of the admin API.
        Raises as :meth:`register`, and what ``also`` refuses.
        """

    async def read_body(self, client_id: str, body: Mapping[str, Any], *, source: str) -> Client:
        """The client that an open registration with these members would be, under an id that is not of this registry; nothing is stored.

        For a :class:`ClientResolver`. It has no secret, whatever its method. Raises as :meth:`register`.
        """

    async def replace_body(self, client_id: str, body: Mapping[str, Any], *, by: str, also: Also | None = None) -> Registered | None:
        """Change a client as it asks for itself, by the whole of its registration (RFC 7592 s2.2); None when there is none.

        The members are those of an open registration: what is left out is cleared, what only an administrator gives stays as it is, and
        so do scopes that it has. ``client_secret`` may only be the one that it has; a new one is made where a new method needs it. Raises
        as :meth:`register_body`, and Conflict when others kept changing it.
        """

    async def update(self, client_id: str, body: Mapping[str, Any], *, by: str) -> Client | None:
        """Change a client by the decoded JSON of a PUT, in the members of the admin API; None when there is none.

        A member that is left out keeps its value, null clears it. Raises as :meth:`register`, and Conflict when others kept changing it.
        """

    async def delete(self, client_id: str, *, by: str, also: Also | None = None) -> bool:
        """Delete a client with its consents, codes, tokens and refresh families; False when there is none.

        Raises what ``also`` refuses.
        """

    async def get(self, client_id: str) -> Client | None:
        """The client of that id."""

    async def of_principal(self, principal: str) -> Sequence[Client]:
        """The registered clients of a Kerberos principal: those with exactly this ``kerberos_principal``, else those whose pattern it fits.

        Two at most, for whoever asks wants the only one. Clients of a :class:`ClientResolver` are known by their id alone.
        """

    def secret(self, client: Client) -> Secret:
        """The secret of a client whose method has ``secret_form`` ``sealed``. Raises InvalidClient when it has none of that form."""


class ClientAuthMethod(ABC, Generic[C]):
    """One value of ``token_endpoint_auth_method``. ``C`` is what it reads from a request."""

    method: ClassVar[str]
    open_registration: ClassVar[bool] = True
    """Whether /register accepts it."""
    ambient: ClassVar[bool] = False
    """Whether its credentials are there without being sent for this purpose: a certificate of the connection, or a client_id alone."""
    challenge: ClassVar[str | None] = None
    """What WWW-Authenticate has for a client that used the method and is refused, where the refusal says nothing else, and for one that
    used none; None is Basic for the former, and nothing for the latter."""
    fields: ClassVar[frozenset[str]] = frozenset()
    """The client fields that only some methods have, of those that this one has: the others must be unset."""
    secret_form: ClassVar[Literal["digest", "sealed"] | None] = None
    """How a ``client_secret`` is kept; None for methods without one."""

    def check(self, registration: Registration) -> Client:
        """Before a client with this method is stored. Returns the record to store, as it came or with what this method derives.

        Raises :class:`InvalidClientMetadata` that names the field. No I/O.
        """
        return registration.client

    @abstractmethod
    def credentials(self, request: ClientRequest) -> C | None:
        """What the request brings for this method, None when it brings nothing. Called for every request: no I/O, no cryptography.

        Raises InvalidClient for credentials that are meant for this method and cannot be read.
        """

    @abstractmethod
    def client_id(self, credentials: C) -> str | None:
        """The client that the credentials name. None when they name none: :meth:`find` has to."""

    async def prove(self, credentials: C) -> C:
        """All that can be checked before the client is known, for example a Kerberos token. What it returns replaces the credentials.

        Raises :class:`InvalidClient`, with ``headers`` where another leg is needed; Unavailable.
        """
        return credentials

    async def find(self, clients: Clients, credentials: C) -> Client | None:
        """The client of proven credentials; None ends in ``invalid_client``."""
        id = self.client_id(credentials)
        return None if id is None else await clients.get(id)

    @abstractmethod
    async def verify(self, credentials: C, client: Client) -> ClientMatch:
        """Last: ``client`` is registered for this method. Raises :class:`InvalidClient`; Unavailable when keys cannot be had now."""


class ClientResolver(ABC):
    """Clients that are no row of the registry, for example those of a federation. Asked for ids that the registry does not have."""

    name: ClassVar[str]

    @abstractmethod
    async def resolve(self, client_id: str) -> Client | None:
        """The client, None when the id is not of this kind. Called on cache misses alone. Raises Unavailable."""


class InvalidClient(Unauthenticated):
    """The client was not proven (RFC 6749 s5.2). The same words whether the client or its credential is unknown."""

    error = "invalid_client"


class InvalidClientMetadata(BadRequest):
    """A field of a registration breaks a rule (RFC 7591 s3.2.2)."""

    error = "invalid_client_metadata"


class InvalidRedirectUri(BadRequest):
    """A redirect URI breaks a rule (RFC 7591 s3.2.2)."""

    error = "invalid_redirect_uri"
