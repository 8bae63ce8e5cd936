"""How a client proves itself at the token endpoint and its neighbours (RFC 6749 s2.3, OpenID Connect Core s9)."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NoReturn

from greatseal.api.clients import ClientAuthMethod, ClientMatch, ClientRequest, Clients, InvalidClient, ProvenRequest
from greatseal.api.http import Call, Parameters
from greatseal.api.problems import BadRequest, RateLimited
from greatseal.host import Host
from greatseal.net.addresses import source_of

FORM = "application/x-www-form-urlencoded"
UNKNOWN = "the client or its credentials are not known"
FAILURES, FAILURES_WINDOW = 20, 60.0
"""How many invalid_client answers one client id gets in so many seconds before it gets 429 instead."""
PUBLISHED, PUBLISHED_WINDOW = 600, 60.0
"""Requests from one address in so many seconds of clients whose id is the URL of their metadata: whoever made the keys made these too."""
MAX_CLIENT_ID = 255

Found = tuple[ClientAuthMethod[Any], Any]


def is_client_id(text: str) -> bool:
    """Whether a client could have this id: only then is anything looked up or counted for it."""
    return len(text) <= MAX_CLIENT_ID and text.isascii() and text.isprintable()


async def read_form(call: Call) -> Parameters:
    """The form of a request. BadRequest for another media type: RFC 6749 knows no 415."""
    media_type = call.headers.get("Content-Type", FORM)
    if media_type != FORM and media_type.partition(";")[0].strip().lower() != FORM:
        raise BadRequest(f"the body must be {FORM} (RFC 6749 Appendix B)")
    return Parameters.parse(await call.raw())


class ClientAuthentication:
    """Proves clients by the methods of every plugin."""

    def __init__(self, host: Host, clients: Clients) -> None:
        self._host = host
        self._clients = clients
        self._audiences = (host.issuer, f"{host.issuer}/token")
        self._challenge = f'Basic realm="{host.issuer}", charset="UTF-8"'

    async def authenticate(self, call: Call) -> ProvenRequest:
        """See :meth:`greatseal.api.clients.Clients.authenticate`."""
        form = await read_form(call)
        request = ClientRequest(call=call, form=form, audiences=self._audiences_at(call))
        named: list[str] = []
        try:
            return await self._prove(request, named)
        except InvalidClient as problem:
            self._fail(call, named[0] if named else form.get("client_id"), problem)

    def _audiences_at(self, call: Call) -> tuple[str, ...]:
        """Issuer or token endpoint everywhere, and the URL of the endpoint itself (RFC 9126 s2, CIBA Core s7.1)."""
        return (*self._audiences, f"{self._host.issuer}{call.route.path}")

    async def _prove(self, request: ClientRequest, named: list[str]) -> ProvenRequest:
        """``named`` gets the client id that the credentials name, for counting failures."""
        sent: list[Found] = []
        ambient: list[Found] = []
        for method in self._methods:
            credentials = method.credentials(request)
            if credentials is not None:
                (ambient if method.ambient else sent).append((method, credentials))
        if len(sent) > 1:
            raise BadRequest("the client used more than one authentication method (RFC 6749 s2.3)")
        for method, credentials in sent:
            client_id = method.client_id(credentials)
            if client_id is not None:
                named.append(client_id)
                if request.form.get("client_id", client_id) != client_id:
                    raise BadRequest("client_id is not the client of the credentials (RFC 6749 s3.2.1)")
        for method, credentials in sent or ambient:
            proven = await self._try(request, method, credentials)
            if proven is not None:
                return proven
        # Whoever sent nothing is told what could be sent; programs that wait to be asked do not prove themselves else (RFC 4559 s4.2).
        asked = [method.challenge for method in ([sent[0][0]] if sent else self._methods) if method.challenge is not None]
        headers = {"WWW-Authenticate": ", ".join(asked)} if asked else {}
        raise InvalidClient(UNKNOWN if sent or ambient else "the request has no client authentication (RFC 6749 s5.2)", headers=headers)

    async def _try(self, request: ClientRequest, method: ClientAuthMethod[Any], credentials: Any) -> ProvenRequest | None:
        """None when the client is unknown or registered for another method."""
        proven = await method.prove(credentials)
        client = await method.find(self._clients, proven)
        if client is None or client.token_endpoint_auth_method != method.method:
            return None
        if client.host is not None:
            self._count(request.call)
        match = await method.verify(proven, client)
        if not isinstance(match, ClientMatch):
            raise TypeError(f"verify of {method.method} returned {match!r}; it returns a ClientMatch, or raises InvalidClient")
        return ProvenRequest(call=request.call, form=request.form, client=client, match=match)

    def _count(self, call: Call) -> None:
        """A proof of a client that anybody may have published: it costs a signature here, and often a row. Raises RateLimited."""
        wait = self._host.limits.hit("published-client", source_of(call.remote), PUBLISHED, PUBLISHED_WINDOW)
        if wait is not None:
            raise RateLimited("too many requests of clients whose id is a URL", headers={"Retry-After": str(wait)})

    def _fail(self, call: Call, client_id: str | None, problem: InvalidClient) -> NoReturn:
        if client_id is not None and is_client_id(client_id):
            wait = self._host.limits.hit("invalid-client", client_id, FAILURES, FAILURES_WINDOW)
            if wait is not None:
                raise RateLimited("too many attempts for this client", headers={"Retry-After": str(wait)}) from problem
        headers = dict(problem.headers)
        if "Authorization" in call.headers:
            headers.setdefault("WWW-Authenticate", self._challenge)
        raise InvalidClient(problem.detail or UNKNOWN, cause=problem.cause, headers=headers) from None

    @cached_property
    def _methods(self) -> Sequence[ClientAuthMethod[Any]]:
        return tuple(self._host.components(ClientAuthMethod).values())
