"""Handles and public ids: what clients hold names its kind and the node that made it."""

import hashlib
import re
import secrets
import uuid
from collections.abc import Sequence

from greatseal.host import Clock

_LABEL = re.compile(r"[a-z0-9]{1,12}", re.ASCII)
_KIND = re.compile(r"[a-z0-9]{1,16}", re.ASCII)
_RANDOM = re.compile(r"[A-Za-z0-9_-]{22,}", re.ASCII)
_VERSION_8 = 0x8 << 76
_VARIANT = 0x2 << 62
_RANDOM_BITS = (0xFFF << 64) | ((1 << 62) - 1)


def node_number(label: str) -> int:
    """The 16-bit number of a node label, as public ids carry it."""
    return int.from_bytes(hashlib.sha256(label.encode()).digest()[:2])


def node_number_of(id: str) -> int | None:
    """The node number inside a public id, or None when it is none of ours."""
    try:
        parsed = uuid.UUID(id)
    except ValueError:
        return None
    return (parsed.int >> 80) & 0xFFFF if parsed.version == 8 and str(parsed) == id else None


class NodeHandles:
    """The handles of one node. ``node_id`` is its label, ``[a-z0-9]{1,12}``; ``others`` are those of the other configured nodes."""

    def __init__(self, node_id: str, clock: Clock, others: Sequence[str] = ()) -> None:
        if not _LABEL.fullmatch(node_id):
            raise ValueError(f"node_id {node_id!r} is not 1 to 12 lower-case letters and digits")
        self.node_id = node_id
        self.clock = clock
        self._node_bits = node_number(node_id) << 80
        self.know(others)

    def know(self, others: Sequence[str]) -> None:
        """The other configured nodes. Raises ValueError for two with one node number, and then knows nothing new."""
        members = tuple(sorted({self.node_id, *others}))
        by_number = {node_number(label): label for label in members}
        if len(by_number) < len(members):
            raise ValueError(f"two of the node_ids {', '.join(members)} have the same node number: rename one")
        self.members: Sequence[str] = members
        self._by_number = by_number

    def mint(self, kind: str, size: int = 32) -> str:
        """``<kind>_<node>_<random>``: ``size`` random bytes, at least 16. ``kind`` is lower-case letters and digits."""
        if not _KIND.fullmatch(kind) or size < 16:
            raise ValueError(f"a handle of kind {kind!r} with {size} bytes")
        return f"{kind}_{self.node_id}_{secrets.token_urlsafe(size)}"

    def node_of(self, handle: str, kind: str) -> str | None:
        """The node label of a well-formed handle of that kind, else None."""
        parts = handle.split("_", 2)
        if len(parts) != 3 or parts[0] != kind or not _LABEL.fullmatch(parts[1]) or not _RANDOM.fullmatch(parts[2]):
            return None
        return parts[1]

    def new_id(self) -> str:
        """A public id: UUID version 8 (RFC 9562 s5.8) of 32 bits of seconds, 16 bits of node number and 74 random bits.

        Ids of one second stand together, so that an index grows at its end.
        """
        seconds = (self.clock.now() // 1_000_000) & 0xFFFFFFFF
        bits = seconds << 96 | self._node_bits | _VERSION_8 | _VARIANT | (secrets.randbits(76) & _RANDOM_BITS)
        digits = f"{bits:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def owner_of_id(self, id: str) -> str | None:
        """The label of the configured node whose number is inside a public id, else None."""
        number = node_number_of(id)
        return None if number is None else self._by_number.get(number)

    def owner_of_key(self, key: str) -> str:
        """The label of the node that decides about a key from outside: rendezvous hashing over the configured nodes."""
        return max(self.members, key=lambda label: hashlib.sha256(f"{label}\0{key}".encode()).digest())
