"""Scope definitions. The built-in ones are not to be changed."""

from typing import Any

import msgspec

from greatseal.api.http import Call, Permission, Reply, Route
from greatseal.api.lists import listed, page_of
from greatseal.api.problems import NotFound
from greatseal.host import Host
from greatseal_idp.scopes import Scope, Scopes

PATH = "/api/admin/scopes"
READ, WRITE = Permission("scopes:read"), Permission("scopes:write")


class ScopeBody(msgspec.Struct, frozen=True):
    """What may be said about a scope; its name is in the path, ``is_system`` is not for a caller to say."""

    description: str = ""
    claims: tuple[str, ...] = ()


class ScopesAdmin:
    """/api/admin/scopes."""

    def __init__(self, host: Host, scopes: Scopes) -> None:
        self._issuer = host.issuer
        self._scopes = scopes

    def routes(self) -> list[Route]:
        """Every route."""
        one = f"{PATH}/{{name}}"
        return [
            Route("GET", PATH, self.listed, auth=READ, summary="Scope definitions, by name"),
            Route("PUT", one, self.put, auth=WRITE, summary="Make or replace a custom scope"),
            Route("DELETE", one, self.delete, auth=WRITE, summary="Delete a custom scope"),
        ]

    async def listed(self, call: Call) -> Reply:
        page = page_of(call)
        scopes = page.of((await self._scopes.all()).values(), lambda scope: scope.name)
        return listed(call, self._issuer, page, scopes, key=lambda scope: scope.name, shown=_shown)

    async def put(self, call: Call) -> Reply:
        body = await call.body(ScopeBody)
        scope, created = await self._scopes.put(call.path["name"], body.description, body.claims, by=call.caller.subject)
        return Reply.json(_shown(scope), status=201 if created else 200)

    async def delete(self, call: Call) -> Reply:
        if not await self._scopes.delete(call.path["name"], by=call.caller.subject):
            raise NotFound("there is no scope of this name")
        return Reply.empty()


def _shown(scope: Scope) -> dict[str, Any]:
    return {"name": scope.name, "description": scope.description, "claims": scope.claims, "is_system": scope.is_system}
