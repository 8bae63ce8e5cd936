"""JWE in the compact form, opened with a key of ours (RFC 7516, RFC 7518 s4 and s5).

Strict, as :mod:`greatseal.jose.compact`: no ``zip``, which lets a few bytes become as many as the sender likes (RFC 8725 s3.6), no
``crit``, and of the algorithms none that tells an attacker whether a padding was right (RSA1_5, RFC 8725 s3.2) and none with a secret.
"""

import hmac
from collections.abc import Awaitable, Mapping
from typing import Any, Literal, Protocol

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, padding
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.concatkdf import ConcatKDFHash
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap

from greatseal.jose.compact import b64url_decode
from greatseal.jose.jwk import public_key
from greatseal.jose.strict import decode_object

__all__ = ["AGREEMENTS", "ENCRYPTIONS", "TRANSPORTS", "UNOPENED", "BadJwe", "Jwe", "Opening", "parse_jwe"]

TRANSPORTS: Mapping[str, Literal["sha1", "sha256"]] = {"RSA-OAEP": "sha1", "RSA-OAEP-256": "sha256"}
"""RSAES-OAEP (RFC 7518 s4.3), with the hash of each."""
AGREEMENTS: Mapping[str, int | None] = {"ECDH-ES": None, "ECDH-ES+A128KW": 128, "ECDH-ES+A256KW": 256}
"""ECDH-ES (RFC 7518 s4.6), with the bits of the key that wraps; None where what is agreed is the key itself."""
ENCRYPTIONS: Mapping[str, int] = {"A128CBC-HS256": 256, "A256CBC-HS512": 512, "A128GCM": 128, "A256GCM": 256}
"""With the bits of the key (RFC 7518 s5)."""
LONGEST = 65_536
"""Characters of a JWE that is looked at."""
_PARTY = 512
_MACS: Mapping[str, tuple[str, int]] = {"A128CBC-HS256": ("sha256", 16), "A256CBC-HS512": ("sha512", 32)}
_IVS = {"A128GCM": 12, "A256GCM": 12, "A128CBC-HS256": 16, "A256CBC-HS512": 16}
UNOPENED = "it cannot be decrypted with our key"
"""One sentence for whatever is wrong with the ciphertext: which it was is no business of who sent it."""


class BadJwe(ValueError):
    """A JWE that is not accepted; the text says why and is fit for the client."""


class Opening(Protocol):
    """What a private key does for others' JWEs: :class:`greatseal.api.keys.Decrypter`."""

    def agree(self, public: ec.EllipticCurvePublicKey) -> Awaitable[bytes]:
        """The shared secret of ECDH."""

    def decrypt(self, ciphertext: bytes, *, hash_alg: Literal["sha1", "sha256"]) -> Awaitable[bytes]:
        """What RSAES-OAEP encrypted."""


class Jwe(msgspec.Struct, frozen=True, kw_only=True):
    """A JWE that was read, not opened. ``alg`` and ``enc`` are among those above."""

    header: Mapping[str, Any]
    alg: str
    enc: str
    encrypted_key: bytes
    iv: bytes
    ciphertext: bytes
    tag: bytes
    protected_b64: str

    async def open(self, key: Opening) -> bytes:
        """The plaintext. Raises :class:`BadJwe`; Unavailable where the key rests elsewhere."""
        try:
            return self._plaintext(await self._content_key(key))
        except (ValueError, InvalidTag, InvalidUnwrap):
            raise BadJwe(UNOPENED) from None

    async def _content_key(self, key: Opening) -> bytes:
        if self.alg in TRANSPORTS:
            return await key.decrypt(self.encrypted_key, hash_alg=TRANSPORTS[self.alg])
        wrapping = AGREEMENTS[self.alg]
        secret = await key.agree(_ephemeral(self.header))
        agreed = _derived(secret, self.header, self.enc if wrapping is None else self.alg, wrapping or ENCRYPTIONS[self.enc])
        if wrapping is not None:
            return aes_key_unwrap(agreed, self.encrypted_key)
        if self.encrypted_key:
            raise ValueError("the key is agreed, and another is there")
        return agreed

    def _plaintext(self, key: bytes) -> bytes:
        if 8 * len(key) != ENCRYPTIONS[self.enc] or len(self.iv) != _IVS[self.enc]:
            raise ValueError("key or IV of another length")
        aad = self.protected_b64.encode()
        if self.enc in _MACS:
            return self._cbc(key, aad)
        if len(self.tag) != 16:
            raise ValueError("a tag of another length")
        return AESGCM(key).decrypt(self.iv, self.ciphertext + self.tag, aad)

    def _cbc(self, key: bytes, aad: bytes) -> bytes:
        """RFC 7518 s5.2.2.2: the tag first, then the padding, so that no padding is ever told of."""
        digest, size = _MACS[self.enc]
        signed = aad + self.iv + self.ciphertext + (8 * len(aad)).to_bytes(8)
        if not hmac.compare_digest(hmac.digest(key[:size], signed, digest)[:size], self.tag):
            raise InvalidTag
        opened = Cipher(algorithms.AES(key[size:]), modes.CBC(self.iv)).decryptor()
        unpadder = padding.PKCS7(128).unpadder()
        return unpadder.update(opened.update(self.ciphertext) + opened.finalize()) + unpadder.finalize()


def parse_jwe(text: str) -> Jwe:
    """Read a compact JWE (RFC 7516 s7.1); raises :class:`BadJwe`."""
    parts = text.split(".")
    if len(parts) != 5 or len(text) > LONGEST:
        raise BadJwe(f"not the five parts of a compact JWE, or more than {LONGEST} characters")
    try:
        header = decode_object(b64url_decode(parts[0]), max_depth=8)
        key, iv, ciphertext, tag = map(b64url_decode, parts[1:])
    except ValueError as error:
        raise BadJwe(f"a part of the JWE is {error}") from None
    if "zip" in header or "crit" in header:
        raise BadJwe("the header of the JWE has zip or crit; neither is supported")
    alg, enc = header.get("alg"), header.get("enc")
    if not isinstance(alg, str) or alg not in {*TRANSPORTS, *AGREEMENTS}:
        raise BadJwe(f"alg of the JWE is none of {', '.join((*TRANSPORTS, *AGREEMENTS))}")
    if not isinstance(enc, str) or enc not in ENCRYPTIONS:
        raise BadJwe(f"enc of the JWE is none of {', '.join(ENCRYPTIONS)}")
    return Jwe(header=header, alg=alg, enc=enc, encrypted_key=key, iv=iv, ciphertext=ciphertext, tag=tag, protected_b64=parts[0])


def _ephemeral(header: Mapping[str, Any]) -> ec.EllipticCurvePublicKey:
    """The sender's key, which is on its curve (RFC 7518 s4.6.1.1; RFC 8725 s3.4)."""
    epk = header.get("epk")
    key = public_key(epk) if isinstance(epk, dict) else None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError("epk is no EC key")  # noqa: TRY004  # what was sent is wrong
    return key


def _derived(secret: bytes, header: Mapping[str, Any], algorithm: str, bits: int) -> bytes:
    """RFC 7518 s4.6.2."""
    parties = [b64url_decode(header.get(name, "")) if isinstance(header.get(name, ""), str) else None for name in ("apu", "apv")]
    if any(party is None or len(party) > _PARTY for party in parties):
        raise ValueError("apu or apv is no short base64url")
    told = b"".join(len(part).to_bytes(4) + part for part in (algorithm.encode(), *(party or b"" for party in parties)))
    return ConcatKDFHash(hashes.SHA256(), bits // 8, told + bits.to_bytes(4)).derive(secret)
