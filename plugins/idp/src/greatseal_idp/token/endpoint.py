"""POST /token (RFC 6749 s3.2): the client is proven, its grant is redeemed, and what was committed is signed."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
import orjson

from greatseal.api.audit import AuditEvent
from greatseal.api.clients import Client, ClientField, Clients, ProvenRequest
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.problems import BadRequest
from greatseal.api.store import Refused, Tx, operation
from greatseal.api.tokens import Families, Grant, Granted, UnauthorizedClient
from greatseal.host import Host
from greatseal_idp.backends import reached
from greatseal_idp.clients.fields import BINDING_FIELDS, unprovided
from greatseal_idp.token.cors import open_to_scripts, preflight
from greatseal_idp.token.issue import Issuer

REPEATABLE = frozenset({"resource", "audience"})
"""RFC 8707 s2, RFC 8693 s2.1."""
_NO_CACHE = ("Pragma", "no-cache")


class UnsupportedGrantType(BadRequest):
    """No plugin has this grant (RFC 6749 s5.2)."""

    error = "unsupported_grant_type"


class TokenEndpoint:
    """The token endpoint."""

    def __init__(self, host: Host, clients: Clients, families: Families, issuer: Issuer) -> None:
        self._host = host
        self._clients = clients
        self._families = families
        self._issuer = issuer
        self._redemptions: dict[str, Callable[[Tx, Any], Granted | Refused]] = {}

    def routes(self) -> list[Route]:
        """/token, for scripts of other origins too."""
        route = Route(
            "POST",
            "/token",
            open_to_scripts(self.token),
            style="oauth",
            auth=Handler("the client proves itself by its registered method"),
            content_types=(),
            summary="Tokens for a grant (RFC 6749 s5.1).",
        )
        return [route, preflight("/token", ["POST"])]

    async def token(self, call: Call) -> Reply:
        """The token response."""
        request = await self._clients.authenticate(call)
        self._check_binding(request.client)
        grant = self._grant(request)
        granted = await self._redeemed(grant, await reached(grant.prepare(request)))
        granted = await self._recorded(granted, request)
        response = await self._issuer.response(request.client, granted)
        headers = (_NO_CACHE, *request.match.headers) if request.match.headers else (_NO_CACHE,)
        return Reply(body=orjson.dumps(response), content_type="application/json", headers=headers)

    def _check_binding(self, client: Client) -> None:
        """A client that must get bound tokens gets none while nobody binds them, as after its plugin was disabled (RFC 9449 s5.2)."""
        if asked := BINDING_FIELDS & unprovided(client, self._host.components(ClientField)):
            raise UnauthorizedClient(f"{min(asked)}: no enabled plugin provides this")

    def _grant(self, request: ProvenRequest) -> Grant[Any]:
        check_repeated(request.form)
        grant_type = request.form.get("grant_type")
        if grant_type is None:
            raise BadRequest("grant_type is required")
        grant = self._host.components(Grant).get(grant_type)
        if grant is None:
            raise UnsupportedGrantType("this grant_type is not offered")
        if grant_type not in request.client.grant_types:
            raise UnauthorizedClient("the client is not registered for this grant_type")
        return grant

    async def _redeemed(self, grant: Grant[Any], prepared: Any) -> Granted:
        if isinstance(prepared, Granted):
            return prepared
        redemption = self._redemptions.get(grant.grant_type)
        if redemption is None:
            redeem = operation(f"idp.redeem.{grant.grant_type}", lambda one: grant.owner(one) or self._host.node_id)
            redemption = self._redemptions[grant.grant_type] = redeem(partial(_redeem, grant=grant, families=self._families))
        result = await self._host.db.write(redemption, prepared)
        if isinstance(result, Refused):
            raise result.problem
        # What was committed with it is not written again.
        return msgspec.structs.replace(result, events=(), may_refresh=False)

    async def _recorded(self, granted: Granted, request: ProvenRequest) -> Granted:
        """Write what is still to be written, for most requests nothing: what a grant without a row gives, and the client's events."""
        of_client = request.match.events(granted.scopes) if request.match.events is not None else ()
        events = (*granted.events, *of_client)
        if not events and not wants_family(granted):
            return granted
        return await self._host.db.write(_record, granted, events, self._families)


def check_repeated(form: Parameters) -> None:
    """No parameter comes twice (RFC 6749 s3.2), but those that may. Raises BadRequest."""
    for name in form:
        if name not in REPEATABLE:
            form[name]


def wants_family(granted: Granted) -> bool:
    """Whether a refresh family is to be opened: only ever for ``offline_access`` (OpenID Connect Core s11)."""
    return granted.may_refresh and granted.family is None and "offline_access" in granted.scopes


def _redeem(tx: Tx, prepared: Any, *, grant: Grant[Any], families: Families) -> Granted | Refused:
    result = grant.redeem(tx, prepared)
    return result if isinstance(result, Refused) else _record(tx, result, result.events, families)


def _record(tx: Tx, granted: Granted, events: Iterable[AuditEvent], families: Families) -> Granted:
    for event in events:
        tx.audit(event)
    if not wants_family(granted):
        return granted
    return msgspec.structs.replace(granted, family=families.open(tx, granted))
