"""Trust anchor identifiers: the names of CAs, logs and landmarks (draft-ietf-tls-trust-anchor-ids s3, merkle-tree-certs-05 s5.1)."""

import re
from typing import Final

from greatseal import der

__all__ = ["RELATIVE_OID", "TrustAnchorId"]

RELATIVE_OID: Final = 0x0D
_BASE: Final = "1.3.6.1.4.1."
"""Private enterprise numbers stand under it."""
_TEXT = re.compile(r"(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*))*", re.ASCII)
_LONGEST = 255
_MAX_TEXT = 1000
_MAX_ARC = (1 << 64) - 1


class TrustAnchorId:
    """An OID relative to 1.3.6.1.4.1, such as ``32473.1``."""

    __slots__ = ("ascii", "binary")

    def __init__(self, arcs: str) -> None:
        """Raises ValueError for what is no dotted OID, or a longer one than the protocols take: 255 octets."""
        found = _TEXT.fullmatch(arcs) if len(arcs) <= _MAX_TEXT else None
        if found is None:
            raise ValueError(f"{arcs[:80]!r} is no trust anchor ID; expected an OID below {_BASE[:-1]}, such as 32473.1")
        numbers = [int(arc) for arc in arcs.split(".")]
        if max(numbers) > _MAX_ARC:
            raise ValueError("an arc of a trust anchor ID has at most 64 bits")
        self.ascii: Final = arcs
        """Dotted, without 1.3.6.1.4.1."""
        self.binary: Final = der.subidentifiers(*numbers)
        """The content octets of the relative OID, as TLS and MTCProof have it."""
        if len(self.binary) > _LONGEST:
            raise ValueError(f"a trust anchor ID has at most {_LONGEST} octets")

    @classmethod
    def parse(cls, text: str) -> "TrustAnchorId":
        """Of a configuration: ``32473.1`` or ``1.3.6.1.4.1.32473.1``. Raises ValueError."""
        return cls(text.removeprefix(_BASE))

    @classmethod
    def from_binary(cls, binary: bytes) -> "TrustAnchorId":
        """Of content octets. Raises ValueError where they are not the shortest encoding."""
        if not binary or len(binary) > _LONGEST or binary[-1] & 0x80:
            raise ValueError("a trust anchor ID is cut short, empty or too long")
        arcs, arc, fresh = [], 0, True
        for octet in binary:
            if fresh and octet == 0x80:
                raise ValueError("an arc of a trust anchor ID begins with a zero")
            arc, fresh = arc << 7 | octet & 0x7F, not octet & 0x80
            if fresh:
                arcs.append(str(arc))
                arc = 0
        return cls(".".join(arcs))

    @classmethod
    def from_der(cls, element: bytes) -> "TrustAnchorId":
        """Of a RELATIVE-OID. Raises ValueError."""
        binary = der.content(element)
        if element != der.element(RELATIVE_OID, binary):
            raise ValueError("not a RELATIVE-OID")
        return cls.from_binary(binary)

    @property
    def der(self) -> bytes:
        """The RELATIVE-OID."""
        return der.element(RELATIVE_OID, self.binary)

    @property
    def name(self) -> str:
        """``oid/1.3.6.1.4.1.`` and the arcs: the name of a cosigner, and the origin of a log, in what is cosigned (s5.3.1)."""
        return f"oid/{_BASE}{self.ascii}"

    def log(self, number: int) -> "TrustAnchorId":
        """The issuance log of this number of a CA with this ID."""
        return TrustAnchorId(f"{self.ascii}.0.{number}")

    def landmark(self, log_number: int, landmark: int) -> "TrustAnchorId":
        """A landmark of a log of the CA."""
        return TrustAnchorId(f"{self.ascii}.1.{log_number}.{landmark}")

    def landmarks(self, log_number: int, last: int) -> "TrustAnchorId":
        """The group of landmarks of a log of the CA up to ``last``."""
        return TrustAnchorId(f"{self.ascii}.2.{log_number}.{last}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrustAnchorId) and self.binary == other.binary

    def __hash__(self) -> int:
        return hash(self.binary)

    def __repr__(self) -> str:
        return f"TrustAnchorId({self.ascii!r})"
