"""Routes as data, the rules that guard them, calls and replies."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeVar
from urllib.parse import parse_qsl

import msgspec
import orjson

from greatseal.api.problems import BadRequest, Forbidden

T = TypeVar("T")
C = TypeVar("C", bound="Caller")

MAX_PARAMETERS = 1000

Style = Literal["oauth", "api", "acme", "acme-admin", "page"]
"""How a route says its errors.

``api``: JSON with ``error`` and ``error_description``. ``oauth``: the same, in the characters of RFC 6749 s5.2. ``acme``: a problem
document (RFC 7807, RFC 8555 s6.7), and the route answers CORS preflights. ``acme-admin``: a problem document without CORS. ``page``: an
HTML page, with the headers that guard one.
"""
ListenerName = Literal["main", "admin"]
"""``main`` is ``[server] listen``; ``admin`` is ``[admin] listen``, and does not run without that section."""


OPERATOR_ROLES = ("administrator", "ca_operations", "ca_ra", "auditor")
"""What operators of the CA may be. A ``ca_ra`` acts for one CA, all others for every one."""
ADMINISTRATORS = ("administrator",)
"""Who alone may change operators, end accounts, and see the configuration."""
OPERATIONS = ("administrator", "ca_operations")
"""Who may change what all CAs of the service share."""


class Rule(msgspec.Struct, frozen=True):
    """Who may call a route. Each class but Anonymous and Handler is served by one :class:`AuthScheme`, which a plugin brings.

    A route whose rule no enabled plugin serves stops the start.
    """


class Anonymous(Rule, frozen=True):
    """Anybody. Needs no scheme."""


class Handler(Rule, frozen=True):
    """The handler proves the caller itself; ``reason`` says why no scheme can. Needs no scheme."""

    reason: str


class Session(Rule, frozen=True):
    """A signed-in person. Served by the plugin idp; the caller is a :class:`~greatseal.api.identity.SessionCaller`.

    Calls that change something (every method but GET, HEAD and OPTIONS) are refused when they come from a foreign origin, and when their
    body is not JSON; forms only on routes that name their media type, whose handler checks the form's token. Whose account may not be used
    is refused, but where the call is ``leaving``: it does nothing but end what the person has.
    """

    leaving: bool = False


class Permission(Rule, frozen=True):
    """A session with a role that grants ``name``, for example ``clients:read``. Served by the plugin idp.

    The caller is a :class:`~greatseal.api.identity.SessionCaller`; foreign origins are refused as with :class:`Session`. The name must be
    declared by the hook ``permissions``.
    """

    name: str


class Bearer(Rule, frozen=True):
    """An access token that holds ``scope``; an empty scope asks for none (RFC 6750). Served by the plugin idp.

    The caller is a :class:`~greatseal.api.tokens.BearerCaller`.
    """

    scope: str = ""


class Operator(Rule, frozen=True):
    """An operator of the CA with one of ``roles``, which are among :data:`OPERATOR_ROLES`. Served by the plugin ca-admin.

    The caller is an :class:`OperatorCaller`.
    """

    roles: tuple[str, ...]


class Jws(Rule, frozen=True):
    """A request signed by an ACME account key (RFC 8555 s6.2): ``kid``, an embedded ``jwk``, or either. Served by the plugin acme."""

    key: Literal["kid", "jwk", "either"] = "kid"


class Negotiate(Rule, frozen=True):
    """A Kerberos client (RFC 4559). Served by no plugin yet."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls: what an :class:`AuthScheme` proved. Schemes return subclasses with more."""

    subject: str


