"""JWK public keys: reading and writing them, and their thumbprint (RFC 7517, RFC 7518 s6, RFC 7638, RFC 8037, RFC 9964)."""

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from greatseal.jose.acceptance import accept_public_key
from greatseal.jose.algorithms import ALGORITHMS, PublicKey, fits
from greatseal.jose.compact import b64url_decode, b64url_encode

__all__ = ["algorithms_of", "jwk_of", "public_key", "public_members", "thumbprint", "thumbprint_of"]

T = TypeVar("T")

_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"})
_CURVES: Mapping[str, tuple[ec.EllipticCurve, int]] = MappingProxyType(
    {"P-256": (ec.SECP256R1(), 32), "P-384": (ec.SECP384R1(), 48), "P-521": (ec.SECP521R1(), 66)}
)
_CURVE_NAMES = {curve.name: name for name, (curve, _) in _CURVES.items()}
_OKP: Mapping[str, type[ed25519.Ed25519PublicKey | ed448.Ed448PublicKey]] = MappingProxyType(
    {"Ed25519": ed25519.Ed25519PublicKey, "Ed448": ed448.Ed448PublicKey}
)
_AKP: Mapping[str, type[mldsa.MLDSA44PublicKey | mldsa.MLDSA65PublicKey | mldsa.MLDSA87PublicKey]] = MappingProxyType(
    {"ML-DSA-44": mldsa.MLDSA44PublicKey, "ML-DSA-65": mldsa.MLDSA65PublicKey, "ML-DSA-87": mldsa.MLDSA87PublicKey}
)
# RFC 7638 s3.2, RFC 8037 s2, RFC 9964 s6: the required members in their order.
_THUMBPRINT_MEMBERS = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n"), "OKP": ("crv", "kty", "x"), "AKP": ("alg", "kty", "pub")}


def public_key(jwk: Mapping[str, Any]) -> PublicKey:
    """The key of a public JWK; raises ValueError with the reason when it is malformed or not accepted.

    No private member may be there. ``alg``, ``use`` and ``key_ops``, where present, allow signatures with this key.
    """
    if present := _PRIVATE & jwk.keys():
        raise ValueError(f"the JWK has the private member {min(present)}")
    kty = jwk.get("kty")
    read = _READERS.get(kty) if isinstance(kty, str) else None
    if read is None:
        raise ValueError(f"the JWK has none of the key types {', '.join(_READERS)}")
    key = accept_public_key(read(jwk))
    if "alg" in jwk and not (isinstance(jwk["alg"], str) and fits(jwk["alg"], key)):
        raise ValueError("the member alg does not fit the key")
    if jwk.get("use", "sig") != "sig":
        raise ValueError("the member use is not sig")
    operations = jwk.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise ValueError("the member key_ops does not hold verify")
    return key


def thumbprint(jwk: Mapping[str, Any]) -> str:
    """The SHA-256 thumbprint (RFC 7638) in base64url of a JWK that :func:`public_key` accepts; ValueError when members are missing."""
    try:
        members = _THUMBPRINT_MEMBERS[jwk["kty"]]
        # The values are checked base64url and registered names, so that nothing in them needs escaping.
        canonical = ",".join(f'"{name}":"{jwk[name]}"' for name in members)
    except KeyError as error:
        raise ValueError(f"the JWK lacks {error.args[0]}") from None
    return b64url_encode(hashlib.sha256(f"{{{canonical}}}".encode()).digest())


def public_members(jwk: Mapping[str, Any]) -> dict[str, Any]:
    """The required members of a JWK, private or public: its public key and nothing else."""
    kty = jwk.get("kty")
    return {name: jwk[name] for name in _THUMBPRINT_MEMBERS.get(kty if isinstance(kty, str) else "", ("kty",)) if name in jwk}


def thumbprint_of(key: PublicKey) -> str:
    """The thumbprint of a key at hand."""
    return thumbprint(jwk_of(key))


