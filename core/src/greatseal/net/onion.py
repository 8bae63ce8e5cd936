"""Onion addresses of version 3: base32 of the key of the service, a checksum and the version (Tor's rend-spec-v3, section 6)."""

import re
from base64 import b32decode
from hashlib import sha3_256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from greatseal.jose.acceptance import accept_public_key

VERSION = b"\x03"
_LABEL = re.compile(r"[a-z2-7]{56}", re.ASCII)

__all__ = ["checksum_of", "is_onion", "onion_key", "service_of"]


def is_onion(name: str) -> bool:
    """Whether the name is under ``.onion``."""
    return name.endswith(".onion")


def service_of(name: str) -> str:
    """The address of the onion service that ``name`` is or is below of: its last two labels."""
    return ".".join(name.rsplit(".", 2)[-2:])


def onion_key(name: str, *, verify_checksum: bool) -> Ed25519PublicKey:
    """The key of the onion service that ``name``, in canonical form, is or is below of. Raises ValueError that says what is wrong."""
    label = service_of(name).removesuffix(".onion")
    if not is_onion(name) or not _LABEL.fullmatch(label):
        raise ValueError("it is no onion address of version 3, which has 56 characters of a to z and 2 to 7 before .onion")
    decoded = b32decode(label.upper())
    raw, checksum, version = decoded[:32], decoded[32:34], decoded[34:]
    if version != VERSION:
        raise ValueError(f"it is an onion address of version {version[0]}; expected 3")
    if verify_checksum and checksum != checksum_of(raw):
        raise ValueError(f"the checksum of the onion address is {checksum.hex()}; that of its key is {checksum_of(raw).hex()}")
    key = Ed25519PublicKey.from_public_bytes(raw)
    accept_public_key(key)
    return key


def checksum_of(raw: bytes) -> bytes:
    """Of the address of a key."""
    return sha3_256(b".onion checksum" + raw + VERSION).digest()[:2]