class OperatorCaller(Caller, frozen=True, kw_only=True):
    """What the scheme of :class:`Operator` proved: who acts in which role, and for which CA alone; ``ca_id`` None for all."""

    role: str
    ca_id: str | None = None

    @property
    def only_ca(self) -> str | None:
        """The CA of which alone the operator may see and change anything, None for all. Raises Forbidden for a ``ca_ra`` without one."""
        if self.role == "ca_ra" and self.ca_id is None:
            raise Forbidden("an operator of the role ca_ra must be assigned to a CA")
        return self.ca_id


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer: bytes with a status and headers. A header may repeat, so they are pairs.

    It is sent with ``Cache-Control: no-store`` unless its headers say otherwise; length, date and connection headers are not its own.
    """

    status: int = 200
    body: bytes = b""
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def json(cls, value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> "Reply":
        """``value``, which may hold Structs, as application/json."""
        body = orjson.dumps(value, default=msgspec.to_builtins)
        return cls(status=status, body=body, content_type="application/json", headers=tuple((headers or {}).items()))

    @classmethod
    def text(cls, value: str, *, status: int = 200, content_type: str = "text/plain; charset=utf-8") -> "Reply":
        """``value`` in UTF-8."""
        return cls(status=status, body=value.encode(), content_type=content_type)

    @classmethod
    def empty(cls, status: int = 204) -> "Reply":
        """No body."""
        return cls(status=status)

    def with_headers(self, *pairs: tuple[str, str]) -> "Reply":
        """The same answer with more headers."""
        return msgspec.structs.replace(self, headers=self.headers + pairs)


class Parameters(dict[str, str]):
    """Query or form parameters (RFC 6749 s3.1): one without a value is absent, one given twice raises BadRequest when it is read.

    Many read the same one: it is not to be changed.
    """

    __slots__ = ()

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        given = [pair for pair in pairs if pair[1]]
        super().__init__(given)
        if len(self) < len(given):
            repeated = defaultdict[str, list[str]](list)
            for name, value in given:
                repeated[name].append(value)
            self.update((name, tuple(values)) for name, values in repeated.items() if len(values) > 1)  # type: ignore[misc]
            self.__class__ = _Repeated

    @classmethod
    def parse(cls, encoded: bytes) -> "Parameters":
        """Of application/x-www-form-urlencoded. Raises BadRequest for more than 1000 parameters and for what is not UTF-8."""
        if b"%" not in encoded and b"+" not in encoded and encoded.isascii() and encoded.count(b"&") < MAX_PARAMETERS:
            # What most forms are: nothing to decode, at a fifth of the cost.
            return cls([pair.partition("=")[::2] for pair in encoded.decode().split("&")])
        try:
            return cls(parse_qsl(encoded.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS))
        except ValueError as problem:
            raise BadRequest("the parameters are not readable as application/x-www-form-urlencoded", cause=str(problem)) from None

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of a parameter that may repeat, such as ``resource`` (RFC 8707 s2)."""
        found: Any = dict.get(self, name, ())
        return (found,) if isinstance(found, str) else found


class _Repeated(Parameters):
    """With a name that was given twice: the dict holds all its values there, and who reads them as one is refused."""

    __slots__ = ()

    def __getitem__(self, name: str) -> str:
        value: object = super().__getitem__(name)
        if isinstance(value, str):
            return value
        raise BadRequest(f"{name} was given twice (RFC 6749 s3.1)")

    def __iter__(self) -> Iterator[str]:  # or a copy would be made past what is above
        return super().__iter__()

    __contains__, get, items, values = Mapping.__contains__, Mapping.get, Mapping.items, Mapping.values  # type: ignore[assignment]


class Connection(Protocol):
    """What lives as long as the TCP connection of a call: a place for half-open authentication, keyed by its owner."""

    state: dict[str, Any]
    trusted_proxy: bool
    server_certificate: bytes | None
    """The DER of the certificate that the listener showed on this connection, None without TLS: what clients bind tokens to (RFC 5929)."""
    certificate: bytes | None
    """The DER of the certificate that the client proved to hold, None where it has none.

    Of the TLS connection, where a :class:`ClientTrust` has the listener ask for one. On the listener ``main`` behind a trusted proxy: that
    of the header Client-Cert of this call (RFC 9440), and no other. Who issued it, the listener or that proxy has looked at; for whom, has
    not been looked at by anybody.
    """


class Call(Protocol):
    """One request, as a handler sees it. The body is read when it is asked for."""

    @property
    def route(self) -> "Route":
        """The route that was matched."""

    @property
    def method(self) -> str:
        """The method, in capitals."""

    @property
    def has_body(self) -> bool:
        """Whether a body was sent, an empty one too."""

    @property
    def path(self) -> Mapping[str, str]:
        """The path parameters, decoded."""

    @property
    def query(self) -> Parameters:
        """The query parameters."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The header fields, by name in any case; of one that repeats, the first."""

    def header_values(self, name: str) -> tuple[str, ...]:
        """Every value of a header field, in order."""

    @property
    def url(self) -> str:
        """The URL as the caller must have meant it: base URL, path and query as sent; never from Host."""

    @property
    def remote(self) -> str:
        """The address of the client; that of X-Forwarded-For only behind a trusted proxy."""

    @property
    def connection(self) -> Connection:
        """The TCP connection that carries the call."""

    @property
    def caller(self) -> Caller:
        """Who the route's scheme proved; a LookupError on a route without one."""

    def caller_as(self, kind: type[C]) -> C:
        """The caller as the class that the route's scheme returns."""

    async def raw(self) -> bytes:
        """The body, inflated, within `[server] max_body_bytes`.

        Raises UnsupportedMediaType, PayloadTooLarge, RequestTimeout, and BadRequest for broken framing.
        """

    async def body(self, kind: type[T]) -> T:
        """The body as strict JSON decoded into ``kind``; BadRequest names the member that does not fit."""

    def also(self, *headers: tuple[str, str]) -> None:
        """Have these header fields go out with whatever reply follows, a refusal too: a mutual Negotiate token (RFC 4559 s5)."""

    def replace_body(self, content: bytes) -> None:
        """For schemes that carry the body inside an envelope: :meth:`body` reads ``content`` from now on."""


