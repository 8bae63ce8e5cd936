"""The hash functions of a log: leaves and nodes of its tree (RFC 9162 s2.1.1)."""

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from greatseal import der

__all__ = ["BY_OID", "HASHES", "SHA256", "Hash"]


class Hash:
    """A hash function by its name in the configuration. A log keeps the one that it was made with."""

    __slots__ = ("above", "algorithm", "digest", "empty", "leaf", "name", "node", "oid", "size")

    def __init__(self, name: str, new: Callable[[bytes], Any], oid: str) -> None:
        def leaf(entry: bytes) -> bytes:
            return new(b"\x00" + entry).digest()  # type: ignore[no-any-return]

        def node(left: bytes, right: bytes) -> bytes:
            return new(b"\x01" + left + right).digest()  # type: ignore[no-any-return]

        def above(hashes: bytes) -> bytes:
            pair = 2 * self.size
            return b"".join([new(b"\x01" + hashes[at : at + pair]).digest() for at in range(0, len(hashes) - pair + 1, pair)])

        def digest(content: bytes) -> bytes:
            return new(content).digest()  # type: ignore[no-any-return]

        self.name: Final = name
        self.oid: Final = oid
        self.algorithm: Final = der.sequence(der.object_identifier(oid))
        """The AlgorithmIdentifier, without parameters."""
        self.leaf: Final = leaf
        """The hash of a leaf: a byte 0x00 stands before the entry."""
        self.node: Final = node
        """The hash of what has two children: a byte 0x01 stands before their hashes."""
        self.above: Final = above
        """The hashes of all pairs of hashes that stand one after the other. An odd one at the end has none."""
        self.digest: Final = digest
        """The hash of other things, such as a public key."""
        self.empty: Final = digest(b"")
        """The root of a tree without leaves."""
        self.size: Final = len(self.empty)
        """Bytes of a hash: 32, 48 or 64."""

    def __repr__(self) -> str:
        return f"Hash({self.name})"


SHA256: Final = Hash("sha256", hashlib.sha256, "2.16.840.1.101.3.4.2.1")

HASHES: Mapping[str, Hash] = MappingProxyType(
    {
        one.name: one
        for one in (
            SHA256,
            Hash("sha384", hashlib.sha384, "2.16.840.1.101.3.4.2.2"),
            Hash("sha512", hashlib.sha512, "2.16.840.1.101.3.4.2.3"),
            Hash("sha3-256", hashlib.sha3_256, "2.16.840.1.101.3.4.2.8"),
            Hash("sha3-384", hashlib.sha3_384, "2.16.840.1.101.3.4.2.9"),
            Hash("sha3-512", hashlib.sha3_512, "2.16.840.1.101.3.4.2.10"),
        )
    }
)
"""By the name in the configuration."""
BY_OID: Mapping[str, Hash] = MappingProxyType({one.oid: one for one in HASHES.values()})
