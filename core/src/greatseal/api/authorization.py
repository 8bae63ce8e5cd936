"""Extensions of the authorization request: one object in named phases, from the parameters that a client sends to the tokens that it gets.

One request, in order: the client, :meth:`Extension.open`, the redirect URI, the rules of the protocol, :meth:`Extension.ask`, the sign-in,
:meth:`Extension.shown`, consent, one write. What ``ask`` returned rests with the request, the code and the refresh family, by the name of
the extension. One token request: the client, its keys (:class:`greatseal.api.tokens.TokenBinding`), ``ask``, ``Grant.prepare``, one write
with ``Grant.redeem`` and :meth:`Extension.grant` of each, then signing and :meth:`Extension.seal`. The plugin idp calls all of it.
"""

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from greatseal.api.clients import Client, ProvenRequest, Registration
from greatseal.api.declarations import ScopeDefinition
from greatseal.api.http import Parameters
from greatseal.api.identity import SessionView
from greatseal.api.messages import Text
from greatseal.api.problems import BadRequest, Unauthenticated
from greatseal.api.store import Tx
from greatseal.api.tokens import Granted

S = TypeVar("S", bound=msgspec.Struct)

Place = Literal["authorize", "par", "device", "backchannel", "token"]
ResponseMode = Literal["query", "fragment", "form_post"]


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request as extensions see it.

    ``sent`` came over the wire; ``given`` is in force: the members of the request object where one was opened. ``proven`` are the keys
    that the request proved to hold, by confirmation: at /par and /token. ``grant_type`` is set at ``token``, ``response_mode`` where an
    answer goes back to the client by redirect.
    """

    at: Place
    client: Client
    given: Parameters
    sent: Parameters
    remote: str
    grant_type: str | None = None
    response_mode: str | None = None
    proven: Mapping[str, str] = {}


class Wish(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """What an extension makes of a request.

    ``kept`` stays with the request, the code and the family: no secrets, and with what other extensions keep at most 32 KiB of JSON.
    ``acr`` (the session must have one of them) and ``max_age`` (seconds) add to what the client asks and are never weakened by it;
    ``scopeless`` lets the request go without ``scope``. At ``token`` only ``kept`` and ``scopeless`` count.
    """

    kept: S | None = None
    acr: tuple[str, ...] = ()
    max_age: int | None = None
    scopeless: bool = False


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Plain text for the consent page, escaped there. With ``remember`` the person is asked once for it, without it every time."""

    title: Text
    lines: tuple[Text, ...] = ()
    remember: str | None = None


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What the token will say.

    ``scopes`` may only shrink. ``claims`` are those of the access token, ``members`` those of the token response, beside the usual ones.
    ``not_after`` (microseconds) caps the lifetime.
    """

    scopes: tuple[str, ...]
    audiences: tuple[str, ...] = ()
    claims: Mapping[str, Any] = {}
    members: Mapping[str, Any] = {}
    not_after: int | None = None


class Granting(msgspec.Struct, frozen=True, kw_only=True):
    """For whom, and by what, tokens are granted.

    ``basis``: an authorization of a person, the client for itself, or an exchange of another token, whose claims are ``exchanged``.
    ``cnf`` is what the access token is bound to, ``proven`` all keys that the request proved to hold.
    """

    grant_type: str
    client: Client
    subject: str
    cnf: Mapping[str, str] | None
    proven: Mapping[str, str]
    basis: Literal["authorization", "client", "exchange"]
    exchanged: Mapping[str, Any] = {}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An authorization response before it is sent. ``members`` are whole: code or error, state, iss."""

    client: Client
    response_mode: str
    members: Mapping[str, str]


