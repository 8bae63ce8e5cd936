"""Key types by the names of the configuration: making keys, and how certificates name their signatures."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes, PublicKeyTypes

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

_NAMES: Mapping[type[PublicKeyTypes], str] = {
    ed25519.Ed25519PublicKey: "ed25519",
    mldsa.MLDSA44PublicKey: "ml-dsa-44",
    mldsa.MLDSA65PublicKey: "ml-dsa-65",
    mldsa.MLDSA87PublicKey: "ml-dsa-87",
}


def make_key(key_type: str) -> CertificateIssuerPrivateKeyTypes:
    """A new private key."""
    return _MAKERS[key_type]()


def throw_away_key(key_type: str) -> CertificateIssuerPrivateKeyTypes:
    """A key that gives to-be-signed bytes the algorithm of ``key_type``. RSA of any size is named alike, so a quick one serves."""
    return make_key("rsa:2048" if key_type.startswith("rsa:") else key_type)


def key_type_of(key: PublicKeyTypes) -> str:
    """The name of a CA key's type; raises ValueError for one that cannot be a CA key here."""
    match key:
        case ec.EllipticCurvePublicKey(curve=ec.SECP256R1() | ec.SECP384R1()):
            return "ec:P-256" if key.key_size == 256 else "ec:P-384"
        case rsa.RSAPublicKey() if key.key_size in {2048, 3072, 4096}:
            return f"rsa:{key.key_size}"
        case _:
            for kind, name in _NAMES.items():
                if isinstance(key, kind):
                    return name
            raise ValueError("the key is of a type that a CA cannot have here")


def signature_hash(key_type: str, hash_alg: HashAlg) -> HashAlg | None:
    """The hash of signatures under ``key_type``: ``hash_alg``, at least the curve's; None where the algorithm has its own."""
    if key_type == "ec:P-384" and hash_alg == "sha256":
        return "sha384"
    return hash_alg if key_type.startswith(("ec:", "rsa:")) else None


def is_deterministic(key_type: str) -> bool:
    """Whether a software key of the type signs the same bytes alike every time: ML-DSA is hedged (FIPS 204 s3.4)."""
    return not key_type.startswith("ml-dsa")
