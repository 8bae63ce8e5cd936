"""Which public keys are accepted, from whomever they come."""

import secrets
from collections.abc import Iterator
from itertools import product

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, mldsa, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key
from hypothesis import given
from hypothesis import strategies as st

from greatseal.jose.acceptance import accept_public_key
from greatseal.jose.compact import b64url_encode
from greatseal.jose.jwk import public_key


class Curve:
    """An Edwards curve in plain arithmetic, apart from the code under test: a x^2 + y^2 = 1 + d x^2 y^2."""

    def __init__(self, name: str, of: type, *, p: int, a: int, d: int, order: int, cofactor: int, size: int) -> None:
        self.name, self.of, self.p, self.a, self.d, self.size = name, of, p, a % p, d % p, size
        self.order, self.cofactor = order, cofactor

    def add(self, one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int]:
        (x1, y1), (x2, y2), p = one, two, self.p
        crossed = self.d * x1 * x2 * y1 * y2
        return (x1 * y2 + x2 * y1) * pow(1 + crossed, -1, p) % p, (y1 * y2 - self.a * x1 * x2) * pow(1 - crossed, -1, p) % p

    def times(self, number: int, point: tuple[int, int]) -> tuple[int, int]:
        found = (0, 1)
        for bit in f"{number:b}":
            found = self.add(found, found)
            found = self.add(found, point) if bit == "1" else found
        return found

    def root(self, square: int) -> int | None:
        p = self.p
        found = pow(square, (p + 1) // 4, p) if p % 4 == 3 else pow(square, (p + 3) // 8, p)
        if found * found % p != square % p and p % 4 == 1:
            found = found * pow(2, (p - 1) // 4, p) % p
        return found if found * found % p == square % p else None

    def with_y(self, y: int) -> tuple[int, int] | None:
        x = self.root((1 - y * y) * pow(self.a - self.d * y * y, -1, self.p))
        return None if x is None else (x, y)

    def torsion(self) -> set[tuple[int, int]]:
        """Every point whose order divides the cofactor: the multiples of one of that order."""
        for y in range(2, self.p):
            if (point := self.with_y(y)) is not None:
                small = self.times(self.order, point)
                found = {self.times(number, small) for number in range(self.cofactor)}
                if len(found) == self.cofactor:
                    return found
        raise AssertionError

    def encodings(self, point: tuple[int, int]) -> Iterator[bytes]:
        """The one of RFC 8032, and those that a lenient decoder takes for the same point."""
        top = 8 * self.size - 1
        signs = (0, 1) if point[0] == 0 else (point[0] & 1,)
        for y, sign in product(range(point[1], 1 << top, self.p), signs):
            yield (y | sign << top).to_bytes(self.size, "little")
            if y > 1 << 460:
                return


ED25519 = Curve(
    "Ed25519", ed25519.Ed25519PublicKey, p=2**255 - 19, a=-1, d=-121665 * pow(121666, -1, 2**255 - 19), size=32,
    order=2**252 + 27742317777372353535851937790883648493, cofactor=8,
)  # fmt: skip
ED448 = Curve(
    "Ed448", ed448.Ed448PublicKey, p=2**448 - 2**224 - 1, a=1, d=-39081, size=57,
    order=2**446 - 13818066809895115352007386748515426880336692474882178609894547503885, cofactor=4,
)  # fmt: skip
CURVES = pytest.mark.parametrize("curve", [ED25519, ED448], ids=lambda curve: curve.name)
# The Ed448 encoding has seven spare bits, so a number that a lenient decoder reduces comes in 128 forms; the first of them are enough.
SMALL = [
    pytest.param(curve, encoded, id=f"{curve.name}-{encoded.hex()}")
    for curve in (ED25519, ED448)
    for point in sorted(curve.torsion())
    for encoded, _ in zip(curve.encodings(point), range(8), strict=False)
]


def as_spki(key: object) -> object:
    return load_der_public_key(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def refusal(key: object) -> str:
    with pytest.raises(ValueError) as refused:
        accept_public_key(key)
    return str(refused.value)


def test_the_vectors_are_all_points_of_small_order():
    assert len(ED25519.torsion()) == 8
    assert len(ED448.torsion()) == 4
    assert len({values.values[1] for values in SMALL if values.values[0] is ED25519}) == 14


@pytest.mark.parametrize(("curve", "encoded"), SMALL)
def test_s118_a_point_of_small_order_is_refused_in_each_encoding(curve, encoded):
    key = curve.of.from_public_bytes(encoded)

    assert "small order" in refusal(key) or "RFC 8032" in refusal(key)
    assert refusal(as_spki(key)) == refusal(key)
    with pytest.raises(ValueError, match=r"small order|RFC 8032"):
        public_key({"kty": "OKP", "crv": curve.name, "x": b64url_encode(encoded)})


@pytest.mark.parametrize(("curve", "encoded"), [values for values in SMALL if values.values[0] is ED25519])
def test_anybody_can_sign_for_a_point_of_small_order(curve, encoded):
    """Why: with R = s*B and any of these keys, s verifies whenever h*A is the identity, for one message in eight or better."""
    s = 7
    base = curve.with_y(4 * pow(5, -1, curve.p) % curve.p)
    base = base if base[0] % 2 == 0 else (curve.p - base[0], base[1])
    x, y = curve.times(s, base)
    forged = (y | (x & 1) << 255).to_bytes(32, "little") + s.to_bytes(32, "little")
    key = ed25519.Ed25519PublicKey.from_public_bytes(encoded)

    def verifies(message: int) -> bool:
        try:
            key.verify(forged, message.to_bytes(2))
        except InvalidSignature:
            return False
        return True

    assert any(map(verifies, range(200)))


@CURVES
def test_s118_a_point_off_the_curve_is_refused(curve):
    off = [y for y in range(2, 60) if curve.with_y(y) is None]
    assert off

    for y in off:
        assert "not on the curve" in refusal(curve.of.from_public_bytes(y.to_bytes(curve.size, "little")))


@CURVES
@given(data=st.data())
def test_any_bytes_are_a_point_or_refused_with_a_reason(curve, data):
    encoded = data.draw(st.binary(min_size=curve.size, max_size=curve.size))
    y = int.from_bytes(encoded, "little") & (1 << 8 * curve.size - 1) - 1
    key = curve.of.from_public_bytes(encoded)

    if y < curve.p and curve.with_y(y) is not None and y > 1:
        assert accept_public_key(key) is key
    else:
        assert refusal(key)


@CURVES
def test_a_point_with_a_torsion_component_is_no_weakness(curve):
    point = curve.times(2 * curve.cofactor + 1, curve.with_y(next(y for y in range(2, 60) if curve.with_y(y))))
    mixed = curve.add(point, max(curve.torsion()))
    key = curve.of.from_public_bytes((mixed[1] | (mixed[0] & 1) << 8 * curve.size - 1).to_bytes(curve.size, "little"))

    assert accept_public_key(key) is key


@pytest.mark.parametrize("name", ["ES256", "ES384", "ES512", "EdDSA", "EdDSA-Ed448", "RS256", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87"])
def test_good_keys_are_accepted(private_key, name):
    key = private_key(name).public_key()

    assert accept_public_key(key) is key


POINTS = {
    "infinity": b"\x00",
    "infinity, long": b"\x00" * 65,
    "zero": b"\x04" + b"\x00" * 64,
    "off the curve": b"\x04" + b"\x01" * 64,
    "not below the prime": b"\x04" + b"\xff" * 64,
}


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_s138_no_key_is_off_its_curve_or_at_infinity(point):
    """The library does not even make one of them, from a point or from an SPKI."""
    spki = bytes.fromhex("301306072a8648ce3d020106082a8648ce3d030107") + b"\x03" + bytes((len(point) + 1, 0)) + point

    with pytest.raises(ValueError):
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    with pytest.raises(ValueError):
        load_der_public_key(b"\x30" + bytes((len(spki),)) + spki)


OTHERS = {
    "P-192": lambda: ec.generate_private_key(ec.SECP192R1()),
    "P-224": lambda: ec.generate_private_key(ec.SECP224R1()),
    "secp256k1": lambda: ec.generate_private_key(ec.SECP256K1()),
    "brainpool": lambda: ec.generate_private_key(ec.BrainpoolP256R1()),
    "DSA": lambda: dsa.generate_private_key(2048),
    "X25519": x25519.X25519PrivateKey.generate,
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_other_types_and_curves_are_refused_with_those_that_are_accepted(make):
    assert "P-256, P-384" in refusal(make().public_key())


@pytest.mark.parametrize("exponent", [3, 5, 17, 35, 257, 65535])
def test_s118_small_rsa_exponents_are_refused(private_key, exponent):
    """RFC 8017 lets 3 be; FIPS 186-5 s5.1 does not, BR 6.1.6 asks for more than 2^16, and no ACME client makes such keys."""
    n = private_key("RS256").public_key().public_numbers().n

    assert "65537" in refusal(rsa.RSAPublicNumbers(exponent, n).public_key())


ML_DSA = {mldsa.MLDSA44PublicKey: 4, mldsa.MLDSA65PublicKey: 6, mldsa.MLDSA87PublicKey: 8}


@pytest.mark.parametrize(("of", "rows"), ML_DSA.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_an_ml_dsa_key_whose_t_is_nothing_is_refused(of, rows):
    """With t1 of 0, and of 1023 since 1023 * 2^13 = -1 modulo q, verification does not depend on the challenge: anybody can sign."""
    for packed in (bytes(320 * rows), b"\xff" * 320 * rows, (b"\xff\x03" + bytes(3)) * 64 * rows):
        assert "anybody" in refusal(of.from_public_bytes(secrets.token_bytes(32) + packed))
    nearly = bytes(320 * rows - 1) + b"\x40"
    assert accept_public_key(of.from_public_bytes(secrets.token_bytes(32) + nearly))
