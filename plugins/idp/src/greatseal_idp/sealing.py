"""What leaves this service sealed, and comes back: opaque access tokens and cookies (AES-256-GCM, NIST SP 800-38D).

It is not sealed under the cluster key itself: that would end with the next rotation, and whoever finds an old cluster key could forge it.
Each node has a key of its own, made with the first thing that it seals and kept like that of its refresh tokens.
"""

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import select

from greatseal.api.store import Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp import tables as t

_SECRET = select(t.secret.c.value).where(t.secret.c.name == param("name"))
_NONCE = 12


class Envelopes:
    """Seals under the key of this node, and opens what any node sealed. ``purpose`` keeps one kind from passing for another."""

    def __init__(self, host: Host, purpose: str) -> None:
        self._host = host
        self._purpose = purpose
        self._ciphers: dict[str, AESGCM] = {}

    async def seal(self, content: bytes) -> bytes:
        """An envelope of this node."""
        node = self._host.node_id
        cipher = self._ciphers.get(node) or await self._cipher(node) or AESGCM(await self._host.db.write(self._make, node))
        self._ciphers[node] = cipher
        nonce = secrets.token_bytes(_NONCE)
        return nonce + cipher.encrypt(nonce, content, self._place(node))

    async def open(self, envelope: bytes, *, node: str) -> bytes | None:
        """What ``node`` sealed; None for every other text."""
        cipher = self._ciphers.get(node) or await self._cipher(node)
        if cipher is None or len(envelope) < _NONCE:
            return None
        try:
            return cipher.decrypt(envelope[:_NONCE], envelope[_NONCE:], self._place(node))
        except InvalidTag:
            return None

    async def _cipher(self, node: str) -> AESGCM | None:
        key = await self._host.db.read(self._stored, node)
        if key is None:
            return None
        return self._ciphers.setdefault(node, AESGCM(key))

    def _stored(self, tx: Tx, node: str) -> bytes | None:
        row = tx.one(_SECRET, name=_name(node))
        if row is None:
            return None
        return self._host.keys.open(bytes(row.value), table=t.secret.name, row=_name(node), field="value")

    def _make(self, tx: Tx, node: str) -> bytes:
        """The key of this node, made unless another request was faster."""
        key = self._stored(tx, node)
        if key is None:
            key = AESGCM.generate_key(256)
            sealed = self._host.keys.seal(key, table=t.secret.name, row=_name(node), field="value")
            tx.put(t.SECRET, _name(node), value=sealed, created_at=tx.now)
        return key

    def _place(self, node: str) -> bytes:
        return f"{self._purpose}\0{node}".encode()


def _name(node: str) -> str:
    return f"envelope/{node}"
