"""Our keys for request objects that are encrypted for us (RFC 9101 s6.1): one of each type, published, made anew in time."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from greatseal.api.audit import AuditEvent
from greatseal.api.keys import Decrypter, KeyInfo, KeyRing, Signer
from greatseal.api.moments import SECOND
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.jose.jwe import TRANSPORTS, UNOPENED, BadJwe, Jwe, parse_jwe
from greatseal.jose.jwk import jwk_of

KEY_TYPES = {"EC": "ec:P-256", "RSA": "rsa:2048"}
DAY = 86_400 * SECOND
FRESH = 90 * DAY
"""How long clients are offered one key."""
KEPT = 7 * DAY
"""How long an older one still opens what clients with an old key set send."""
LOOK = 3600.0
"""Seconds between two looks at the age of the keys."""


class RequestKeys:
    """The rings of this service, from :meth:`look` on."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._kids: list[str] = []
        self._published: list[Mapping[str, Any]] = []

    async def look(self) -> None:
        """Make the keys that are not there or are too old, take away those that nobody needs any more."""
        now, passed = self._host.clock.now(), self._host.clock.passed()
        for kty, key_type in KEY_TYPES.items():
            ring = self._ring(kty)
            if ring.active is None:
                await self._host.keys.load()  # another process may have made it a moment ago
            if ring.active is None or ring.active.info.created_at + FRESH <= now:
                await ring.make(key_type, also=partial(_tell, "request_key_made"))
            newest = max(one.info.created_at for one in ring.all())
            for one in ring.all():
                if one.info.state == "retained" and newest + KEPT <= passed:
                    await ring.revoke(one.info.kid, also=partial(_tell, "request_key_deleted"))

    def published(self) -> list[Mapping[str, Any]]:
        """The keys to encrypt to, for the key set (RFC 7517 s4.2); written anew when a key is, for every reader of the set asks."""
        active = [key for kty in KEY_TYPES if (key := self._ring(kty).active) is not None]
        kids = [key.info.kid for key in active]
        if kids != self._kids:
            self._kids, self._published = kids, [{**_jwk(key), "use": "enc", "kid": key.info.kid} for key in active]
        return self._published

    async def open(self, text: str, alg: str | None, enc: str | None) -> str:
        """What is inside of a JWE for us. ``alg`` and ``enc`` are the only ones that its client has, where it says so. Raises BadJwe."""
        jwe = parse_jwe(text)
        if jwe.alg != (alg or jwe.alg) or jwe.enc != (enc or jwe.enc):
            raise BadJwe("alg or enc of the JWE is not the one that the client registered")
        for key in self._keys(jwe):
            with suppress(BadJwe):
                return (await jwe.open(key)).decode("ascii", "replace")
        raise BadJwe(UNOPENED)

    def _keys(self, jwe: Jwe) -> list[Decrypter]:
        """Those that the JWE may be for, one at least. Raises BadJwe."""
        kid = jwe.header.get("kid")
        ring = self._ring("RSA" if jwe.alg in TRANSPORTS else "EC")
        found: list[Decrypter] = [one for one in ring.all() if isinstance(one, Decrypter) and kid in (None, one.info.kid)]
        if not found:
            raise BadJwe("kid of the JWE is none of our keys; read the key set again")
        return found

    def _ring(self, kty: str) -> KeyRing:
        return self._host.keys.ring(f"request-objects:{kty}")


def _tell(event_type: str, tx: Tx, info: KeyInfo) -> None:
    tx.audit(AuditEvent(event_type=event_type, service="idp", detail=f"kid={info.kid} type={info.algorithm}"))


def _jwk(key: Signer) -> dict[str, str]:
    return jwk_of(key.public_key)  # type: ignore[arg-type]  # the rings hold EC and RSA keys alone
