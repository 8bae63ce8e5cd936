"""What a client must know to offer a certificate: the content of the PEM block CERTIFICATE PROPERTIES (draft-ietf-tls-trust-anchor-ids)."""

from collections.abc import Iterable

import msgspec

from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.wire import prefixed, take

__all__ = ["Inclusion", "Properties"]

TRUST_ANCHOR_ID, GROUP_INCLUSIONS, NEGOTIATION = 0, 1, 2


class Inclusion(msgspec.Struct, frozen=True):
    """A group of trust anchors that the certificate is good for: ``base`` with a last arc from ``low`` to ``high``."""

    base: TrustAnchorId
    low: int
    high: int


class Properties(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a certificate. ``negotiation``: a server may choose it by the IDs that a client sends."""

    trust_anchor_id: TrustAnchorId | None = None
    inclusions: tuple[Inclusion, ...] = ()
    negotiation: bool = False

    def encode(self) -> bytes:
        """The content of the block."""
        return prefixed(2, b"".join(kind.to_bytes(2) + prefixed(2, data) for kind, data in self._listed()))

    def _listed(self) -> Iterable[tuple[int, bytes]]:
        if self.trust_anchor_id is not None:
            yield TRUST_ANCHOR_ID, self.trust_anchor_id.binary
        if self.inclusions:
            inclusions = (prefixed(1, one.base.binary) + one.low.to_bytes(8) + one.high.to_bytes(8) for one in self.inclusions)
            yield GROUP_INCLUSIONS, prefixed(2, b"".join(inclusions))
        if self.negotiation:
            yield NEGOTIATION, b""

    @classmethod
    def parse(cls, data: bytes) -> "Properties":
        """The content of a block; properties that are not known are passed over. Raises ValueError."""
        listed, end = take(data, 0, 2)
        if end != len(data):
            raise ValueError("bytes follow the properties")
        found: dict[int, bytes] = {}
        at, last = 0, -1
        while at < len(listed):
            kind = int.from_bytes(listed[at : at + 2])
            if kind <= last:
                raise ValueError("the properties are not in their order")
            found[kind], at = take(listed, at + 2, 2)
            last = kind
        if found.get(NEGOTIATION):
            raise ValueError("the property of the negotiation is empty")
        binary, inclusions = found.get(TRUST_ANCHOR_ID), found.get(GROUP_INCLUSIONS)
        return cls(
            trust_anchor_id=None if binary is None else TrustAnchorId.from_binary(binary),
            inclusions=() if inclusions is None else tuple(_inclusions(inclusions)),
            negotiation=NEGOTIATION in found,
        )


def _inclusions(data: bytes) -> Iterable[Inclusion]:
    listed, end = take(data, 0, 2)
    if end != len(data) or not listed:
        raise ValueError("the groups of the properties are a list with one or more")
    at = 0
    while at < len(listed):
        base, at = take(listed, at, 1)
        low, high = int.from_bytes(listed[at : at + 8]), int.from_bytes(listed[at + 8 : at + 16])
        at += 16
        if at > len(listed) or low > high:
            raise ValueError("a group of the properties is cut short, or ends before it begins")
        yield Inclusion(TrustAnchorId.from_binary(base), low, high)
