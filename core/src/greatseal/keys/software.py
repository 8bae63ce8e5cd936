"""Private keys in this process: the key types, signing in both forms, keys brought as files."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa, padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_pem_private_key,
)

from greatseal.api.keys import HashAlg, KeyInfo
from greatseal.host import Blocking
from greatseal.jose.acceptance import accept_public_key
from greatseal.jose.algorithms import ALGORITHMS, PublicKey
from greatseal.jose.jwk import thumbprint_of
from greatseal.keys.files import KeyFileProblem, read_private

PrivateKey = (
    ec.EllipticCurvePrivateKey
    | rsa.RSAPrivateKey
    | ed25519.Ed25519PrivateKey
    | mldsa.MLDSA44PrivateKey
    | mldsa.MLDSA65PrivateKey
    | mldsa.MLDSA87PrivateKey
)
_PRIVATE = (
    ec.EllipticCurvePrivateKey,
    rsa.RSAPrivateKey,
    ed25519.Ed25519PrivateKey,
    mldsa.MLDSA44PrivateKey,
    mldsa.MLDSA65PrivateKey,
    mldsa.MLDSA87PrivateKey,
)
POOL = "signing"
"""The blocking pool of signatures that take long, or in which the interpreter lock is released for most of the time."""
MAKING = "making keys"
"""That of making keys: an RSA key takes half a second."""


class KeyType(msgspec.Struct, frozen=True):
    """A value of ``KeyInfo.algorithm``. ``jose`` is its ``alg``; ``slow`` tells that it signs in a thread: for 240 us at least."""

    make: Callable[[], PrivateKey]
    jose: str
    slow: bool = False


def _rsa(bits: int) -> KeyType:
    return KeyType(lambda: make_rsa(bits), "RS256", slow=True)


def make_rsa(bits: int) -> rsa.RSAPrivateKey:
    """A new RSA key: 40 ms for 2048 bits, half a second for 4096."""
    return rsa.generate_private_key(65537, bits)


KEY_TYPES: Mapping[str, KeyType] = MappingProxyType(
    {
        "ec:P-256": KeyType(lambda: ec.generate_private_key(ec.SECP256R1()), "ES256"),
        "ec:P-384": KeyType(lambda: ec.generate_private_key(ec.SECP384R1()), "ES384"),
        "ed25519": KeyType(ed25519.Ed25519PrivateKey.generate, "EdDSA"),
        **{f"rsa:{bits}": _rsa(bits) for bits in (2048, 3072, 4096)},
        "ml-dsa-44": KeyType(mldsa.MLDSA44PrivateKey.generate, "ML-DSA-44", slow=True),
        "ml-dsa-65": KeyType(mldsa.MLDSA65PrivateKey.generate, "ML-DSA-65", slow=True),
        "ml-dsa-87": KeyType(mldsa.MLDSA87PrivateKey.generate, "ML-DSA-87", slow=True),
    }
)
"""The key types that can be made, by name."""

_HASHES: Mapping[HashAlg, hashes.HashAlgorithm] = MappingProxyType(
    {"sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha512": hashes.SHA512()}
)


class SoftwareSigner:
    """A :class:`greatseal.api.keys.Signer` whose key is in memory."""

    def __init__(self, key: PrivateKey, info: KeyInfo, blocking: Blocking) -> None:
        self._key = key
        self._blocking = blocking
        self._type = KEY_TYPES[info.algorithm]
        self.info = info
        self.public_key: PublicKey = key.public_key()

    @property
    def deterministic(self) -> bool:
        """True but for ML-DSA, whose signatures are hedged with randomness (FIPS 204 s3.4)."""
        return not self.info.algorithm.startswith("ml-dsa")

    def with_info(self, info: KeyInfo) -> "SoftwareSigner":
        """The same key under a changed record."""
        return SoftwareSigner(self._key, info, self._blocking)

    async def sign(self, message: bytes, *, hash_alg: HashAlg | None = None) -> bytes:
        """See :meth:`greatseal.api.keys.Signer.sign`. EC and Ed25519 sign in line."""
        if self._type.slow:
            return await self._blocking.run(POOL, self._signed, message, hash_alg)
        return self._signed(message, hash_alg)

    async def sign_jose(self, message: bytes) -> bytes:
        """See :meth:`greatseal.api.keys.Signer.sign_jose`. EC and Ed25519 sign in line."""
        if self._type.slow:
            return await self._blocking.run(POOL, ALGORITHMS[self._type.jose].sign, self._key, message)
        return ALGORITHMS[self._type.jose].sign(self._key, message)

    async def agree(self, public: ec.EllipticCurvePublicKey) -> bytes:
        """See :meth:`greatseal.api.keys.Decrypter.agree`. In line: it takes as long as an EC signature."""
        if not isinstance(self._key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"a key of the type {self.info.algorithm} agrees on nothing")  # noqa: TRY004  # the ring has another key
        return self._key.exchange(ec.ECDH(), public)

    async def decrypt(self, ciphertext: bytes, *, hash_alg: Literal["sha1", "sha256"]) -> bytes:
        """See :meth:`greatseal.api.keys.Decrypter.decrypt`."""
        if not isinstance(self._key, rsa.RSAPrivateKey):
            raise ValueError(f"a key of the type {self.info.algorithm} decrypts nothing")  # noqa: TRY004  # the ring has another key
        digest = hashes.SHA256() if hash_alg == "sha256" else hashes.SHA1()  # noqa: S303  # of OAEP, where collisions do not matter
        oaep = padding.OAEP(padding.MGF1(digest), digest, None)
        return await self._blocking.run(POOL, self._key.decrypt, ciphertext, oaep)

    def _signed(self, message: bytes, hash_alg: HashAlg | None) -> bytes:
        match self._key:
            case ec.EllipticCurvePrivateKey():
                digest = _HASHES[hash_alg or ("sha384" if self._key.curve.key_size == 384 else "sha256")]
                return self._key.sign(message, ec.ECDSA(digest, deterministic_signing=True))
            case rsa.RSAPrivateKey():
                return self._key.sign(message, padding.PKCS1v15(), _HASHES[hash_alg or "sha256"])
            case _:
                return self._key.sign(message)


def info_of(key: PrivateKey, *, purpose: str, created_at: int) -> KeyInfo:
    """The record of an active key; its kid is the RFC 7638 thumbprint. Raises ValueError for one that is not offered or not accepted."""
    public = key.public_key()
    algorithm = algorithm_of(public)  # first: it names the key types that are possible
    accept_public_key(public)
    return KeyInfo(
        kid=thumbprint_of(public),
        purpose=purpose,
        algorithm=algorithm,
        state="active",
        created_at=created_at,
        spki=public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    )


def algorithm_of(key: PublicKey) -> str:
    """The key type, a key of :data:`KEY_TYPES`; raises ValueError when it is none of them."""
    if isinstance(key, rsa.RSAPublicKey):
        name = f"rsa:{key.key_size}"
        if name in KEY_TYPES:
            return name
    elif not isinstance(key, ed448.Ed448PublicKey):
        for name, one in KEY_TYPES.items():
            if ALGORITHMS[one.jose].fits(key):
                return name
    raise ValueError(f"the key is none of {', '.join(KEY_TYPES)}")


def private_to_der(key: PrivateKey) -> bytes:
    """PKCS#8, not encrypted: to be sealed at once."""
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def private_from_der(der: bytes) -> PrivateKey:
    """The key of :func:`private_to_der`: ours, so the 32 ms that proving an RSA key takes are spared."""
    key = load_der_private_key(der, None, unsafe_skip_rsa_key_validation=True)
    if isinstance(key, _PRIVATE):
        return key
    raise ValueError("not a private key that signs")


