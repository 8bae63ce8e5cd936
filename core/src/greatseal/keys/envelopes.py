"""What leaves this service sealed, and comes back (:class:`greatseal.host.Envelopes`): AES-256-GCM, NIST SP 800-38D.

It is not sealed under the cluster key itself: that would end with the next rotation, and whoever finds an old cluster key could forge it.
Each node has a key of its own, made with the first thing that it seals.
"""

import secrets
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import select

from greatseal.api.keys import Keys
from greatseal.api.moments import SECOND
from greatseal.api.store import Database, Tx
from greatseal.db.core_tables import ENVELOPE_KEYS, envelope_key
from greatseal.db.tables import param
from greatseal.host import Clock, Handles
from greatseal.jose.compact import b64url_decode, b64url_encode

__all__ = ["FeatureEnvelopes", "NodeSeals"]

T = TypeVar("T")

_KEY = select(envelope_key.c.value).where(envelope_key.c.node == param("node"))
_NONCE = 12


class NodeSeals:
    """The keys of the nodes, each read or made at its first use."""

    def __init__(self, db: Database, keys: Callable[[], Keys], handles: Handles, clock: Clock, node_id: str) -> None:
        self._db = db
        self._keys = keys
        self._ciphers: dict[str, AESGCM] = {}
        self.handles = handles
        self.clock = clock
        self.node_id = node_id

    async def own(self) -> AESGCM:
        """The key of this node."""
        node = self.node_id
        cipher = self._ciphers.get(node) or await self.of(node)
        if cipher is None:
            cipher = self._ciphers[node] = AESGCM(await self._db.write(self._make, node))
        return cipher

    async def of(self, node: str) -> AESGCM | None:
        """The key of a node; None when it never sealed anything."""
        cipher = self._ciphers.get(node)
        if cipher is None and (key := await self._db.read(self._stored, node)) is not None:
            cipher = self._ciphers.setdefault(node, AESGCM(key))
        return cipher

    def _stored(self, tx: Tx, node: str) -> bytes | None:
        row = tx.one(_KEY, node=node)
        return None if row is None else self._keys().open(bytes(row.value), table=envelope_key.name, row=node, field="value")

    def _make(self, tx: Tx, node: str) -> bytes:
        """The key of this node, made unless another request was faster."""
        key = self._stored(tx, node)
        if key is None:
            key = AESGCM.generate_key(256)
            sealed = self._keys().seal(key, table=envelope_key.name, row=node, field="value")
            tx.put(ENVELOPE_KEYS, node, value=sealed, created_at=tx.now)
        return key


class FeatureEnvelopes:
    """Those of one plugin: what another one sealed, or the same one for another use, is none."""

    def __init__(self, seals: NodeSeals, feature: str) -> None:
        self._seals = seals
        self._feature = feature
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    async def seal(self, kind: str, value: object, *, seconds: int | None) -> str:
        """See :meth:`greatseal.host.Envelopes.seal`."""
        seals = self._seals
        until = None if seconds is None else seals.clock.now() + seconds * SECOND
        nonce = secrets.token_bytes(_NONCE)
        content = msgspec.json.encode((until, seconds, value))
        cipher = await seals.own()
        sealed = nonce + cipher.encrypt(nonce, content, self._place(kind, seals.node_id))
        return f"{kind}_{seals.node_id}_{b64url_encode(sealed)}"

    async def open(self, kind: str, text: str, type: type[T]) -> T | None:  # as msgspec calls it
        """See :meth:`greatseal.host.Envelopes.open`."""
        node = self._seals.handles.node_of(text, kind)
        cipher = None if node is None else await self._seals.of(node)
        if node is None or cipher is None:
            return None
        try:
            sealed = b64url_decode(text[len(kind) + len(node) + 2 :])
            content = cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], self._place(kind, node))
            until, seconds, value = self._decoder(type).decode(content)
        except (ValueError, InvalidTag, msgspec.DecodeError):
            return None
        if until is not None and not 0 < until - self._seals.clock.now() <= (seconds or 0) * SECOND:
            return None
        return value  # type: ignore[no-any-return]

    def _decoder(self, type: Any) -> msgspec.json.Decoder[Any]:  # as msgspec calls it
        decoder = self._decoders.get(type)
        if decoder is None:
            decoder = self._decoders[type] = msgspec.json.Decoder(tuple[int | None, int | None, type])
        return decoder

    def _place(self, kind: str, node: str) -> bytes:
        return f"{self._feature}\0{kind}\0{node}".encode()