def jwk_of(key: PublicKey) -> dict[str, str]:
    """The public JWK with its required members alone; raises ValueError for a key that JWK has no form for."""
    match key:
        case rsa.RSAPublicKey():
            numbers = key.public_numbers()
            return {"kty": "RSA", "n": _unsigned(numbers.n), "e": _unsigned(numbers.e)}
        case ec.EllipticCurvePublicKey() if key.curve.name in _CURVE_NAMES:
            point = key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
            size = len(point) // 2
            return {
                "kty": "EC",
                "crv": _CURVE_NAMES[key.curve.name],
                "x": b64url_encode(point[1 : 1 + size]),
                "y": b64url_encode(point[1 + size :]),
            }
        case ed25519.Ed25519PublicKey() | ed448.Ed448PublicKey():
            curve = "Ed25519" if isinstance(key, ed25519.Ed25519PublicKey) else "Ed448"
            return {"kty": "OKP", "crv": curve, "x": b64url_encode(key.public_bytes_raw())}
        case mldsa.MLDSA44PublicKey() | mldsa.MLDSA65PublicKey() | mldsa.MLDSA87PublicKey():
            alg = next(name for name, of in _AKP.items() if isinstance(key, of))
            return {"kty": "AKP", "alg": alg, "pub": b64url_encode(key.public_bytes_raw())}
        case _:
            raise ValueError("JWK has no form for this key")


def algorithms_of(key: PublicKey) -> tuple[str, ...]:
    """The values of ``alg`` that fit the key."""
    return tuple(name for name, algorithm in ALGORITHMS.items() if algorithm.fits(key))


def _rsa(jwk: Mapping[str, Any]) -> PublicKey:
    n, e = (_unsigned_member(jwk, name) for name in ("n", "e"))
    try:
        return rsa.RSAPublicNumbers(e, n).public_key()
    except ValueError as error:
        raise ValueError(f"n and e are no RSA key: {error}") from None


def _ec(jwk: Mapping[str, Any]) -> PublicKey:
    curve, size = _chosen(jwk, "crv", _CURVES)
    x, y = (_member(jwk, name, size) for name in ("x", "y"))
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(curve, b"\x04" + x + y)
    except ValueError:
        raise ValueError("the point x, y is not on the curve") from None


def _okp(jwk: Mapping[str, Any]) -> PublicKey:
    of = _chosen(jwk, "crv", _OKP)
    return of.from_public_bytes(_member(jwk, "x", 32 if of is ed25519.Ed25519PublicKey else 57))


def _akp(jwk: Mapping[str, Any]) -> PublicKey:
    of = _chosen(jwk, "alg", _AKP)
    try:
        return of.from_public_bytes(_member(jwk, "pub"))
    except ValueError:
        raise ValueError(f"pub is no {jwk['alg']} key") from None


_READERS: Mapping[str, Callable[[Mapping[str, Any]], PublicKey]] = MappingProxyType({"EC": _ec, "RSA": _rsa, "OKP": _okp, "AKP": _akp})


def _chosen(jwk: Mapping[str, Any], name: str, table: Mapping[str, T]) -> T:
    value = jwk.get(name)
    if not isinstance(value, str) or value not in table:
        raise ValueError(f"{name} is none of {', '.join(table)}")
    return table[value]


def _member(jwk: Mapping[str, Any], name: str, size: int | None = None) -> bytes:
    try:
        value = b64url_decode(_text(jwk, name))
    except ValueError as error:
        raise ValueError(f"the member {name} is {error}") from None
    if size is not None and len(value) != size:
        raise ValueError(f"{name} has {len(value)} bytes where {size} are needed")
    return value


def _text(jwk: Mapping[str, Any], name: str) -> str:
    if isinstance(text := jwk.get(name), str):
        return text
    raise ValueError("no string")


def _unsigned_member(jwk: Mapping[str, Any], name: str) -> int:
    value = _member(jwk, name)
    if not value or value[0] == 0:
        raise ValueError(f"{name} is not in the fewest bytes (RFC 7518 s2)")
    return int.from_bytes(value)


def _unsigned(value: int) -> str:
    return b64url_encode(value.to_bytes((value.bit_length() + 7) // 8))
