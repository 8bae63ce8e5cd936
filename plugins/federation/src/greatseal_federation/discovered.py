"""/api/admin/federation/ipa-idps: providers that a directory names, and what a sign-in there counts for."""

from collections.abc import Mapping
from typing import Any

import msgspec

from greatseal.api.http import Call, Permission, Reply, Route
from greatseal.api.problems import BadRequest, NotFound
from greatseal_federation.overrides import Defaults, Overrides
from greatseal_federation.upstreams import Upstream, Upstreams

PATH = "/api/admin/federation/ipa-idps"
READ, WRITE = Permission("federation:read"), Permission("federation:write")
MOST, LONGEST = 16, 256


class OverrideChange(msgspec.Struct, frozen=True):
    """The body. null and [] take back what was said before."""

    default_acr: str | None
    default_amr: tuple[str, ...]


class DiscoveredAdmin:
    """Every route. All that the directory says is read-only."""

    def __init__(self, upstreams: Upstreams, overrides: Overrides) -> None:
        self._upstreams = upstreams
        self._overrides = overrides

    def routes(self) -> list[Route]:
        one = f"{PATH}/{{id}}"
        return [
            Route("GET", PATH, self.listed, auth=READ, summary="Providers that the directory names."),
            Route("GET", one, self.shown, auth=READ, summary="One provider that the directory names."),
            Route("PUT", one, self.change, auth=WRITE, summary="Say what a sign-in there counts for: acr and amr."),
        ]

    async def listed(self, _call: Call) -> Reply:
        return Reply.json([await self._shown(one) for one in self._upstreams.named()])

    async def shown(self, call: Call) -> Reply:
        return Reply.json(await self._shown(self._one(call)))

    async def change(self, call: Call) -> Reply:
        upstream, change = self._one(call), await call.body(OverrideChange)
        words = [*change.default_amr, *(() if change.default_acr is None else (change.default_acr,))]
        if len(change.default_amr) > MOST or not all(1 <= len(one) <= LONGEST and one.isprintable() and " " not in one for one in words):
            raise BadRequest(f"expected words without blanks, at most {MOST} in default_amr")
        await self._overrides.set(upstream.id, Defaults(acr=change.default_acr, amr=change.default_amr), call.caller.subject)
        return Reply.json(await self._shown(upstream))

    def _one(self, call: Call) -> Upstream:
        upstream = self._upstreams.find(call.path["id"])
        if upstream is None or upstream.source == "config":
            raise NotFound("the directory names no provider of this id")
        return upstream

    async def _shown(self, upstream: Upstream) -> Mapping[str, Any]:
        defaults = await self._overrides.of(upstream)
        return {
            "id": upstream.id,
            "display_name": upstream.display_name,
            "issuer": upstream.issuer,
            "client_id": upstream.client_id,
            "scopes": upstream.scopes,
            "callback_path": upstream.callback_path,
            "default_acr": defaults.acr,
            "default_amr": defaults.amr,
            "source": upstream.source,
        }
