"""From a request to its route, its caller, its handler, and back.

The order of refusals: 404, 405, authentication, permission, then whatever the handler says.
"""

import os
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import msgspec
import structlog
from aiohttp import web
from multidict import CIMultiDict

from greatseal.api.http import AuthScheme, Reply, Route, Rule, Style
from greatseal.api.languages import Languages
from greatseal.api.messages import Message
from greatseal.api.nodes import Forwarded
from greatseal.api.problems import Internal, MethodNotAllowed, NotFound, Outbound, PayloadTooLarge, Problem
from greatseal.http.call import ForwardedCall, HttpCall, RoutedCall, Surroundings
from greatseal.http.connection import TrustedProxies, peer_of
from greatseal.http.owners import NotMine, Owners
from greatseal.http.render import render
from greatseal.http.routing import Match, PathTable, check_routes
from greatseal.http.wire import WireResponse, head_of
from greatseal.kernel.logs import REQUEST_ID, brief, printable

__all__ = ["Dispatcher", "check_routes"]

_PREFLIGHT_SECONDS = 86_400
_NAMES_TARGETS = frozenset({"acme", "acme-admin"})
"""Styles whose callers choose what is asked: they are told how it went. Anybody else would be told of our own network."""
_LOGGED_PATH = 200

Observer = Callable[[str, str, str], Callable[[float], None]]
"""Makes for a method, a route and a status what is told the seconds of each request."""

Refusal = Callable[[Problem, Mapping[str, str]], Reply]
"""See :meth:`greatseal.api.pages.Pages.refusal`."""


class _Endpoint(msgspec.Struct, frozen=True):
    """A route with its scheme looked up, under one method. ``owned`` tells whether another node may have to answer."""

    route: Route
    scheme: AuthScheme | None
    owned: bool
    observed: "_Observed | None"
    beside: Mapping[str, "_Endpoint"]
    """Those of the same path for other credentials, by their scheme."""