HandlerFunction = Callable[[Any], Awaitable[Reply]]
Owner = Callable[[Any], Awaitable[str | None]]
"""Says by the :class:`Call` alone, before anybody is authenticated, which node it is for: its label, None for whoever was asked."""


class Route(msgspec.Struct, frozen=True):
    """One method on one path. ``{name}`` takes one segment, ``{name*}`` the rest, ``{name**}`` the rest with whatever slashes and empty
    segments it has, for what is no path, such as base64. ``summary`` is for the reference.

    Without ``auth`` anybody may call it.

    The most specific path that has the method wins: a literal segment before ``{name}`` before ``{name*}`` before ``{name**}``.
    Percent-encoding is taken off once, an encoded slash stays inside its parameter; empty and dot segments match only what says exactly
    that. A GET route answers HEAD too, unless HEAD has a route.

    With ``cors`` scripts of any web page may call it and read every header of the answer; browsers send no cookies along. So it is for what
    is public or proven by what the script itself sends, never for routes that a cookie opens.

    A route of the listener ``admin`` is there while the configuration has the section `[admin]`; without it nobody misses its scheme.

    With ``credentials``, such as ``bearer``, the route stands beside one of exactly the same method and path without: calls whose header
    Authorization has that scheme (RFC 9110 s11.1, in lower case) come to it, with a rule, style and handler of its own, all others to
    the other one. So a plugin lets somebody else in at a path that another one has.

    ``owner`` is for a call about what one node keeps, such as a code: see :mod:`greatseal.api.nodes`. Planned: a service is one node as
    yet, and nobody asks it.
    """

    method: str
    path: str
    handler: HandlerFunction
    style: Style = "api"
    auth: Rule = Anonymous()
    listener: ListenerName = "main"
    content_types: tuple[str, ...] = ("application/json",)
    """Media types of a body, checked when it is read and only where there is one; empty: any."""
    summary: str = ""
    owner: Owner | None = None
    cors: bool = False
    credentials: str = ""


def operator_route(method: str, path: str, handler: HandlerFunction, roles: tuple[str, ...], summary: str) -> Route:
    """A route of the admin listener for operators of the CA with one of ``roles``."""
    return Route(method, path, handler, style="acme-admin", auth=Operator(roles), listener="admin", summary=summary)


class AuthScheme(ABC):
    """Proves the caller of the routes that carry its rule."""

    rule: ClassVar[type[Rule]]

    @abstractmethod
    async def authenticate(self, call: Call) -> Caller:
        """Called once per request before the handler. Raises a Problem to refuse."""

    def finish(self, call: Call, reply: Reply) -> Reply:
        """Called with every reply of a guarded route, refusals too, also those of :meth:`authenticate`; may add headers."""
        return reply


class ClientTrust(msgspec.Struct, frozen=True, kw_only=True):
    """Whose certificates the clients of a listener may show. With one, the listener asks every client, and none has to have one."""

    name: str
    roots: Callable[[], Sequence[bytes]]
    """DER: certificates of CAs, and those of clients that no CA issued (RFC 8705 s2.2). A connection with a certificate that none of them
    vouches for is ended. Asked again, for connections to come, when ``tx.changed("client_trust", "")`` is told and when the TLS files are
    read again; empty lets nobody show one."""
    listener: ListenerName = "main"


class Discovery(msgspec.Struct, frozen=True):
    """Members that a plugin adds to a discovery document; ``members`` is called again when ``host.changes`` tells ``document``.

    Two owners of one member stop the start. The object ``meta`` is shared: its members have an owner each. With ``ca_id`` the members are
    those of one CA alone, whose directory has them.
    """

    document: Literal["oauth", "openid", "resource", "federation", "acme", "jwks", "features"]
    """``jwks`` is the key set: ``keys``, a list, is added to those that sign tokens.

    ``resource`` is the metadata of this issuer as a protected resource (RFC 9728).

    ``features`` is what /api/auth/info tells the pages of the management interface, true or false: ``device_flow``, ``passkey``.
    """
    members: Callable[[], Mapping[str, object]]
    ca_id: str | None = None


async def optional_body(call: Call, kind: type[T]) -> T:
    """The body as ``kind``; without one, ``kind()``."""
    return await call.body(kind) if await call.raw() else kind()


def is_strict(call: Call) -> bool:
    """Whether the caller wants a refusal instead of a guess (RFC 7240 s4.4)."""
    preferences = call.headers.get("Prefer", "").lower().replace('"', "").split(",")
    return any(one.partition(";")[0].replace(" ", "") == "handling=strict" for one in preferences)
