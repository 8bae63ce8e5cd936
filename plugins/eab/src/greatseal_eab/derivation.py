"""Credentials of a principal, derived from one secret (RFC 5869): the same secret and principal always give the same pair."""

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from greatseal.jose.compact import b64url_encode

KID_LABEL, KEY_LABEL = "service-eab-v1-kid:", "service-eab-v1-key:"
KID_BYTES, KEY_BYTES = 16, 32


class Credentials(msgspec.Struct, frozen=True):
    """What a client needs to bind an account: base64url without padding, 22 and 43 characters."""

    kid: str
    hmac_key: str


def derive(secret: bytes, principal: str) -> Credentials:
    """The credentials of ``principal``, whose text includes its realm. HKDF-SHA-256 without salt; ``secret`` has 32 bytes or more."""
    return Credentials(_expand(secret, f"{KID_LABEL}{principal}", KID_BYTES), _expand(secret, f"{KEY_LABEL}{principal}", KEY_BYTES))


def _expand(secret: bytes, info: str, length: int) -> str:
    return b64url_encode(HKDF(SHA256(), length, None, info.encode()).derive(secret))
