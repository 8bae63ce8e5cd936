"""The cluster key: what seals every private key and secret of the database."""

import secrets
import uuid
from collections.abc import Sequence
from pathlib import Path

import msgspec

from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal.keys.files import KeyFileProblem, create_private, read_private, replace_private

__all__ = ["SIZE", "ClusterKey", "KeyFileProblem", "create_cluster_key", "load_cluster_key", "store_cluster_key"]

_MARK = "greatseal-cluster-key-1"
SIZE = 32
"""Bytes of a cluster key: AES-256."""


class ClusterKey(msgspec.Struct, frozen=True):
    """An AES-256 key. ``others`` are those of a rotation that is under way: they open and do not seal."""

    key_id: uuid.UUID
    secret: bytes
    others: tuple["ClusterKey", ...] = ()

    @classmethod
    def generate(cls, secret: bytes | None = None) -> "ClusterKey":
        """A new key, a random one for None."""
        return cls(uuid.uuid4(), secret or secrets.token_bytes(SIZE))

    def __repr__(self) -> str:
        return f"ClusterKey({self.key_id})"


def load_cluster_key(path: Path, *, create: bool, needed: str | None = None) -> ClusterKey:
    """Read the cluster key file; with ``create`` it is made when absent. Raises KeyFileProblem with one clear line.

    ``needed`` is the id of the key that the database is sealed under, where that is known.
    """
    if create:
        create_cluster_key(path)
    try:
        return _parsed(path, read_private(path))
    except FileNotFoundError:
        sealed = f", and the database is sealed under the cluster key {needed}" if needed else ""
        raise KeyFileProblem(
            f"{path}: there is no cluster key file{sealed}; restore it from the backup, or copy it from another node"
        ) from None
    except OSError as error:
        raise _unusable(path, error) from None


def create_cluster_key(path: Path) -> bool:
    """Make the file with a new key; False when there is one, perhaps since another process was quicker: then its key counts."""
    try:
        return not path.exists() and create_private(path, _text((ClusterKey.generate(),)))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unusable(path, error) from None


def _unusable(path: Path, error: OSError) -> KeyFileProblem:
    return KeyFileProblem(f"{path}: the cluster key file cannot be used: {error.strerror}")


def store_cluster_key(path: Path, key: ClusterKey) -> None:
    """Replace the file by ``key`` and its others, atomically and durably."""
    replace_private(path, _text((key, *key.others)))


def _text(keys: Sequence[ClusterKey]) -> bytes:
    return "".join(f"{_MARK} {key.key_id} {b64url_encode(key.secret)}\n" for key in keys).encode()


def _parsed(path: Path, content: bytes) -> ClusterKey:
    try:
        keys = [_key_of(line) for line in content.decode("ascii").splitlines()]
    except ValueError:
        # The cause may quote the secret.
        keys = []
    if not keys:
        raise KeyFileProblem(f"{path}: this is no cluster key file; put the right one there, or name another path")
    return ClusterKey(keys[0].key_id, keys[0].secret, tuple(keys[1:]))


def _key_of(line: str) -> ClusterKey:
    mark, key_id, secret = line.split(" ")
    key = ClusterKey(uuid.UUID(key_id), b64url_decode(secret))
    if mark == _MARK and len(key.secret) == SIZE:
        return key
    raise ValueError("another mark or size")
