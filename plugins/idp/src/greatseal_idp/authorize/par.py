"""Pushed authorization requests (RFC 9126)."""

from greatseal.api.clients import Clients, ProvenRequest
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.problems import BadRequest
from greatseal_idp.authorize.reader import Reader
from greatseal_idp.authorize.waiting import PUSHED, URN, Kept, WaitingRequests
from greatseal_idp.proofs import Proofs, headers_of, told
from greatseal_idp.sessions.limits import LoginLimits


class ParEndpoint:
    """``POST /par``."""

    def __init__(self, clients: Clients, proofs: Proofs, reader: Reader, waiting: WaitingRequests, limits: LoginLimits) -> None:
        self._clients = clients
        self._proofs = proofs
        self._reader = reader
        self._waiting = waiting
        self._limits = limits

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
        proven = await self._proofs.prove(await self._clients.authenticate(call))
        with told(proven):
            return await self._push(proven)

    async def _push(self, proven: ProvenRequest) -> Reply:
        if "request_uri" in proven.form:
            raise BadRequest("request_uri cannot be pushed (RFC 9126 s2.1)")
        asking = await self._reader.pushed(proven)
        request = await self._reader.checked(asking, self._reader.addressee(asking.given, proven.client))
        if proven.client.may_be_anybody:
            await self._limits.request(proven.call.remote)
        handle = await self._waiting.keep(PUSHED, Kept(request=request))
        pushed = {"request_uri": f"{URN}{handle}", "expires_in": self._waiting.pushed_seconds}
        return Reply.json(pushed, status=201).with_headers(("Pragma", "no-cache"), *proven.match.headers, *headers_of(proven))
