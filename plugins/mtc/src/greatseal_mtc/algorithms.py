"""Signatures of cosigners: what their keys are called, and checking them (draft-ietf-plants-merkle-tree-certs-05 s5.3)."""

from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from greatseal import der
from greatseal.jose.acceptance import accept_public_key

__all__ = ["BadSignature", "CosignerKey", "key_of_spki", "signature_algorithm", "spki_of", "verify"]

CosignerKey = (
    ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | mldsa.MLDSA44PublicKey | mldsa.MLDSA65PublicKey | mldsa.MLDSA87PublicKey
)
"""The public key of a cosigner: of P-256, P-384, Ed25519 or ML-DSA."""

_ML_DSA = (mldsa.MLDSA44PublicKey, mldsa.MLDSA65PublicKey, mldsa.MLDSA87PublicKey)
_ECDSA: Final = {
    "secp256r1": ("1.2.840.10045.4.3.2", ec.ECDSA(hashes.SHA256())),
    "secp384r1": ("1.2.840.10045.4.3.3", ec.ECDSA(hashes.SHA384())),
}
_OTHERS: Final[dict[type, str]] = {
    ed25519.Ed25519PublicKey: "1.3.101.112",
    mldsa.MLDSA44PublicKey: "2.16.840.1.101.3.4.3.17",
    mldsa.MLDSA65PublicKey: "2.16.840.1.101.3.4.3.18",
    mldsa.MLDSA87PublicKey: "2.16.840.1.101.3.4.3.19",
}


class BadSignature(ValueError):
    """A signature that is not the key's over the message."""


@lru_cache(64)  # that of a log is asked for with each signature, and costs ten of them
def key_of_spki(spki: bytes) -> CosignerKey:
    """The key of a DER SubjectPublicKeyInfo. Raises ValueError for what no cosigner has."""
    try:
        key = accept_public_key(load_der_public_key(spki))
    except Exception as error:  # a ValueError, or UnsupportedAlgorithm, by what is wrong
        raise ValueError("not the SubjectPublicKeyInfo of a public key") from error
    signature_algorithm(key)
    if spki_of(key) != spki:  # type: ignore[arg-type]  # signature_algorithm has refused other types
        raise ValueError("the SubjectPublicKeyInfo is not in its own form")
    return key  # type: ignore[return-value]  # likewise


def spki_of(key: CosignerKey) -> bytes:
    """The DER SubjectPublicKeyInfo of a key."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def signature_algorithm(key: object) -> bytes:
    """The AlgorithmIdentifier of the signatures of a key. Raises ValueError for one that no cosigner has."""
    oid = _OTHERS.get(next((one for one in _OTHERS if isinstance(key, one)), object))
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _ECDSA:
        oid = _ECDSA[key.curve.name][0]
    if oid is None:
        raise ValueError("a cosigner has a key of P-256, P-384, Ed25519 or ML-DSA")
    return der.sequence(der.object_identifier(oid))


def verify(key: CosignerKey, message: bytes, signature: bytes) -> None:
    """Check the signature of a cosigner; ECDSA is DER with the hash of its curve, ML-DSA has no context. Raises BadSignature."""
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, message, _ECDSA[key.curve.name][1])
        else:
            key.verify(signature, message)
    except InvalidSignature:
        raise BadSignature("the signature is not the cosigner's over this") from None
