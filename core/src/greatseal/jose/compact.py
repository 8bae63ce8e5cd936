"""JWS on hot paths: strict reading of the flattened and the compact form, writing of the compact one (RFC 7515).

Stricter than the RFC, on purpose: base64url only in its canonical form, no unprotected header, no ``crit``, no ``b64``, no duplicate
members. Everything else of JOSE is for jwcrypto.
"""

import binascii
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import orjson

from greatseal.jose.algorithms import ALGORITHMS, Algorithm, BadJws, BadSignature, KeyMismatch, PublicKey, UnknownAlgorithm, fits, verify
from greatseal.jose.strict import decode_object

__all__ = [
    "ALGORITHMS", "Algorithm", "BadJws", "BadSignature", "KeyMismatch", "PublicKey", "UnknownAlgorithm", "b64url_decode", "b64url_encode",
    "fits", "parse_compact", "parse_flattened", "read_flattened", "sign_compact", "verify",
]  # fmt: skip

_HEADER_DEPTH = 8
_TO_URL, _FROM_URL = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")
_MEMBERS = frozenset({"protected", "payload", "signature"})


class Jws(msgspec.Struct, frozen=True, kw_only=True):
    """A JWS that was read, not verified. ``header`` is the protected header and has a string ``alg``."""

    header: Mapping[str, Any]
    payload: bytes
    signature: bytes
    protected_b64: str
    payload_b64: str

    @property
    def alg(self) -> str:
        alg: str = self.header["alg"]
        return alg

    @property
    def signing_input(self) -> bytes:
        """What is signed (RFC 7515 s5.1)."""
        return f"{self.protected_b64}.{self.payload_b64}".encode()

    def verify(self, key: PublicKey, alg: str | None = None) -> None:
        """Return when the signature is by ``key``. ``alg`` is the one known of the key, where it is. Raises :class:`BadJws`."""
        if alg is not None and self.alg != alg:
            raise KeyMismatch(f"alg is not {alg}, the algorithm of this key")
        verify(self.alg, key, self.signing_input, self.signature)


def b64url_encode(value: bytes) -> str:
    """base64url without padding (RFC 7515 s2)."""
    return binascii.b2a_base64(value, newline=False).translate(_TO_URL, b"=").decode()


def b64url_decode(text: str) -> bytes:
    """The bytes of a base64url text without padding; raises ValueError for every text that is not the canonical one of its bytes."""
    try:
        value = binascii.a2b_base64(text.encode("ascii").translate(_FROM_URL) + b"=" * (-len(text) % 4))
    except ValueError:
        raise ValueError("not base64url") from None
    # The decoder skips foreign characters and ignores the spare bits of the last one; encoding again shows both.
    if b64url_encode(value) != text:
        raise ValueError("not canonical base64url without padding")
    return value


def parse_flattened(body: bytes) -> Jws:
    """Read a flattened JWS (RFC 7515 s7.2.2) of exactly protected, payload and signature; raises :class:`BadJws`."""
    try:
        members = decode_object(body, max_depth=_HEADER_DEPTH)
    except ValueError as error:
        raise BadJws(f"the body is no flattened JWS: {error}") from None
    return read_flattened(members)


def read_flattened(members: Mapping[str, object]) -> Jws:
    """As :func:`parse_flattened`, from JSON that was decoded strictly."""
    if members.keys() != _MEMBERS:
        extra = "no other members than protected, payload and signature are read (RFC 8555 s6.2)"
        absent = sorted(_MEMBERS - members.keys())
        raise BadJws(f"the JWS has no {absent[0]}" if absent else extra)
    for name, value in members.items():
        if not isinstance(value, str):
            raise BadJws(f"{name} is not a string")
    return _read(*(str(members[name]) for name in ("protected", "payload", "signature")))


def parse_compact(token: str) -> Jws:
    """Read a compact JWS (RFC 7515 s7.1); raises :class:`BadJws`. The length of the token is the caller's to limit."""
    parts = token.split(".")
    if len(parts) != 3:
        raise BadJws("not the three parts of a compact JWS")
    return _read(*parts)


def sign_compact(header: Mapping[str, Any], payload: bytes, sign: Callable[[bytes], bytes]) -> str:
    """A compact JWS. ``header`` has ``alg``; ``sign`` makes the signature of a key that fits it."""
    signing_input = f"{b64url_encode(orjson.dumps(header))}.{b64url_encode(payload)}"
    return f"{signing_input}.{b64url_encode(sign(signing_input.encode()))}"


def _read(protected: str, payload: str, signature: str) -> Jws:
    try:
        header = decode_object(b64url_decode(protected), max_depth=_HEADER_DEPTH)
    except ValueError as error:
        raise BadJws(f"the protected header is {error}") from None
    if "crit" in header or "b64" in header:
        raise BadJws("the protected header has crit or b64; no extension is supported")
    if not isinstance(header.get("alg"), str):
        raise BadJws("the protected header has no alg")
    return Jws(
        header=header,
        payload=_decoded("payload", payload),
        signature=_decoded("signature", signature),
        protected_b64=protected,
        payload_b64=payload,
    )


def _decoded(name: str, text: str) -> bytes:
    try:
        return b64url_decode(text)
    except ValueError as error:
        raise BadJws(f"the {name} is {error}") from None
