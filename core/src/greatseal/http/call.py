"""A request as handlers see it (:class:`greatseal.api.http.Call`)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from greatseal.api.http import Caller, Connection, Parameters, Route
from greatseal.api.nodes import Forwarded
from greatseal.api.problems import BadRequest
from greatseal.http.body import read_body
from greatseal.http.connection import ConnectionState, certificate_of, forwarded_certificate, server_certificate_of
from greatseal.jose.strict import decode_json

T = TypeVar("T")
C = TypeVar("C", bound=Caller)


class Surroundings(msgspec.Struct, frozen=True):
    """What all calls of a listener share."""

    base_url: str
    max_body_bytes: int
    believes_client_cert: bool = True
    """Whether trusted proxies say in Client-Cert whom they saw. Else every certificate is that of the TLS connection."""


class _Routed(ABC):
    """One request on its route, however it comes. ``target`` is path and query, without the prefix that a proxy kept."""

    __slots__ = ("_authenticated", "_query", "_replaced", "_surroundings", "path", "promised", "route", "target")

    def __init__(self, route: Route, path: Mapping[str, str], target: str, surroundings: Surroundings) -> None:
        self.route = route
        self.path = path
        self.target = target
        self._surroundings = surroundings
        self._authenticated: Caller | None = None
        self._replaced: bytes | None = None
        self._query: Parameters | None = None
        self.promised: tuple[tuple[str, str], ...] = ()

    @property
    def query(self) -> Parameters:
        if self._query is None:
            self._query = Parameters.parse(self.target.partition("?")[2].encode())
        return self._query

    @property
    def url(self) -> str:
        return self._surroundings.base_url + self.target

    @property
    def caller(self) -> Caller:
        """Raises LookupError on a route without a scheme, and before the scheme has answered."""
        if self._authenticated is None:
            raise LookupError(f"nobody was authenticated on {self.route.method} {self.route.path}")
        return self._authenticated

    @caller.setter
    def caller(self, caller: Caller) -> None:
        self._authenticated = caller

    def caller_as(self, kind: type[C]) -> C:
        """Raises TypeError when the scheme returns another class."""
        caller = self.caller
        if not isinstance(caller, kind):
            raise TypeError(f"the caller of {self.route.method} {self.route.path} is a {type(caller).__name__}, no {kind.__name__}")
        return caller

    async def body(self, kind: type[T]) -> T:
        content = self._replaced if self._replaced is not None else await self.raw()
        try:
            value = decode_json(content)
        except ValueError as error:
            raise BadRequest(f"the body is not valid JSON: {error}") from None
        try:
            return msgspec.convert(value, kind, str_keys=True)
        except msgspec.ValidationError as error:
            raise BadRequest(f"the body does not fit: {readable(str(error))}") from None

    def also(self, *headers: tuple[str, str]) -> None:
        self.promised = (*self.promised, *headers)

    def replace_body(self, content: bytes) -> None:
        self._replaced = content

    @abstractmethod
    async def raw(self) -> bytes:
        """The body."""


class HttpCall(_Routed):
    """One that came over a connection of ours; ``client`` is who sent it to the trusted proxy that is its peer, None without one."""

    __slots__ = ("_body", "_connection", "_proxied", "_request", "headers", "method", "remote")

    def __init__(
        self,
        route: Route,
        request: web.Request,
        path: Mapping[str, str],
        target: str,
        surroundings: Surroundings,
        *,
        peer: str,
        client: str | None,
    ) -> None:
        super().__init__(route, path, target, surroundings)
        self._request = request
        self.method = request.method
        self.headers = request.headers
        self.remote = client or peer
        self._proxied = client is not None
        self._body: bytes | None = None
        self._connection: ConnectionState | None = None

    @property
    def has_body(self) -> bool:
        return self._request.body_exists

    def header_values(self, name: str) -> tuple[str, ...]:
        return tuple(self.headers.getall(name, ()))

    @property
    def connection(self) -> Connection:
        if self._connection is None:
            # The protocol keeps it for the next requests; None where another server than ours runs.
            protocol = self._request.protocol
            state: ConnectionState | None = getattr(protocol, "connection", None)
            told = self._proxied and self._surroundings.believes_client_cert
            if state is None:
                transport = self._request.transport
                certificate = None if told else certificate_of(transport)
                shown = server_certificate_of(transport)
                state = ConnectionState(trusted_proxy=self._proxied, certificate=certificate, server_certificate=shown)
                if hasattr(protocol, "connection"):
                    protocol.connection = state
            if told:
                state.certificate = forwarded_certificate(self.headers)  # one connection of it carries the calls of many
            self._connection = state
        return self._connection

    async def raw(self) -> bytes:
        if self._body is None:
            self._body = await read_body(self._request, self._surroundings.max_body_bytes, self.route.content_types)
        return self._body


class ForwardedCall(_Routed):
    """One that another node passed on. That node has read the body by the rules of the route; whom it is from is proven here."""

    __slots__ = ("_forwarded", "connection", "headers")

    def __init__(self, route: Route, forwarded: Forwarded, path: Mapping[str, str], target: str, surroundings: Surroundings) -> None:
        super().__init__(route, path, target, surroundings)
        self._forwarded = forwarded
        self.headers = CIMultiDictProxy(CIMultiDict(forwarded.headers))
        self.connection: Connection = ConnectionState(trusted_proxy=False, certificate=forwarded.certificate)

    @property
    def method(self) -> str:
        return self._forwarded.method

    @property
    def has_body(self) -> bool:
        return bool(self._forwarded.body)

    def header_values(self, name: str) -> tuple[str, ...]:
        return tuple(self.headers.getall(name, ()))

    @property
    def remote(self) -> str:
        return self._forwarded.remote

    async def raw(self) -> bytes:
        return self._forwarded.body


RoutedCall = HttpCall | ForwardedCall


def readable(message: str) -> str:
    """A decoder's message, which may quote the sender's text, in one short line of plain ASCII."""
    return "".join(c if " " <= c <= "~" and c not in '"\\<>&' else "?" for c in message[:200])
