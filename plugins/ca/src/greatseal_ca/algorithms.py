"""Key types by the names of the configuration: making keys, and how certificates name their signatures."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes, CertificatePublicKeyTypes

from greatseal.api.keys import HashAlg

_SIGNATURES: MappingProxyType[tuple[str, HashAlg | None], bytes] = MappingProxyType(
    {
        ("ec", "sha256"): bytes.fromhex("300a06082a8648ce3d040302"),
        ("ec", "sha384"): bytes.fromhex("300a06082a8648ce3d040303"),
        ("ec", "sha512"): bytes.fromhex("300a06082a8648ce3d040304"),
        ("rsa", "sha256"): bytes.fromhex("300d06092a864886f70d01010b0500"),
        ("rsa", "sha384"): bytes.fromhex("300d06092a864886f70d01010c0500"),
        ("rsa", "sha512"): bytes.fromhex("300d06092a864886f70d01010d0500"),
        ("ed25519", None): bytes.fromhex("300506032b6570"),
        ("ml-dsa-44", None): bytes.fromhex("300b0609608648016503040311"),
        ("ml-dsa-65", None): bytes.fromhex("300b0609608648016503040312"),
        ("ml-dsa-87", None): bytes.fromhex("300b0609608648016503040313"),
    }
)
"""AlgorithmIdentifiers by the family of the key and the hash (RFC 5758 s3.2, RFC 4055 s5, RFC 8410 s3, RFC 9881 s2)."""
HASHES: Mapping[bytes, HashAlg | None] = MappingProxyType({algorithm: hash_alg for (_, hash_alg), algorithm in _SIGNATURES.items()})
"""The hash that an AlgorithmIdentifier of :func:`signature_algorithm` asks for, None where the algorithm has its own."""

_MAKERS: dict[str, Callable[[], CertificateIssuerPrivateKeyTypes]] = {
    "ec:P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ec:P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "rsa:2048": lambda: rsa.generate_private_key(65537, 2048),
    "rsa:3072": lambda: rsa.generate_private_key(65537, 3072),
    "rsa:4096": lambda: rsa.generate_private_key(65537, 4096),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "ml-dsa-44": mldsa.MLDSA44PrivateKey.generate,
    "ml-dsa-65": mldsa.MLDSA65PrivateKey.generate,
    "ml-dsa-87": mldsa.MLDSA87PrivateKey.generate,
}


_DIGESTS: Mapping[HashAlg | None, hashes.HashAlgorithm] = MappingProxyType(
    {"sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha512": hashes.SHA512()}
)


def verify(key: CertificatePublicKeyTypes, algorithm: bytes, message: bytes, signature: bytes) -> None:
    """Check a signature by its DER AlgorithmIdentifier, one of :data:`HASHES`. Raises InvalidSignature."""
    match key:
        case ec.EllipticCurvePublicKey():
            key.verify(signature, message, ec.ECDSA(_DIGESTS[HASHES[algorithm]]))
        case rsa.RSAPublicKey():
            key.verify(signature, message, padding.PKCS1v15(), _DIGESTS[HASHES[algorithm]])
        case _:
            key.verify(signature, message)  # type: ignore[union-attr,call-arg]  # CA key types only


def make_key(key_type: str) -> CertificateIssuerPrivateKeyTypes:
    """A new private key."""
    return _MAKERS[key_type]()


def signature_algorithm(key_type: str, hash_alg: HashAlg) -> bytes:
    """The DER AlgorithmIdentifier of signatures under ``key_type`` with ``hash_alg``, or with a longer one that the curve asks for."""
    family = key_type.partition(":")[0]
    if family not in {"ec", "rsa"}:
        return _SIGNATURES[family, None]  # its hash is its own
    return _SIGNATURES[family, "sha384" if key_type == "ec:P-384" and hash_alg == "sha256" else hash_alg]
