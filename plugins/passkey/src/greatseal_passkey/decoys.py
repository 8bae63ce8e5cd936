"""Credential ids for names that have no passkey: whoever types a name does not learn whether there is such a person (WebAuthn s14.6.2)."""

import hmac
import secrets

from sqlalchemy import select

from greatseal.api.store import Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_passkey.tables import SECRET, secret

_NAME = "decoys"
_KEY = select(secret.c.value).where(secret.c.name == param("name"))
_SIZES = (16, 20, 32, 32, 32, 64)
"""Bytes of credential ids, about as often as authenticators make them."""
_TRANSPORTS = (("hybrid", "internal"), ("hybrid", "internal"), ("internal",), ("usb",), ("nfc", "usb"))
Decoy = tuple[bytes, tuple[str, ...]]
"""A credential id and its transports."""


class Decoys:
    """The same for a name each time and on every node."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._key = b""

    async def open(self) -> None:
        """At the start: read the secret that they are made of, or make it."""
        stored = await self._host.db.read(self._stored)
        made = await self._host.db.write(self._made) if stored is None else stored
        self._key = made

    def of(self, name: str) -> list[Decoy]:
        """One or two."""
        digest = self._mac(f"shape {name}")
        return [self._one(name, number, digest[number]) for number in range(2 if digest[-1] < 64 else 1)]

    def _one(self, name: str, number: int, shape: int) -> Decoy:
        size = _SIZES[shape % len(_SIZES)]
        id = b"".join(self._mac(f"id {number} {part} {name}") for part in range(2))
        return id[:size], _TRANSPORTS[shape % len(_TRANSPORTS)]

    def _mac(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), "sha256")

    def _stored(self, tx: Tx) -> bytes | None:
        row = tx.one(_KEY, name=_NAME)
        return None if row is None else self._host.keys.open(bytes(row.value), table=secret.name, row=_NAME, field="value")

    def _made(self, tx: Tx) -> bytes:
        key = self._stored(tx)
        if key is None:
            key = secrets.token_bytes(32)
            tx.put(SECRET, _NAME, value=self._host.keys.seal(key, table=secret.name, row=_NAME, field="value"))
        return key
