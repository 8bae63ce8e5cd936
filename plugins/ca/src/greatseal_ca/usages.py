"""What a profile certifies keys for: key types, and the key usages that keys of each type can have."""

from collections.abc import Collection, Mapping
from functools import cache
from types import MappingProxyType

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa, rsa

from greatseal.api.acme import BadCsr
from greatseal_ca.settings import FAMILIES, KEY_USAGES, ProfileSettings

_CURVES = {"secp256r1": "ec:P-256", "secp384r1": "ec:P-384", "secp521r1": "ec:P-521"}
_NAMES: Mapping[type, str] = MappingProxyType(
    {
        ed25519.Ed25519PublicKey: "ed25519",
        ed448.Ed448PublicKey: "ed448",
        mldsa.MLDSA44PublicKey: "ml-dsa-44",
        mldsa.MLDSA65PublicKey: "ml-dsa-65",
        mldsa.MLDSA87PublicKey: "ml-dsa-87",
    }
)


def key_type_of(key: object) -> str:
    """The name of an accepted public key's type, such as ``ec:P-256`` or ``rsa:3072``."""
    match key:
        case rsa.RSAPublicKey():
            return f"rsa:{key.key_size}"
        case ec.EllipticCurvePublicKey():
            return _CURVES[key.curve.name]
    return next(name for kind, name in _NAMES.items() if isinstance(key, kind))


def usages_of(key: object, profile_id: str, own: ProfileSettings) -> tuple[str, ...]:
    """The key usages that the profile gives to a key: those of its own that keys of this type can have.

    Raises BadCsr for a key of a type that the profile does not certify, and for one that can have none of the usages.
    """
    key_type = key_type_of(key)
    if not certifies(own.key_types, key_type):
        raise BadCsr(f"the key of the CSR is {key_type}; profile {profile_id} certifies {', '.join(own.key_types)}")
    usages = possible_usages(own.key_usage, key_type)
    if not usages:
        raise BadCsr(
            f"the key of the CSR is {key_type}, which can have none of the key usages of profile {profile_id}: {', '.join(own.key_usage)}"
        )
    return usages


def certifies(key_types: Collection[str], key_type: str) -> bool:
    """Whether a key of that type is among ``key_types``, where ``rsa`` stands for every size and an empty list for every type."""
    return not key_types or key_type in key_types or key_type.partition(":")[0] in key_types


def possible_usages(names: Collection[str], key_type: str) -> tuple[str, ...]:
    """Those of the key usages that a key of that type can have (RFC 3279 s2.3.1, RFC 5480 s3, RFC 9295 s3, RFC 9881 s3)."""
    possible = FAMILIES[key_type.partition(":")[0]]
    return tuple(name for name in names if name in possible)


@cache
def key_usage(names: tuple[str, ...]) -> x509.KeyUsage:
    """The extension of an end entity that allows these and nothing else."""
    given = {attribute: name in names for name, attribute in KEY_USAGES.items()}
    return x509.KeyUsage(**given, key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False)