class Extension(ABC, Generic[S]):
    """One object in named phases. Its state is the kernel's, never a request's.

    Phases run by ``(order, name)``, each extension once in each. ``open`` and ``answer`` are overridden by who declares ``opens`` or
    ``response_modes``; by default they raise TypeError.
    """

    name: ClassVar[str]
    kept_as: ClassVar[type[msgspec.Struct] | None] = None
    """``S``, which must encode to JSON; new members need defaults, for rows of last month."""
    order: ClassVar[int] = 0
    fields: ClassVar[type[msgspec.Struct] | None] = None
    """Members of a client that it brings, with their types; a default asks for nothing."""
    opens: ClassVar[str | None] = None
    """The parameter that holds a whole request, such as ``request``; one extension for each."""
    repeatable: ClassVar[frozenset[str]] = frozenset()
    """Parameters that may be given more than once, at /authorize, /par and /token."""
    prompts: ClassVar[Mapping[str, str]] = {}
    """Values of ``prompt`` with the path of the page that signs in, such as ``create``; one extension for each value."""
    response_modes: ClassVar[Mapping[str, ResponseMode]] = {}
    """Values of ``response_mode`` with how each is carried; one extension for each mode."""
    claims: ClassVar[frozenset[str]] = frozenset()
    """Of access tokens: reserved against scopes, shown by introspection."""

    def check(self, registration: Registration) -> None:
        """Before a client is stored. Raises :class:`~greatseal.api.clients.InvalidClientMetadata`. No I/O."""

    def complete(self, client: Client) -> Client:
        """When a client is loaded, also from a resolver: one profile becomes several switches.

        Never stored, so that taking the profile back is enough. No I/O.
        """
        return client

    async def open(self, ask: Ask) -> Parameters:
        """First, when ``opens`` was sent: the parameters in its place, nothing else counts.

        A Problem goes to the client only where the *outer* parameters name a registered redirect URI; else it is shown here. Two
        parameters that can be opened at once are refused as ``invalid_request``.
        """
        raise TypeError(f"{self.name} declares opens and has no open")

    def concerns(self, ask: Ask) -> bool:
        """Whether :meth:`ask` has a word about the request. Cheap, for every request of every client is asked about."""
        return True

    async def ask(self, ask: Ask) -> Wish[S] | None:
        """At every place, also when nothing of it was sent: refuse, keep, or nothing. At ``token``: what this token request asks for.

        After the rules of the protocol, before anything is stored or consumed. A Problem is told as the place does: by redirect, or in
        JSON.
        """
        return None

    async def shown(self, kept: S, subject: str) -> Sequence[Shown]:
        """When the person is known: before it is decided whether consent is needed, again on the page, and in its JSON form.

        Cheap. A Problem refuses the request. Clients with implicit consent are not asked.
        """
        return ()

    def grant(self, kept: S | None, asked: S | None, terms: Terms, granting: Granting) -> Terms:
        """In the transaction that redeems, for every grant; perhaps twice, no I/O.

        ``kept`` was authorized, ``asked`` came with this request and may narrow. What it narrows is of this one token: a later refresh
        begins with what was authorized. A Problem rolls everything back: the code stays good, the refresh token current, no family is
        opened.
        """
        return terms

    async def answer(self, answer: Answer) -> Mapping[str, str]:
        """For an answer in one of its modes, refusals too; nothing is added to what it returns.

        A Problem is shown here: the answer is never sent without.
        """
        raise TypeError(f"{self.name} declares response_modes and has no answer")

    async def seal(self, kind: Literal["authorization", "id_token", "userinfo", "introspection"], client: Client, token: str) -> str:
        """Every JWT that is signed for a client, last; encrypts where the client registered for it.

        ``authorization`` is the member ``response`` of what :meth:`answer` gave.
        """
        return token


