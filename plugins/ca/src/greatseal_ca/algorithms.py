"""Key types by the names of the configuration: making keys, and how certificates name their signatures."""

from collections.abc import Callable
from types import MappingProxyType

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

from greatseal.api.keys import HashAlg

HashAlgorithm = hashes.SHA256 | hashes.SHA384 | hashes.SHA512

HASHES: MappingProxyType[HashAlg, HashAlgorithm] = MappingProxyType(
    {"sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha512": hashes.SHA512()}
)

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


def make_key(key_type: str) -> CertificateIssuerPrivateKeyTypes:
    """A new private key."""
    return _MAKERS[key_type]()


def throw_away_key(key_type: str) -> CertificateIssuerPrivateKeyTypes:
    """A key that gives to-be-signed bytes the algorithm of ``key_type``. RSA of any size is named alike, so a quick one serves."""
    return make_key("rsa:2048" if key_type.startswith("rsa:") else key_type)


def signature_hash(key_type: str, hash_alg: HashAlg) -> HashAlg | None:
    """The hash of signatures under ``key_type``: ``hash_alg``, at least the curve's; None where the algorithm has its own."""
    if key_type == "ec:P-384" and hash_alg == "sha256":
        return "sha384"
    return hash_alg if key_type.startswith(("ec:", "rsa:")) else None
