"""The federation keys of this service: a ring of their own, which signs nothing but what it says to federations (s3.1.1 ``jwks``).

Superiors vouch for these keys, so a new one must be known to them before it signs: the oldest key signs, newer ones are published beside
it, and take over when the older ones are revoked.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson

from greatseal.api.audit import AuditEvent
from greatseal.api.keys import KeyInfo, Signer
from greatseal.api.problems import Conflict, Unavailable
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.jose.compact import b64url_encode
from greatseal.jose.jwk import jwk_of

PURPOSE, KEY_TYPE, ALG = "openid-federation", "ec:P-256", "ES256"


class EntityKeys:
    """Usable from :meth:`open` on."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._changing = asyncio.Lock()

    async def open(self) -> None:
        """At the first start: make one."""
        if not self.all():
            await self._host.keys.load()  # another process may have made it a moment ago
        if not self.all():
            await self.make(by=None)

    def all(self) -> tuple[Signer, ...]:
        """Those that are not revoked, the one that signs first."""
        found = self._host.keys.ring(PURPOSE).all()
        return tuple(sorted(found, key=lambda key: (key.info.created_at, key.info.state == "active")))

    def kid(self) -> str:
        """That of the key that signs, empty before the first one."""
        return next((key.info.kid for key in self.all()), "")

    def jwks(self) -> dict[str, Any]:
        """What superiors vouch for."""
        return {"keys": [{**_jwk(key), "use": "sig", "alg": ALG, "kid": key.info.kid} for key in self.all()]}

    async def make(self, *, by: str | None) -> KeyInfo:
        """A further key, which is published and signs when those before it are revoked."""
        made = await self._host.keys.ring(PURPOSE).make(KEY_TYPE, also=partial(_tell, "entity_key_made", by))
        return made.info

    async def revoke(self, kid: str, *, by: str) -> bool:
        """Revoke one for ever; False when there is none of that kid. Raises Conflict for the last one."""
        async with self._changing:
            known = [key.info.kid for key in self.all()]
            if kid not in known:
                return False
            if len(known) == 1:
                raise Conflict("this is the only key: make another one, tell the superiors, and revoke this one then")
            return await self._host.keys.ring(PURPOSE).revoke(kid, also=partial(_tell, "entity_key_revoked", by))

    async def sign(self, typ: str, claims: Mapping[str, Any]) -> str:
        """A JWT of that type (RFC 8725 s3.11). Raises Unavailable before the first key."""
        keys = self.all()
        if not keys:
            raise Unavailable("there is no federation key yet")
        header = {"typ": typ, "alg": ALG, "kid": keys[0].info.kid}
        text = f"{b64url_encode(orjson.dumps(header))}.{b64url_encode(orjson.dumps(claims))}"
        return f"{text}.{b64url_encode(await keys[0].sign_jose(text.encode()))}"


def _jwk(key: Signer) -> dict[str, str]:
    return jwk_of(key.public_key)  # type: ignore[arg-type]  # the ring holds EC keys alone


def _tell(event_type: str, by: str | None, tx: Tx, info: KeyInfo) -> None:
    tx.audit(AuditEvent(event_type=event_type, service="idp", sub=by, detail=f"kid={info.kid}"))
