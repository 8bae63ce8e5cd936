"""The public keys of passkeys: as COSE in what authenticators send (RFC 9052 s7), as SubjectPublicKeyInfo where they rest."""

from collections.abc import Mapping

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key
from webauthn.helpers import decode_credential_public_key, decoded_public_key_to_cryptography, encode_cbor
from webauthn.helpers.exceptions import WebAuthnException

from greatseal.jose.acceptance import accept_public_key, spki_sha256

ES256, EDDSA, RS256 = -7, -8, -257
ALGORITHMS = (ES256, EDDSA, RS256)
"""COSE algorithms in our order (RFC 9053, RFC 8812)."""
RSA_BITS = range(2048, 4097)
PublicKey = EllipticCurvePublicKey | Ed25519PublicKey | RSAPublicKey


class BadKey(ValueError):
    """A key that nobody may have a passkey with."""


def spki_of(cose: bytes) -> bytes:
    """The SubjectPublicKeyInfo of a COSE key. Raises BadKey for a key of another kind, or one that does not fit its algorithm."""
    try:
        decoded = decode_credential_public_key(cose)
        key = _taken(accept_public_key(decoded_public_key_to_cryptography(decoded)))
    except (WebAuthnException, KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError, UnsupportedAlgorithm) as error:
        raise BadKey("the public key cannot be read") from error
    if int(decoded.alg) != _algorithm(key):
        raise BadKey("the public key does not fit its algorithm")
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def cose_of(spki: bytes) -> bytes:
    """The COSE key of a SubjectPublicKeyInfo. Raises BadKey as :func:`spki_of` does."""
    key = _load(spki)
    _algorithm(key)
    return encode_cbor(_members(key))


def digest_of(spki: bytes) -> str:
    """By which blocked keys are known. Raises BadKey."""
    return spki_sha256(_load(spki))


def _load(spki: bytes) -> PublicKey:
    try:
        return _taken(accept_public_key(load_der_public_key(spki)))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadKey("the public key cannot be read") from error


def _taken(key: object) -> PublicKey:
    """The key when it is of a kind that passkeys have. Raises BadKey."""
    if not isinstance(key, PublicKey):
        raise BadKey("the public key is of no kind that is taken here")
    return key


def _algorithm(key: object) -> int:
    match key:
        case EllipticCurvePublicKey() if isinstance(key.curve, SECP256R1):
            return ES256
        case Ed25519PublicKey():
            return EDDSA
        case RSAPublicKey() if key.key_size in RSA_BITS and key.public_numbers().e >= 65537:
            return RS256
    raise BadKey("the public key is of no kind that is taken here: P-256, Ed25519, or RSA of 2048 to 4096 bits")


def _members(key: PublicKey) -> Mapping[int, int | bytes]:
    match key:
        case EllipticCurvePublicKey():
            numbers = key.public_numbers()
            return {1: 2, 3: ES256, -1: 1, -2: numbers.x.to_bytes(32), -3: numbers.y.to_bytes(32)}
        case Ed25519PublicKey():
            return {1: 1, 3: EDDSA, -1: 6, -2: key.public_bytes_raw()}
        case RSAPublicKey():
            n, e = key.public_numbers().n, key.public_numbers().e
            return {1: 3, 3: RS256, -1: n.to_bytes((n.bit_length() + 7) // 8), -2: e.to_bytes((e.bit_length() + 7) // 8)}