class Dispatcher:
    """Answers the requests of one listener.

    ``base_url`` may have a path. A proxy may keep that prefix or strip it: a path is looked up as it came, and when nothing is there
    and it begins with the prefix, once more without it. ``trusted_proxies`` are CIDRs, and ``unix`` for the Unix socket's peers.
    With ``believes_client_cert`` those say in Client-Cert whose certificate they saw. With ``owners`` a call of a route with an owner may
    go to another node. ``observer`` makes who is told the seconds of requests. ``refusal`` says the problems of pages, where there is
    somebody who makes pages; plain ones are said in ``languages``. ``who`` names the plugin of a route, for the log of what it did not
    expect. Raises ValueError for routes that :func:`check_routes` would report.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        schemes: Mapping[type[Rule], AuthScheme],
        *,
        base_url: str,
        max_body_bytes: int,
        trusted_proxies: Sequence[str],
        log: structlog.stdlib.BoundLogger,
        owners: Owners | None = None,
        observer: Observer | None = None,
        refusal: Refusal | None = None,
        languages: Languages | None = None,
        who: Callable[[Route], str] | None = None,
        believes_client_cert: bool = True,
    ) -> None:
        if problems := check_routes(routes, ["routes"] * len(routes), schemes):
            raise ValueError("; ".join(problems))
        self.max_body_bytes = max_body_bytes
        self._log = log
        self._observer = observer
        self._unmatched = self._observed("", "unmatched")  # anybody may choose method and path
        self._refusal = refusal
        self._languages = languages
        self._who = who
        self._log_request = brief(log, "request")
        self._prefix = urlsplit(base_url).path
        self._surroundings = Surroundings(base_url, max_body_bytes, believes_client_cert)
        self._proxies = TrustedProxies(trusted_proxies) if trusted_proxies else None
        self._owners = owners
        self._ids = count()
        self._id_start = os.urandom(4).hex()
        self._table: PathTable[_Endpoint] = PathTable()
        self._areas: dict[str, Route] = {}
        self._beside: dict[tuple[str, str], list[Route]] = defaultdict(list)
        for route in routes:
            if route.credentials:
                self._beside[route.method, route.path].append(route)
        routes = [route for route in routes if not route.credentials]
        for route in routes:
            self._table.add(route.method, route.path, self._endpoint(route.method, route, schemes))
            if route.style in _NAMES_TARGETS:
                self._areas.setdefault(_area(route.path), route)
        for route in routes:
            self._add_implied(route, routes, schemes)

    async def handle(self, request: web.Request) -> WireResponse:
        """The answer to one request. Never raises but CancelledError."""
        outcome = _Outcome(f"{self._id_start}{next(self._ids):08x}")
        peer = peer_of(request.protocol.peername)
        client = self._proxies.behind(peer, request.headers) if self._proxies else None
        match, target = self._find(request.method, request.raw_path)
        endpoint = match.value
        if endpoint is None:
            style, name, cors = self._unmatched_route(match, target.partition("?")[0])
            observed = self._unmatched
            reply = self._refused(_unmatched(match), style, request.headers)
        else:
            endpoint = _for_credentials(endpoint, request.headers)
            route, observed = endpoint.route, endpoint.observed
            style, name, cors = route.style, route.path, route.cors
            call = HttpCall(route, request, match.parameters, target, self._surroundings, peer=peer, client=client)
            reply = await self._answer(endpoint, call, outcome)
        if cors and ("Origin" in request.headers or request.method != "POST"):  # caches may keep what is not asked for by a POST
            reply = _readable(reply)
        response, status = self._response(reply, style, request.headers, outcome)
        seconds = time.perf_counter() - outcome.started
        if observed is not None:
            observed[status](seconds)
        fields = {"method": request.method, "route": name, "status": status, "ms": round(seconds * 1000, 2), "peer": peer}
        if client is not None:
            fields["client"] = client
        self._log_request(outcome.add_to(fields))
        return response

    async def handle_forwarded(self, forwarded: Forwarded) -> Reply | None:
        """The answer to a call that another node passed on; None when this node is not its owner. Never raises but CancelledError."""
        outcome = _Outcome(f"{self._id_start}{next(self._ids):08x}")
        outcome.op_id = forwarded.op_id
        match, target = self._find(forwarded.method, forwarded.target)
        endpoint = None if match.value is None else _for_credentials(match.value, CIMultiDict(forwarded.headers))
        if endpoint is None or not endpoint.owned:
            return None  # a feature that is not enabled on every node, or another one there
        call = ForwardedCall(endpoint.route, forwarded, match.parameters, target, self._surroundings)
        reply = await self._answer(endpoint, call, outcome)
        fields: dict[str, Any] = {"method": forwarded.method, "route": endpoint.route.path, "status": reply.status}
        fields |= {"ms": round((time.perf_counter() - outcome.started) * 1000, 2), "client": forwarded.remote}
        self._log_request(outcome.add_to(fields))
        return None if isinstance(outcome.problem, NotMine) else reply

    def _find(self, method: str, target: str) -> tuple[Match[_Endpoint], str]:
        if not target.isascii():
            return Match(None, {}, {}), target
        if not target.startswith("/"):
            target = _origin_form(target)
        match = self._table.find(method, target.partition("?")[0])
        if match.value is None and not match.allowed and self._prefix and target.startswith(f"{self._prefix}/"):
            stripped = target[len(self._prefix) :]
            return self._table.find(method, stripped.partition("?")[0]), stripped
        return match, target

    async def _answer(self, endpoint: _Endpoint, call: RoutedCall, outcome: "_Outcome") -> Reply:
        route, scheme = endpoint.route, endpoint.scheme
        try:
            if endpoint.owned and (told := await self._told(call, outcome)) is not None:
                return told
            if scheme is not None:
                call.caller = await scheme.authenticate(call)
                outcome.subject = call.caller.subject
            reply = _checked(await route.handler(call), route)
        except Problem as problem:
            outcome.problem = problem if route.style in _NAMES_TARGETS or not isinstance(problem, Outbound) else problem.as_outage()
            reply = self._refused(outcome.problem, route.style, call.headers)
        except web.HTTPRequestEntityTooLarge:
            reply = self._refused(PayloadTooLarge(f"the body is over {self.max_body_bytes} bytes"), route.style, call.headers)
        except Exception as error:  # noqa: BLE001  # whatever a plugin raises, the caller gets an answer and the log the reason
            reply = self._incident(error, route.style, call.headers, outcome.number, route)
        if scheme is not None:
            try:
                reply = scheme.finish(call, reply)
            except Exception as error:  # noqa: BLE001  # as above
                reply = self._incident(error, route.style, call.headers, outcome.number, route)
        return reply.with_headers(*call.promised) if call.promised else reply

    async def _told(self, call: RoutedCall, outcome: "_Outcome") -> Reply | None:
        """The answer of the node that owns what the call is about, finished there; None where this one does."""
        assert self._owners is not None
        owner = await self._owners.of(call)
        if owner is None:
            return None
        outcome.owner, outcome.op_id = owner, self._owners.new_id()
        return await self._owners.ask(owner, call, outcome.op_id)

    def _incident(self, error: Exception, style: Style, headers: Mapping[str, str], number: str, route: Route | None = None) -> Reply:
        named = {"brought_by": self._who(route)} if self._who and route else {}
        self._log.error("unexpected exception", incident=number, exc_info=error, **named)
        fault = Internal(
            Message("an unexpected fault; tell the operator the incident %(number)s", {"number": number}), members={"incident": number}
        )
        return self._refused(fault, style, headers)

    def _refused(self, problem: Problem, style: Style, headers: Mapping[str, str]) -> Reply:
        if style == "page" and self._refusal is not None:
            try:
                return self._refusal(problem, headers)
            except Exception as error:  # noqa: BLE001  # whoever makes the pages: the plain one is always there
                self._log.error("the page of a refusal cannot be made", exc_info=error)
        return render(problem, style, self._languages.of(headers) if style == "page" and self._languages is not None else None)

    def _response(self, reply: Reply, style: Style, headers: Mapping[str, str], outcome: "_Outcome") -> tuple[WireResponse, int]:
        try:
            head = head_of(reply, style)
        except ValueError as error:
            outcome.problem = None
            reply = self._incident(error, style, headers, outcome.number)
            head = head_of(reply, style)
        return WireResponse(reply.status, head, reply.body), reply.status

    def _endpoint(self, method: str, route: Route, schemes: Mapping[type[Rule], AuthScheme]) -> _Endpoint:
        owned = self._owners is not None and route.owner is not None
        others = () if route.credentials else self._beside.get((route.method, route.path), ())
        beside = {one.credentials: self._endpoint(method, one, schemes) for one in others}
        return _Endpoint(route, schemes.get(type(route.auth)), owned, self._observed(method, route.path), beside)

    def _observed(self, method: str, name: str) -> "_Observed | None":
        return None if self._observer is None else _Observed(self._observer, method, name)

    def _add_implied(self, route: Route, routes: Sequence[Route], schemes: Mapping[type[Rule], AuthScheme]) -> None:
        """HEAD where there is GET; the preflight of browsers where scripts may call."""
        if route.method == "GET":
            self._table.add("HEAD", route.path, self._endpoint("HEAD", route, schemes))
        if route.cors:
            methods = sorted({one.method for one in routes if one.path == route.path and one.cors})
            preflight = Route("OPTIONS", route.path, _preflight(", ".join(methods)), style=route.style, cors=True)
            self._table.add("OPTIONS", route.path, self._endpoint("OPTIONS", preflight, {}))

    def _unmatched_route(self, match: Match[_Endpoint], path: str) -> tuple[Style, str, bool]:
        """Style, name for the log, and whether scripts may read it, of what no handler answers: those of the path's routes, or of the
        protocol that has problem documents for errors under the first segment of the path."""
        for endpoint in match.allowed.values():
            return endpoint.route.style, endpoint.route.path, endpoint.route.cors
        near, name = self._areas.get(_area(path)), f"unmatched {printable(path[:_LOGGED_PATH])}"
        return ("api", name, False) if near is None else (near.style, name, near.cors)


class _Outcome:
    """What the log line tells beside the status. ``number`` is the request's."""

    __slots__ = ("number", "op_id", "owner", "problem", "started", "subject")

    def __init__(self, number: str) -> None:
        self.number = number
        REQUEST_ID.set(number)
        self.started = time.perf_counter()
        self.problem: Problem | None = None
        self.subject = ""
        self.owner = ""
        self.op_id = ""

    def add_to(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of a log line, with what is known here. ``op_id`` is in the lines of both nodes that a call came through."""
        fields["request_id"] = self.number
        if self.op_id:
            fields["op_id"] = self.op_id
        if self.owner:
            fields["owner"] = self.owner
        if self.subject:
            fields["subject"] = printable(self.subject)
        if (problem := self.problem) is not None:
            fields["problem"] = type(problem).__name__
            fields["detail"] = printable(problem.detail)
            if problem.cause:
                fields["cause"] = printable(problem.cause)
        return fields


class _Observed(dict[int, Callable[[float], None]]):
    """Who is told the seconds of one method and route, by status; made when the first answer of a status goes out."""

    def __init__(self, observer: Observer, method: str, name: str) -> None:
        super().__init__()
        self._observer, self._method, self._name = observer, method, name

    def __missing__(self, status: int) -> Callable[[float], None]:
        return self.setdefault(status, self._observer(self._method, self._name, str(status)))


def _checked(reply: object, route: Route) -> Reply:
    if isinstance(reply, Reply):
        return reply
    raise TypeError(f"the handler of {route.method} {route.path} returned {type(reply).__name__}, not a Reply")


def _for_credentials(endpoint: _Endpoint, headers: Mapping[str, str]) -> _Endpoint:
    """The endpoint for what the caller sent as Authorization."""
    if not endpoint.beside:
        return endpoint
    return endpoint.beside.get(headers.get("Authorization", "").partition(" ")[0].lower(), endpoint)


def _area(path: str) -> str:
    """The first segment."""
    return path.split("/", 2)[1] if path.startswith("/") else ""


def _readable(reply: Reply) -> Reply:
    """The answer with all its headers for a script of any page."""
    return reply.with_headers(*_shared(tuple([name for name, _ in reply.headers])))


@lru_cache(64)
def _shared(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    anybody = ("Access-Control-Allow-Origin", "*")
    return (anybody, ("Access-Control-Expose-Headers", ", ".join(dict.fromkeys(names)))) if names else (anybody,)


def _preflight(methods: str) -> Callable[[Any], Awaitable[Reply]]:
    reply = Reply(
        status=204,
        headers=(
            ("Access-Control-Allow-Methods", methods),
            ("Access-Control-Allow-Headers", "*, Authorization"),  # which the star leaves out
            ("Access-Control-Max-Age", str(_PREFLIGHT_SECONDS)),
        ),
    )

    async def answer(_call: object) -> Reply:
        return reply

    return answer


def _origin_form(target: str) -> str:
    """The path and query of an absolute-form (RFC 9112 s3.2.2). Its authority counts as little as a Host header: we serve one service.

    What has no authority is left alone, and so is the authority-form of CONNECT: neither is a path of ours.
    """
    scheme, _, rest = target.partition("://")
    if scheme.lower() not in {"http", "https"} or rest[:1] in {"", "/", "?"}:
        return target
    path, question, query = rest.partition("?")
    return f"/{path.partition('/')[2]}{question}{query}"


def _unmatched(match: Match[_Endpoint]) -> Problem:
    if match.allowed:
        allowed = ", ".join(sorted(match.allowed))
        return MethodNotAllowed(f"this URL takes {allowed}", headers={"Allow": allowed})
    return NotFound(Message("there is nothing under this URL"))
