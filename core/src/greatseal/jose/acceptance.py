"""Which public keys are accepted: of accounts, certificate requests and clients, and those that an operator brings.

One rule for all of them (RFC 8555 s6.2 badPublicKey; CA/Browser Forum BR 6.1.1.3, 6.1.5, 6.1.6). Every public key from outside passes
:func:`accept_public_key` where it is loaded. Keys that are known to be compromised are another matter: ``host.blocked_keys``.
"""

from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from greatseal.jose.algorithms import PublicKey
from greatseal.jose.edwards import ED448, ED25519, weak_point_reason
from greatseal.jose.weak import weak_rsa_reason

__all__ = ["accept_public_key", "spki_sha256"]

_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_RHO_BYTES = 32
_T1_BITS = 10
_T1_MAX = (1 << _T1_BITS) - 1


def accept_public_key(key: object) -> PublicKey:
    """The key, of a type that is accepted; raises ValueError with the reason, fit for the key's owner."""
    match key:
        case rsa.RSAPublicKey():
            numbers = key.public_numbers()
            reason = weak_rsa_reason(numbers.n, numbers.e)
        case ec.EllipticCurvePublicKey() if isinstance(key.curve, _CURVES):
            reason = None  # the library makes no key of a point off the curve or at infinity, and the cofactor of these curves is 1
        case ed25519.Ed25519PublicKey():
            reason = weak_point_reason(ED25519, key.public_bytes_raw())
        case ed448.Ed448PublicKey():
            reason = weak_point_reason(ED448, key.public_bytes_raw())
        case mldsa.MLDSA44PublicKey() | mldsa.MLDSA65PublicKey() | mldsa.MLDSA87PublicKey():
            reason = _weak_ml_dsa_reason(key.public_bytes_raw())
        case _:
            raise ValueError("its type or curve is none of RSA, ECDSA on P-256, P-384 or P-521, Ed25519, Ed448 and ML-DSA")
    if reason is not None:
        raise ValueError(reason)
    return key


def spki_sha256(key: PublicKeyTypes) -> str:
    """The name under which a key is blocked: SHA-256 of its SubjectPublicKeyInfo, in hexadecimal."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _weak_ml_dsa_reason(encoded: bytes) -> str | None:
    """A public key of FIPS 204 s7.2 is rho and the coefficients t1, ten bits each, which stand for t1 * 2^13 modulo q.

    That is 0 for 0 and -1 for 1023. Where all are such, a signature hardly depends on its challenge, and anybody can make one.
    """
    t1 = int.from_bytes(encoded[_RHO_BYTES:], "little")
    count = 8 * (len(encoded) - _RHO_BYTES) // _T1_BITS
    ones = ((1 << count * _T1_BITS) - 1) // _T1_MAX  # a 1 for each coefficient
    return "the ML-DSA key has only coefficients that stand for 0 or -1: anybody could sign" if (t1 & ones) * _T1_MAX == t1 else None
