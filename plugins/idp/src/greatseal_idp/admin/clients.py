"""Client registrations. The registry keeps the rules; PUT is checked as POST."""

from typing import Any

from greatseal.api.clients import Client
from greatseal.api.http import Call, Permission, Reply, Route, is_strict
from greatseal.api.lists import listed, moment_key, page_of
from greatseal.api.moments import seconds
from greatseal.api.problems import NotFound
from greatseal.host import Host
from greatseal_idp.clients.fields import Fields
from greatseal_idp.clients.registry import Registry

PATH = "/api/admin/clients"
_NOBODY = Client(client_id="", token_endpoint_auth_method="")
READ, WRITE = Permission("clients:read"), Permission("clients:write")


class ClientsAdmin:
    """/api/admin/clients."""

    def __init__(self, host: Host, clients: Registry) -> None:
        self._issuer = host.issuer
        self._clients = clients
        self._fields = clients.fields

    def routes(self) -> list[Route]:
        """Every route."""
        one = f"{PATH}/{{client_id}}"
        return [
            Route("GET", PATH, self.listed, auth=READ, summary="Client registrations, oldest first"),
            Route("POST", PATH, self.create, auth=WRITE, summary="Register a client; the answer alone has its client_secret"),
            Route("GET", one, self.read, auth=READ, summary="One client registration"),
            Route("PUT", one, self.update, auth=WRITE, summary="Change a client: what is left out stays, null clears"),
            Route("DELETE", one, self.delete, auth=WRITE, summary="Delete a client with its consents and refresh families"),
        ]

    async def listed(self, call: Call) -> Reply:
        page = page_of(call)
        clients = await self._clients.listed(page.moment(), page.wanted)
        return listed(
            call, self._issuer, page, clients, key=lambda client: moment_key(client.created_at, client.client_id), shown=self._shown
        )

    async def create(self, call: Call) -> Reply:
        registered = await self._clients.register_body(await self._body(call), open=False, by=call.caller.subject)
        client, secret = registered.client, registered.client_secret
        body = self._shown(client) if secret is None else {**self._shown(client), "client_secret": secret.value}
        return Reply.json(body, status=201, headers={"Location": f"{self._issuer}{PATH}/{client.client_id}"})

    async def read(self, call: Call) -> Reply:
        return Reply.json(self._shown(_found(await self._clients.get(call.path["client_id"]))))

    async def update(self, call: Call) -> Reply:
        changes = await self._body(call)
        return Reply.json(self._shown(_found(await self._clients.update(call.path["client_id"], changes, by=call.caller.subject))))

    async def delete(self, call: Call) -> Reply:
        if not await self._clients.delete(call.path["client_id"], by=call.caller.subject):
            raise _unknown()
        return Reply.empty()

    def _shown(self, client: Client) -> dict[str, Any]:
        return shown(client, self._fields)

    async def _body(self, call: Call) -> dict[str, Any]:
        """The members of a request. Unknown ones are ignored (RFC 7591 s2), unless the caller wants to hear of them."""
        body = await call.body(dict[str, Any])
        if is_strict(call):
            self._fields.require_settable(body, self._shown(_NOBODY))
        return body


def shown(client: Client, fields: Fields) -> dict[str, Any]:
    """A client without its credentials; optional fields that are unset are null."""
    return {
        "client_id": client.client_id,
        "client_name": client.client_name,
        "redirect_uris": client.redirect_uris,
        "scopes": client.scopes,
        "grant_types": client.grant_types,
        "token_endpoint_auth_method": client.token_endpoint_auth_method,
        "has_secret": client.secret is not None,
        "jwks_uri": client.jwks_uri,
        "jwks": client.jwks,
        "tls_client_certificate_sha256": client.tls_client_certificate_sha256,
        "kerberos_principal": client.kerberos_principal,
        "kerberos_principal_pattern": client.kerberos_principal_pattern,
        "kerberos_hbac_service": client.kerberos_hbac_service,
        "spiffe_id": client.spiffe_id,
        "workload_type": client.workload_type,
        "allow_token_exchange_actor": client.allow_token_exchange_actor,
        **fields.shown(client),
        "source": client.source,
        "created_at": seconds(client.created_at),
        "updated_at": seconds(client.updated_at),
    }


def _found(client: Client | None) -> Client:
    if client is None:
        raise _unknown()
    return client


def _unknown() -> NotFound:
    return NotFound("there is no client of this id")
