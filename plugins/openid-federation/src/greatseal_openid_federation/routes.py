"""/api/admin/entity-keys: the federation keys of this service."""

from typing import Any

from greatseal.api.http import Call, Permission, Reply, Route
from greatseal.api.keys import KeyInfo
from greatseal.api.lists import listed, page_of
from greatseal.api.moments import seconds
from greatseal.api.problems import NotFound
from greatseal.host import Host
from greatseal_openid_federation.keys import ALG, EntityKeys

READ, ROTATE = Permission("keys:read"), Permission("keys:rotate")
PATH = "/api/admin/entity-keys"


class KeysAdmin:
    """A new key is made, told to the superiors, and takes over when the old one is revoked."""

    def __init__(self, host: Host, keys: EntityKeys) -> None:
        self._host = host
        self._keys = keys

    def routes(self) -> list[Route]:
        """Every route."""
        return [
            Route("GET", PATH, self.listed, auth=READ, summary="Federation keys that are not revoked, the one that signs first"),
            Route("GET", f"{PATH}/jwks", self.jwks, auth=READ, summary="Their JWK Set, for the superiors of this service"),
            Route("POST", PATH, self.make, auth=ROTATE, summary="Make a further federation key, which is published at once"),
            Route("DELETE", PATH + "/{kid}", self.revoke, auth=ROTATE, summary="Revoke a federation key; the next one signs"),
        ]

    async def listed(self, call: Call) -> Reply:
        page, keys = page_of(call), [key.info for key in self._keys.all()]

        def place(key: KeyInfo) -> str:
            return f"{keys.index(key):06d}"

        return listed(call, self._host.issuer, page, page.of(keys, place), key=place, shown=self._shown)

    async def jwks(self, call: Call) -> Reply:  # noqa: ARG002  # a handler's parameter
        return Reply.json(self._keys.jwks())

    async def make(self, call: Call) -> Reply:
        return Reply.json(self._shown(await self._keys.make(by=call.caller.subject)), status=201)

    async def revoke(self, call: Call) -> Reply:
        if not await self._keys.revoke(call.path["kid"], by=call.caller.subject):
            raise NotFound("there is no federation key of this kid")
        return Reply.empty()

    def _shown(self, key: KeyInfo) -> dict[str, Any]:
        signs = key.kid == self._keys.kid()
        return {"kid": key.kid, "alg": ALG, "status": "signing" if signs else "published", "created_at": seconds(key.created_at)}
