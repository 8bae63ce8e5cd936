import math
import secrets

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa, x25519
from hypothesis import given
from hypothesis import strategies as st
from jwcrypto import jwk as jwcrypto_jwk

from greatseal.jose.compact import b64url_encode
from greatseal.jose.jwk import algorithms_of, jwk_of, public_key, thumbprint, thumbprint_of
from greatseal.jose.weak import is_fermat_factorable, weak_rsa_reason

ALL = pytest.mark.parametrize("alg", ["ES256", "ES384", "ES512", "EdDSA", "EdDSA-Ed448", "RS256", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87"])


def next_prime(n):
    n |= 1
    while not is_prime(n):
        n += 2
    return n


SMALL_PRIMES = math.prod(p for p in range(3, 2000, 2) if all(p % d for d in range(3, p, 2)))


def is_prime(n):
    """Fermat tests: enough for numbers that nobody chose to fool them."""
    return math.gcd(n, SMALL_PRIMES) == 1 and all(pow(base, n - 1, n) == 1 for base in (2, 3, 5))


def encoded(number):
    return b64url_encode(number.to_bytes((number.bit_length() + 7) // 8))


@ALL
def test_a_key_goes_to_a_jwk_and_back(private_key, alg):
    key = private_key(alg).public_key()

    assert public_key(jwk_of(key)) == key


@ALL
def test_the_thumbprint_is_that_of_jwcrypto(private_key, alg):
    key = private_key(alg)
    expected = jwcrypto_jwk.JWK.from_pyca(key).thumbprint()

    assert thumbprint_of(key.public_key()) == expected
    assert thumbprint({"kid": "other members do not count", **jwk_of(key.public_key())}) == expected


def test_the_thumbprint_of_rfc_7638():
    n = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W"
        "-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08q"
        "NLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
    )

    assert thumbprint({"kty": "RSA", "n": n, "e": "AQAB"}) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


def test_an_account_key_is_read_with_its_algorithms(private_key):
    assert algorithms_of(private_key("ES256").public_key()) == ("ES256",)
    assert algorithms_of(private_key("RS256").public_key()) == ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
    assert algorithms_of(private_key("EdDSA").public_key()) == ("EdDSA", "Ed25519")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kty": "oct", "k": "AAAA"}, "private member k"),
        ({"kty": "oct"}, "none of the key types"),
        ({"kty": None}, "none of the key types"),
        ({"kty": ["EC"]}, "none of the key types"),
        ({"kty": "RSA"}, "no string"),
        ({"d": "AAAA"}, "private member d"),
        ({"d": None}, "private member d"),
        ({"priv": "AAAA"}, "private member priv"),
        ({"crv": "P-384"}, "32 bytes where 48"),
        ({"crv": "P-224"}, "crv is none of"),
        ({"crv": "secp256k1"}, "crv is none of"),
        ({"crv": "Ed25519"}, "crv is none of"),
        ({"crv": {}}, "crv is none of"),
        ({"x": b64url_encode(b"\1" * 32)}, "not on the curve"),
        ({"x": b64url_encode(b"\0" * 32), "y": b64url_encode(b"\0" * 32)}, "not on the curve"),
        ({"x": b64url_encode(b"\xff" * 32)}, "not on the curve"),
        ({"x": b64url_encode(b"\1" * 33)}, "33 bytes"),
        ({"x": "AA=="}, "canonical"),
        ({"x": 1}, "no string"),
        ({"alg": "ES384"}, "alg does not fit"),
        ({"alg": "none"}, "alg does not fit"),
        ({"alg": []}, "alg does not fit"),
        ({"use": "enc"}, "use is not sig"),
        ({"key_ops": ["sign"]}, "key_ops"),
        ({"key_ops": "verify"}, "key_ops"),
    ],
)
def test_s118_a_jwk_that_is_not_a_good_public_key_is_refused(private_key, change, reason):
    with pytest.raises(ValueError, match=reason):
        public_key(jwk_of(private_key("ES256").public_key()) | change)


def test_members_that_allow_signatures_are_fine(private_key):
    key = private_key("ES256").public_key()

    assert public_key(jwk_of(key) | {"alg": "ES256", "use": "sig", "key_ops": ["verify"], "kid": "x", "x5c": ["ignored"]}) == key


@pytest.mark.parametrize(
    ("jwk", "reason"),
    [
        ({"kty": "OKP", "crv": "X25519", "x": b64url_encode(b"\1" * 32)}, "crv is none of"),
        ({"kty": "OKP", "crv": "Ed25519", "x": b64url_encode(b"\1" * 57)}, "57 bytes"),
        ({"kty": "OKP", "crv": "Ed448", "x": b64url_encode(b"\1" * 32)}, "32 bytes"),
        ({"kty": "AKP", "pub": b64url_encode(b"\1" * 1312)}, "alg is none of"),
        ({"kty": "AKP", "alg": "ML-DSA-65", "pub": b64url_encode(b"\1" * 1312)}, "ML-DSA-65"),
        ({"kty": "AKP", "alg": "ML-DSA-44", "pub": ""}, "ML-DSA-44"),
    ],
)
def test_s118_other_key_types_are_held_to_their_form(jwk, reason):
    with pytest.raises(ValueError, match=reason):
        public_key(jwk)


@given(
    st.dictionaries(
        st.sampled_from(["kty", "crv", "x", "y", "n", "e", "alg", "pub", "use"]), st.text(max_size=8) | st.none() | st.integers()
    )
)
def test_any_jwk_is_refused_with_a_reason(jwk):
    with pytest.raises(ValueError):
        public_key(jwk)


def test_a_key_that_jwk_or_jws_has_no_use_for_has_no_form():
    with pytest.raises(ValueError, match="no form"):
        jwk_of(ec.generate_private_key(ec.SECP256K1()).public_key())
    with pytest.raises(ValueError, match="no form"):
        jwk_of(x25519.X25519PrivateKey.generate().public_key())


def test_a_jwk_that_lacks_a_member_has_no_thumbprint():
    for jwk in ({}, {"kty": "EC"}, {"kty": "RSA", "e": "AQAB"}, {"kty": "oct", "k": "AA"}):
        with pytest.raises(ValueError, match="lacks"):
            thumbprint(jwk)


def test_ed448_and_ed25519_have_their_own_curve_names():
    assert jwk_of(ed448.Ed448PrivateKey.generate().public_key())["crv"] == "Ed448"


# ---- RSA


@pytest.fixture(scope="module")
def modulus(private_key):
    return private_key("RS256").public_key().public_numbers().n


def test_a_good_rsa_key_has_no_known_weakness(modulus):
    assert weak_rsa_reason(modulus, 65537) is None
    assert weak_rsa_reason(modulus, 2**32 - 1) is None


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 65535, 65536, 65538, 2**32 + 1, -3])
def test_s118_an_rsa_exponent_is_odd_and_of_bounded_size(modulus, exponent):
    assert "exponent" in weak_rsa_reason(modulus, exponent)