class Authorization(msgspec.Struct, frozen=True, kw_only=True):
    """A request for authorization that another endpoint than /authorize read, such as that of devices. Encodes to JSON.

    Who asked for it stores it, and gives ``more`` back as :attr:`greatseal.api.tokens.Granted.more`. ``implied`` are scopes that release
    claims which the client asked for by name; ``acr`` are alternatives, and the session must have one of each; ``max_age`` is seconds.
    """

    client_id: str
    scopes: tuple[str, ...]
    implied: tuple[str, ...] = ()
    claims: Mapping[str, Any] | None = None
    acr: tuple[tuple[str, ...], ...] = ()
    max_age: int | None = None
    more: Mapping[str, Any] = {}


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a client wants of a person: ``scopes``, and ``shown`` is what extensions show beside them."""

    client: Client
    scopes: tuple[ScopeDefinition, ...]
    shown: tuple[Shown, ...] = ()

    @property
    def client_name(self) -> str:
        """What people know the client by."""
        return self.client.client_name or self.client.client_id

    @property
    def logo(self) -> str | None:
        """The picture of the client (RFC 7591 s2); of one that anybody may have written there is none, for it may show anything."""
        uri = self.client.more.get("logo_uri")
        return uri if isinstance(uri, str) and uri.startswith("https://") and self.client.host is None else None

    @property
    def image_sources(self) -> tuple[str, ...]:
        """The origin of the picture, for the page."""
        return () if self.logo is None else (f"https://{urlsplit(self.logo).netloc}",)

    def in_json(self) -> Mapping[str, object]:
        """For programs; the client is named by each as it likes."""
        return {
            "scopes": [{"name": scope.name, "description": scope.description, "claims": scope.claims} for scope in self.scopes],
            "details": [{"title": str(one.title), "lines": [str(line) for line in one.lines]} for one in self.shown],
            **({"client_host": self.client.host} if self.client.host else {}),
        }


class Proposal(Wanted, frozen=True, kw_only=True):
    """What a person is asked to allow, as of now.

    ``authorization`` has the scopes that may be granted now; ``scopes`` are these and the implied ones. ``keys`` is what is remembered.
    """

    authorization: Authorization
    keys: tuple[str, ...] = ()


class Awaited(msgspec.Struct, frozen=True, kw_only=True):
    """What a request that waits for a sign-in asks of it. ``acr`` are classes of which it needs one; ``max_age`` is seconds."""

    acr: tuple[str, ...] = ()
    max_age: int | None = None
    prompt: tuple[str, ...] = ()
    login_hint: str | None = None


class Authorizations(Protocol):
    """Requests for authorization at endpoints of other plugins (service AUTHORIZATIONS).

    One request, in order: :meth:`read` when the client asks, :meth:`propose` when it is known who decides, :meth:`allow` in the transaction
    of the approval; then at the token endpoint :meth:`allowed` in ``Grant.prepare`` and :meth:`redeem` in ``Grant.redeem``. An approval
    hangs on no session: the person may sign out of the browser before the client asks for its tokens. It ends with the consent, which the
    person finds on the account page, and with the client.
    """

    async def open(self, request: ProvenRequest, at: Place) -> Parameters:
        """The parameters in force: those of the form, nothing given twice, or of the request object that an extension opened.

        For endpoints with parameters of their own, which give them to :meth:`read`. Raises Problems for the client.
        """

    async def read(self, request: ProvenRequest, at: Place, *, given: Parameters | None = None) -> Authorization:
        """The request, opened here unless it is ``given``, asked of every extension, its scopes cut to client and registry.

        Raises Problems for the client.
        """

    def hinted(self, hint: str, client: Client) -> str:
        """The subject of an ``id_token_hint``, expired or not.

        Raises BadRequest for what is no ID token that was issued here to this client.
        """

    async def awaited(self, return_to: str) -> Awaited | None:
        """What the request asks of a sign-in that leads to ``return_to``; None for a sign-in for nobody's sake.

        For who signs people in elsewhere. Whether a sign-in is enough is decided when the request goes on.
        """

    async def shown(self, authorization: Authorization, subject: str) -> Sequence[Shown]:
        """What the person must be shown beside the scopes."""

    async def propose(self, authorization: Authorization, session: SessionView, *, since: int, remote: str) -> Proposal:
        """What the person of a session is to be asked; ``since`` is when the client asked, microseconds.

        Raises LoginRequired when the person must sign in first, again or in another way, UnmetAuthenticationRequirements when a sign-in
        after ``since`` did not reach what is needed, NotFound when the client is gone, InvalidScope, AccessDenied, Unavailable.
        """

    def allow(self, tx: Tx, proposal: Proposal, session: SessionView, *, origin: bytes, until: int) -> None:
        """The person allowed it: may be redeemed ``until`` then (microseconds) under ``origin``, a digest that nobody else can have.

        The consent is remembered, with its audit event. Raises Refuse when the session has ended or the client is gone.
        """

    async def allowed(self, request: ProvenRequest, origin: bytes) -> Granted:
        """What the client gets for an approval now: the scopes that exist, that it has and that nothing refuses; a family if it may.

        Raises InvalidGrant for one that is unknown, another client's, used, over, or of an account that may not sign in; InvalidScope,
        AccessDenied, Unavailable.
        """

    def redeem(self, tx: Tx, granted: Granted) -> None:
        """Use up the approval behind what :meth:`allowed` gave, once. Raises Refuse with InvalidGrant when that is impossible by now."""


class LoginRequired(Unauthenticated):
    """Nobody is signed in, or not the person or not as recently or as strongly as is needed (OpenID Connect Core s3.1.2.6)."""

    error = "login_required"


class UnmetAuthenticationRequirements(BadRequest):
    """No way to sign in gives an acr that is needed (OpenID Connect unmet_authentication_requirements)."""

    error = "unmet_authentication_requirements"
