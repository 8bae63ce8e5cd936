"""Secrets at rest: AES-256-GCM under the cluster key, bound to the place where they are kept."""

import secrets
import uuid

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from greatseal.api.problems import Internal
from greatseal.keys.cluster import ClusterKey

_VERSION = b"\x01"
_NONCE = 12
_HEAD = 1 + 16 + _NONCE
_TAG = 16


class Sealer:
    """Seals under one cluster key and opens under that one and its others.

    An envelope is one byte of version, the key's id, a random nonce, and the ciphertext with its tag. Table, row, field and key id are
    authenticated with it, so that it opens nowhere else.
    """

    def __init__(self, key: ClusterKey) -> None:
        self.key_id = key.key_id
        self._ciphers = {one.key_id: AESGCM(one.secret) for one in (key, *key.others)}

    def seal(self, secret: bytes, *, table: str, row: str, field: str) -> bytes:
        """The envelope of ``secret`` for one place."""
        nonce = secrets.token_bytes(_NONCE)
        place = _place(table, row, field, self.key_id)
        return _VERSION + self.key_id.bytes + nonce + self._ciphers[self.key_id].encrypt(nonce, secret, place)

    def open(self, sealed: bytes, *, table: str, row: str, field: str) -> bytes:
        """The secret back; raises Internal when it was sealed under an unknown key, for another place, or was changed."""
        key_id = sealed_under(sealed)
        cipher = self._ciphers.get(key_id) if key_id else None
        if key_id is None or cipher is None:
            raise Internal(cause=f"{table} {row} {field} is sealed under the cluster key {key_id}, which is not at hand")
        try:
            return cipher.decrypt(sealed[_HEAD - _NONCE : _HEAD], sealed[_HEAD:], _place(table, row, field, key_id))
        except InvalidTag:
            raise Internal(cause=f"{table} {row} {field} was changed, or sealed for another place") from None


def sealed_under(sealed: bytes) -> uuid.UUID | None:
    """The id of the cluster key of an envelope; None for bytes that are no envelope."""
    if len(sealed) < _HEAD + _TAG or sealed[:1] != _VERSION:
        return None
    return uuid.UUID(bytes=bytes(sealed[1:17]))


def _place(table: str, row: str, field: str, key_id: uuid.UUID) -> bytes:
    parts = [part.encode() for part in (table, row, field)]
    return b"".join(len(part).to_bytes(4) + part for part in parts) + key_id.bytes
