"""Pushed authorization requests (RFC 9126)."""

from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.problems import BadRequest
from greatseal_idp.authorize.endpoint import AuthorizeEndpoint
from greatseal_idp.authorize.parts import Parts
from greatseal_idp.authorize.request import addressee, refuse_repeated
from greatseal_idp.authorize.waiting import PUSHED, URN, Kept
from greatseal_idp.clients.methods.none import PublicClient


class ParEndpoint:
    """``POST /par``."""

    def __init__(self, provider: Parts, authorize: AuthorizeEndpoint) -> None:
        self._clients = provider.clients
        self._reader = authorize.reader
        self._waiting = authorize.waiting
        self._limits = authorize.limits

    def routes(self) -> list[Route]:
        by_client = Handler("the client authenticates as at the token endpoint (RFC 9126 s2)")
        return [
            Route(
                "POST",
                "/par",
                self.push,
                style="oauth",
                auth=by_client,
                content_types=(),
                summary="Push an authorization request; gives a request_uri (RFC 9126).",
            )
        ]

    async def push(self, call: Call) -> Reply:
        proven = await self._clients.authenticate(call)
        refuse_repeated(proven.form)
        if "request_uri" in proven.form:
            raise BadRequest("request_uri cannot be pushed")
        to = addressee(proven.form, proven.client)
        request = await self._reader.read(proven.form, to, proven.client, pushed=True)
        if proven.client.token_endpoint_auth_method == PublicClient.method:
            await self._limits.request(call.remote)
        handle = await self._waiting.keep(PUSHED, Kept(request=request))
        pushed = {"request_uri": f"{URN}{handle}", "expires_in": self._waiting.pushed_seconds}
        return Reply.json(pushed, status=201).with_headers(("Pragma", "no-cache"), *proven.match.headers)
