"""The text of a refresh token: kind, node, family, generation and a MAC over them (RFC 9700 s4.14.2).

Nothing of it is stored, and a forged one never reaches a row. A superseded one still says whose it was, and the same generation has
always the same text, so that a retry can be given the very same successor.
"""

import base64
import hmac
import secrets
from hashlib import blake2b

import msgspec
from sqlalchemy import select

from greatseal.api.store import Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.jose.compact import b64url_decode
from greatseal_idp import tables as t

KIND = "rt"
_SECRET = select(t.secret.c.value).where(t.secret.c.name == param("name"))
_KEY, _ID, _GENERATION = 32, 16, 4


class RefreshToken(msgspec.Struct, frozen=True, kw_only=True):
    """A refresh token that this issuer made, current or not."""

    node: str
    family: str
    generation: int


class RefreshTokens:
    """Writes and reads them. Each node has a key of its own, made with its first family."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._keys: dict[str, bytes] = {}

    def write(self, tx: Tx, family: str, generation: int) -> str:
        """The token of a generation, of a family of this node."""
        node = tx.node_id
        key = self._keys.get(node)
        if key is None:
            key = made = self._stored(tx, node) or self._make(tx, node)
            tx.after_commit(lambda: self._keys.setdefault(node, made))
        content = bytes.fromhex(family.replace("-", "")) + generation.to_bytes(_GENERATION)
        text = base64.urlsafe_b64encode(content + _mac(key, node, content)).rstrip(b"=").decode()
        return f"{KIND}_{node}_{text}"

    async def read(self, token: str) -> RefreshToken | None:
        """What the token says, None for every text that is no refresh token of ours."""
        node = self._host.handles.node_of(token, KIND)
        if node is None:
            return None
        try:
            content = b64url_decode(token[len(KIND) + len(node) + 2 :])
        except ValueError:
            return None
        key = self._keys.get(node)
        if key is None:
            key = await self._host.db.read(self._stored, node)
            if key is None:
                return None
            self._keys[node] = key
        said, mac = content[: _ID + _GENERATION], content[_ID + _GENERATION :]
        if not hmac.compare_digest(mac, _mac(key, node, said)):
            return None
        id = said[:_ID].hex()
        family = f"{id[:8]}-{id[8:12]}-{id[12:16]}-{id[16:20]}-{id[20:]}"
        return RefreshToken(node=node, family=family, generation=int.from_bytes(said[_ID:]))

    def _stored(self, tx: Tx, node: str) -> bytes | None:
        row = tx.one(_SECRET, name=_name(node))
        if row is None:
            return None
        return self._host.keys.open(bytes(row.value), table=t.secret.name, row=_name(node), field="value")

    def _make(self, tx: Tx, node: str) -> bytes:
        key = secrets.token_bytes(_KEY)
        sealed = self._host.keys.seal(key, table=t.secret.name, row=_name(node), field="value")
        tx.put(t.SECRET, _name(node), value=sealed, created_at=tx.now)
        return key


def _name(node: str) -> str:
    return f"refresh/{node}"


def _mac(key: bytes, node: str, content: bytes) -> bytes:
    # Keyed BLAKE2b (RFC 7693 s2.9): unlike HMAC it does not give up the interpreter lock for its microsecond.
    return blake2b(node.encode() + b"\0" + content, key=key, digest_size=32, person=b"refresh token").digest()
