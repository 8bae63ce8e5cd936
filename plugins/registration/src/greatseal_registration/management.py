"""RFC 7592: a client reads, replaces and deletes its registration with its registration access token, at the URL of the admin API."""

from typing import Any

from greatseal.api.clients import Client, Clients
from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.problems import BadRequest
from greatseal.host import Host
from greatseal_registration.access import bearer_of
from greatseal_registration.answers import PATH, told
from greatseal_registration.bodies import ASSIGNED, body_of, completed
from greatseal_registration.records import TOKEN, ending, holds, refused, rotating
from greatseal_registration.settings import Registration
from greatseal_registration.statements import Statements


class ClientConfiguration:
    """The three methods. A token is good for any number of reads and for one change, whose answer has the next one."""

    def __init__(self, host: Host, clients: Clients, statements: Statements, settings: Registration) -> None:
        self._host = host
        self._clients = clients
        self._statements = statements
        self._settings = settings

    def routes(self) -> list[Route]:
        return [
            self._route("GET", self.read, "The client's own registration (RFC 7592)"),
            self._route("PUT", self.replace, "Replace the client's own registration; the answer has its next token"),
            self._route("DELETE", self.delete, "Delete the client's own registration"),
        ]

    def _route(self, method: str, handler: Any, summary: str) -> Route:
        rule = Handler("the registration access token of the client")
        return Route(
            method,
            f"{PATH}/{{client_id}}",
            handler,
            style="oauth",
            auth=rule,
            credentials="bearer",
            summary=summary,
            owner=self._owner,
        )

    async def _owner(self, call: Call) -> str | None:
        return self._host.handles.owner_of_id(call.path["client_id"])

    async def read(self, call: Call) -> Reply:
        client, token = await self._proven(call)
        return self._told(client, None, token)

    async def replace(self, call: Call) -> Reply:
        client, token = await self._proven(call)
        body = await body_of(call)
        if body.get("client_id") != client.client_id:
            raise BadRequest("client_id: expected that of this URL (RFC 7592 s2.2)")
        if given := sorted((ASSIGNED - {"client_id"}).intersection(body)):
            raise BadRequest(f"{given[0]}: the request must not have it (RFC 7592 s2.2)")
        new = self._host.handles.mint(TOKEN)
        asked = completed(await self._statements.counted(body), self._settings)
        changed = await self._clients.replace_body(client.client_id, asked, by=client.client_id, also=rotating(token, new))
        if changed is None:
            raise refused()
        return self._told(changed.client, changed.client_secret, new, **self._statements.repeated(body))

    async def delete(self, call: Call) -> Reply:
        client, token = await self._proven(call)
        if not await self._clients.delete(client.client_id, by=client.client_id, also=ending(token)):
            raise refused()
        return Reply.empty()

    async def _proven(self, call: Call) -> tuple[Client, str]:
        client_id, token = call.path["client_id"], bearer_of(call)
        if token is None or not await self._host.db.read(holds, client_id, token):
            raise refused()
        client = await self._clients.get(client_id)
        if client is None:
            raise refused()
        return client, token

    def _told(self, client: Client, secret: Secret | None, token: str, **more: str) -> Reply:
        members = told(client, issuer=self._host.issuer, secret=secret, token=token)
        return Reply.json(members | more, headers={"Pragma": "no-cache"})
