"""Public keys on Edwards curves: points as RFC 8032 encodes them. The library keeps the bytes and looks at them when it verifies."""

import msgspec

__all__ = ["ED448", "ED25519", "weak_point_reason"]


class Curve(msgspec.Struct, frozen=True):
    """a x^2 + y^2 = 1 + d x^2 y^2 modulo p. ``small`` has y of every point whose order divides the cofactor."""

    p: int
    a: int
    d: int
    small: frozenset[int]


_P25519, _P448 = 2**255 - 19, 2**448 - 2**224 - 1
# Of order 8: the roots of d y^4 + 2 y^2 = 1.
_EIGHTH = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7

ED25519 = Curve(
    p=_P25519,
    a=-1,
    d=0x52036CEE2B6FFE738CC740797779E89800700A4D4141D8AB75EB4DCA135978A3,
    small=frozenset({0, 1, _P25519 - 1, _EIGHTH, _P25519 - _EIGHTH}),
)
ED448 = Curve(p=_P448, a=1, d=-39081, small=frozenset({0, 1, _P448 - 1}))


def weak_point_reason(curve: Curve, encoded: bytes) -> str | None:
    """Why a public key is refused, or None when it is a point that its owner alone can sign for."""
    p = curve.p
    y = int.from_bytes(encoded, "little") & (1 << 8 * len(encoded) - 1) - 1  # without the sign of x
    if y >= p:
        return "the point is not encoded as RFC 8032 says: y is not below the prime of the field"
    if y in curve.small:
        return "the point is of small order: anybody could sign"
    square = y * y % p
    # x^2 is a fraction, and one whose denominator is never 0: it is a square when the product of both is one (Euler).
    if pow((square - 1) * (curve.d * square - curve.a), p >> 1, p) != 1:
        return "the point is not on the curve"
    return None