@pytest.mark.parametrize("bits", [512, 1024, 2040, 2047, 8193, 16384])
def test_s118_an_rsa_modulus_has_2048_to_8192_bits(bits):
    assert "bits" in weak_rsa_reason(2**bits - 1, 65537)


def test_s118_rsa_1024_is_refused_as_a_jwk():
    numbers = rsa.generate_private_key(65537, 1024).public_key().public_numbers()

    with pytest.raises(ValueError, match="1024 bits"):
        public_key({"kty": "RSA", "n": encoded(numbers.n), "e": "AQAB"})


def test_an_rsa_modulus_of_odd_length_is_refused(modulus):
    assert "multiple of 8" in weak_rsa_reason(2**2049 + 1, 65537)


@pytest.mark.parametrize("factor", [2, 3, 751])
def test_an_rsa_modulus_with_a_small_factor_is_refused(modulus, factor):
    assert "factor" in weak_rsa_reason((modulus | 1) * factor << 8 - (modulus * factor).bit_length() % 8, 65537)


def test_primes_that_are_close_are_found():
    p = next_prime(secrets.randbits(1024) | 3 << 1022)
    q = next_prime(p + 2**500)

    assert "too close" in weak_rsa_reason(p * q, 65537)
    assert is_fermat_factorable(p * p)


def test_a_roca_key_is_found():
    product = math.prod(p for p in range(2, 702) if all(p % d for d in range(2, math.isqrt(p) + 1)))

    def prime():
        while True:
            found = (secrets.randbits(1024 - product.bit_length()) | 3 << 1022 - product.bit_length()) * product + pow(
                65537, secrets.randbits(60), product
            )
            if found.bit_length() == 1024 and found >> 1022 == 3 and is_prime(found):
                return found

    assert "ROCA" in weak_rsa_reason(prime() * prime(), 65537)


def test_numbers_are_in_the_fewest_bytes(modulus):
    padded = b64url_encode(b"\0" + modulus.to_bytes(256))

    with pytest.raises(ValueError, match="fewest bytes"):
        public_key({"kty": "RSA", "n": padded, "e": "AQAB"})
    with pytest.raises(ValueError, match="fewest bytes"):
        public_key({"kty": "RSA", "n": encoded(modulus), "e": ""})
