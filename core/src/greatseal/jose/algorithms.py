"""Signature algorithms of JOSE over ``cryptography`` (RFC 7518 s3, RFC 8037, RFC 9964). There is no ``none`` and no MAC here."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

PublicKey = (
    rsa.RSAPublicKey
    | ec.EllipticCurvePublicKey
    | ed25519.Ed25519PublicKey
    | ed448.Ed448PublicKey
    | mldsa.MLDSA44PublicKey
    | mldsa.MLDSA65PublicKey
    | mldsa.MLDSA87PublicKey
)
"""A public key that a JWK can hold and a JWS can be verified with."""


class BadJws(ValueError):
    """A JWS that is not accepted; the text says why and is fit for the client."""


class UnknownAlgorithm(BadJws):
    """``alg`` is none of :data:`ALGORITHMS`."""


class KeyMismatch(BadJws):
    """The key is of another type or curve than ``alg`` asks for."""


class BadSignature(BadJws):
    """The signature does not belong to this input and key."""


class Algorithm(ABC):
    """One value of ``alg``."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def fits(self, key: PublicKey) -> bool:
        """Whether ``key`` is of the type, and the curve, that the algorithm asks for."""

    @abstractmethod
    def check(self, key: Any, message: bytes, signature: bytes) -> None:
        """Raise InvalidSignature or ValueError unless ``signature`` is right. ``key`` fits."""

    @abstractmethod
    def sign(self, key: Any, message: bytes) -> bytes:
        """The signature in the form that a JWS carries. The public half of ``key`` fits."""


class RsaPkcs1(Algorithm):
    """RSASSA-PKCS1-v1_5 (RFC 7518 s3.3)."""

    def __init__(self, name: str, digest: hashes.HashAlgorithm) -> None:
        super().__init__(name)
        self.digest = digest
        self.padding: padding.PKCS1v15 | padding.PSS = padding.PKCS1v15()

    def fits(self, key: PublicKey) -> bool:
        return isinstance(key, rsa.RSAPublicKey)

    def check(self, key: rsa.RSAPublicKey, message: bytes, signature: bytes) -> None:
        key.verify(signature, message, self.padding, self.digest)

    def sign(self, key: rsa.RSAPrivateKey, message: bytes) -> bytes:
        return key.sign(message, self.padding, self.digest)


class RsaPss(RsaPkcs1):
    """RSASSA-PSS with the digest's own length of salt (RFC 7518 s3.5)."""

    def __init__(self, name: str, digest: hashes.HashAlgorithm) -> None:
        super().__init__(name, digest)
        self.padding = padding.PSS(padding.MGF1(digest), digest.digest_size)


class Ecdsa(Algorithm):
    """ECDSA; the signature is r and s, each of the curve's length (RFC 7518 s3.4)."""

    def __init__(self, name: str, curve: type[ec.EllipticCurve], size: int, digest: hashes.HashAlgorithm) -> None:
        super().__init__(name)
        self.curve: str = curve().name
        self.size = size
        self.verifying = ec.ECDSA(digest)
        self.signing = ec.ECDSA(digest, deterministic_signing=True)

    def fits(self, key: PublicKey) -> bool:
        return isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name == self.curve

    def check(self, key: ec.EllipticCurvePublicKey, message: bytes, signature: bytes) -> None:
        size = self.size
        if len(signature) != 2 * size:
            raise ValueError(f"{len(signature)} bytes where {2 * size} are needed")
        der = encode_dss_signature(int.from_bytes(signature[:size]), int.from_bytes(signature[size:]))
        key.verify(der, message, self.verifying)

    def sign(self, key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
        r, s = decode_dss_signature(key.sign(message, self.signing))
        return r.to_bytes(self.size) + s.to_bytes(self.size)


class Eddsa(Algorithm):
    """EdDSA with keys of ``curves``: both of RFC 8037 s3.1, or the one that RFC 9864 s2.2 names."""

    def __init__(self, name: str, *curves: type[PublicKey]) -> None:
        super().__init__(name)
        self.curves = curves

    def fits(self, key: PublicKey) -> bool:
        return isinstance(key, self.curves)

    def check(self, key: ed25519.Ed25519PublicKey | ed448.Ed448PublicKey, message: bytes, signature: bytes) -> None:
        key.verify(signature, message)

    def sign(self, key: ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey, message: bytes) -> bytes:
        return key.sign(message)


class MlDsa(Algorithm):
    """ML-DSA, pure and with an empty context (RFC 9964 s4)."""

    def __init__(self, name: str, public: type[PublicKey]) -> None:
        super().__init__(name)
        self.public = public

    def fits(self, key: PublicKey) -> bool:
        return isinstance(key, self.public)

    def check(self, key: mldsa.MLDSA65PublicKey, message: bytes, signature: bytes) -> None:
        key.verify(signature, message)

    def sign(self, key: mldsa.MLDSA65PrivateKey, message: bytes) -> bytes:
        return key.sign(message)


CURVES: Mapping[str, type[PublicKey]] = MappingProxyType({"Ed25519": ed25519.Ed25519PublicKey, "Ed448": ed448.Ed448PublicKey})
_SHA2 = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}

ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        algorithm.name: algorithm
        for algorithm in (
            Ecdsa("ES256", ec.SECP256R1, 32, _SHA2["256"]),
            Ecdsa("ES384", ec.SECP384R1, 48, _SHA2["384"]),
            Ecdsa("ES512", ec.SECP521R1, 66, _SHA2["512"]),
            Eddsa("EdDSA", *CURVES.values()),
            *(Eddsa(curve, key) for curve, key in CURVES.items()),
            *(RsaPkcs1(f"RS{bits}", digest) for bits, digest in _SHA2.items()),
            *(RsaPss(f"PS{bits}", digest) for bits, digest in _SHA2.items()),
            MlDsa("ML-DSA-44", mldsa.MLDSA44PublicKey),
            MlDsa("ML-DSA-65", mldsa.MLDSA65PublicKey),
            MlDsa("ML-DSA-87", mldsa.MLDSA87PublicKey),
        )
    }
)
"""Every ``alg`` that is accepted, by name, in the order in which it is offered."""


def fits(alg: str, key: PublicKey) -> bool:
    """Whether ``alg`` is known and ``key`` is of its type and curve."""
    algorithm = ALGORITHMS.get(alg)
    return algorithm is not None and algorithm.fits(key)


def is_allowed(alg: str, key: PublicKey, names: Collection[str] | None) -> bool:
    """Whether ``names`` allow a signature by ``alg`` with ``key``; None allows everything.

    ``Ed25519`` and ``Ed448`` (RFC 9864 s2.2) and EdDSA on that curve are one algorithm by two names; a key has its curve.
    """
    if names is None or alg in names:
        return True
    curve = next((name for name in CURVES if fits(name, key)), None)
    return alg in {"EdDSA", curve} and ("EdDSA" in names or curve in names)


def verify(alg: str, key: PublicKey, signing_input: bytes, signature: bytes) -> None:
    """Return when the signature is right; raises :class:`BadJws` (unknown ``alg``, a key that does not fit, a wrong signature)."""
    algorithm = ALGORITHMS.get(alg)
    if algorithm is None:
        raise UnknownAlgorithm("alg is not supported")
    if not algorithm.fits(key):
        raise KeyMismatch(f"the key does not fit {alg}")
    try:
        algorithm.check(key, signing_input, signature)
    except InvalidSignature:
        raise BadSignature(f"the {alg} signature does not verify") from None
    except ValueError as error:
        raise BadSignature(f"the {alg} signature is malformed: {error}") from None
