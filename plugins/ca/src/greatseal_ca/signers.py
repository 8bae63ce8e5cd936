"""A CA key out of a file, behind the interface of the keys that the kernel keeps."""

import hashlib

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from greatseal.api.keys import HashAlg, KeyInfo
from greatseal_ca.algorithms import HASHES, is_deterministic, key_type_of, signature_hash


class FileSigner:
    """A private key in memory that was read from a file."""

    def __init__(self, key: CertificateIssuerPrivateKeyTypes, *, purpose: str, created_at: int) -> None:
        self._key = key
        self.public_key: PublicKeyTypes = key.public_key()
        spki = self.public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        key_type = key_type_of(self.public_key)
        self.info = KeyInfo(
            kid=hashlib.sha256(spki).hexdigest()[:32],
            purpose=purpose,
            algorithm=key_type,
            state="active",
            created_at=created_at,
            spki=spki,
        )
        self._repeats_ecdsa = isinstance(key, ec.EllipticCurvePrivateKey) and _rfc6979_works(key)
        self.deterministic = is_deterministic(key_type) and (self._repeats_ecdsa or not key_type.startswith("ec:"))

    async def sign(self, message: bytes, *, hash_alg: HashAlg | None = None) -> bytes:
        """The signature of a certificate's to-be-signed part."""
        name = signature_hash(self.info.algorithm, hash_alg or "sha256")
        match self._key:
            case ec.EllipticCurvePrivateKey() if name:
                return self._key.sign(message, ec.ECDSA(HASHES[name], deterministic_signing=self._repeats_ecdsa))
            case rsa.RSAPrivateKey() if name:
                return self._key.sign(message, padding.PKCS1v15(), HASHES[name])
            case key:
                return key.sign(message)  # type: ignore[call-arg]  # Ed25519 and ML-DSA take the message alone

    def sign_jose(self, _message: bytes) -> bytes:
        """A CA key signs certificates alone."""
        raise TypeError("the key of a certificate authority signs no tokens")


def _rfc6979_works(key: ec.EllipticCurvePrivateKey) -> bool:
    try:
        key.sign(b"", ec.ECDSA(HASHES["sha256"], deterministic_signing=True))
    except UnsupportedAlgorithm:
        return False
    return True