def signer_from_pem(
    data: bytes, *, password: bytes | None = None, purpose: str, created_at: int, blocking: Blocking, kid: str | None = None
) -> SoftwareSigner:
    """A signer of a PEM private key (PKCS#8, PKCS#1 or SEC 1); raises ValueError with the reason. ``kid`` None is its thumbprint."""
    try:
        key = load_pem_private_key(data, password)
    except TypeError:
        wanted = "is encrypted and no password is given" if password is None else "is not encrypted, but a password is given"
        raise ValueError(f"the private key {wanted}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("this is no PEM private key, or the password is wrong") from None
    if not isinstance(key, _PRIVATE):
        raise ValueError(f"the key is none of {', '.join(KEY_TYPES)}")  # noqa: TRY004  the file is wrong, not the program
    info = info_of(key, purpose=purpose, created_at=created_at)
    return SoftwareSigner(key, msgspec.structs.replace(info, kid=kid) if kid else info, blocking)


def signer_from_file(path: Path, *, password: bytes | None = None, purpose: str, blocking: Blocking) -> SoftwareSigner:
    """A signer of a PEM file that only its owner may read; raises KeyFileProblem. ``created_at`` is the file's time of change."""
    try:
        data = read_private(path)
        created_at = path.stat().st_mtime_ns // 1000
        return signer_from_pem(data, password=password, purpose=purpose, created_at=created_at, blocking=blocking)
    except OSError as error:
        raise KeyFileProblem(f"{path}: the key file cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise KeyFileProblem(f"{path}: {error}") from None
