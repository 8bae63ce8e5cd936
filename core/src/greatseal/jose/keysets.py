"""JWK Sets of others (RFC 7517 s5): the keys that may have made their signatures."""

import base64
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from greatseal.jose.algorithms import is_allowed
from greatseal.jose.compact import BadJws, Jws, PublicKey, b64url_encode, fits
from greatseal.jose.jwk import public_key, public_members

MOST_KEYS = 100
MOST_TRIED = 8
"""Keys with which one signature is checked."""


class VerificationKey(msgspec.Struct, frozen=True):
    """A public key of a set, with the names that a header may call it by, and the one ``alg`` that it is for where the set says so."""

    key: PublicKey
    kid: str | None
    alg: str | None
    thumbprints: frozenset[str]

    def fits(self, alg: str) -> bool:
        """Whether the key may make signatures by ``alg``."""
        return fits(alg, self.key) and is_allowed(alg, self.key, None if self.alg is None else (self.alg,))

    def signed(self, jws: Jws) -> bool:
        """Whether this key made the signature."""
        if not self.fits(jws.alg):
            return False
        try:
            jws.verify(self.key)
        except BadJws:
            return False
        return True


def read_key_set(jwks: Mapping[str, Any]) -> tuple[VerificationKey, ...]:
    """The usable signature keys of a JWK Set; others are passed over. Raises ValueError when it is none, or has private or no keys."""
    listed = jwks.get("keys")
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise ValueError(f"expected a JWK Set with at most {MOST_KEYS} keys")
    found: list[VerificationKey] = []
    reasons: list[str] = []
    for jwk in listed:
        if not isinstance(jwk, Mapping) or jwk.get("use", "sig") != "sig":
            continue
        if "d" in jwk or jwk.get("kty") == "oct":
            raise ValueError("a JWK Set for others holds public keys alone")
        try:
            found.append(VerificationKey(public_key(jwk), _text(jwk, "kid"), _text(jwk, "alg"), _thumbprints(jwk)))
        except ValueError as error:
            reasons.append(f": {error}")
    if not found:
        raise ValueError(f"the JWK Set has no key that can be used{''.join(reasons[:1])}")
    return tuple(found)


def encryption_key(jwks: Mapping[str, Any], alg: str) -> Mapping[str, Any] | None:
    """The first JWK of a set to which a JWE of that ``alg`` may be encrypted (RFC 7518 s4), ECDH with EC keys alone; None for none."""
    kty, listed = "RSA" if alg.startswith("RSA") else "EC", jwks.get("keys")
    for jwk in listed if isinstance(listed, list) else ():
        if not isinstance(jwk, Mapping) or jwk.get("kty") != kty or jwk.get("use", "enc") != "enc" or jwk.get("alg", alg) != alg:
            continue
        try:
            public_key(public_members(jwk))
        except ValueError:
            continue
        return jwk
    return None


def encrypts_alone(jwks: Mapping[str, Any]) -> bool:
    """Whether a set has keys, and each is said to be for encryption (RFC 7517 s4.2)."""
    listed = jwks.get("keys")
    return isinstance(listed, list) and bool(listed) and all(isinstance(jwk, Mapping) and jwk.get("use") == "enc" for jwk in listed)


def named(keys: Sequence[VerificationKey], header: Mapping[str, Any]) -> list[VerificationKey]:
    """The keys that may have made a signature with that header: by ``kid``, else by ``x5t#S256``, else all that fit ``alg``.

    The first eight alone: whoever wrote the set may name a hundred alike, and anybody may then have all of them tried.
    """
    alg = header.get("alg")
    fitting = [key for key in keys if not isinstance(alg, str) or key.fits(alg)]
    if (kid := header.get("kid")) is not None:
        return [key for key in fitting if key.kid == kid][:MOST_TRIED]
    thumbprint = header.get("x5t#S256")
    known = [key for key in fitting if isinstance(thumbprint, str) and thumbprint in key.thumbprints]
    return (known or fitting)[:MOST_TRIED]


def _text(jwk: Mapping[str, Any], name: str) -> str | None:
    value = jwk.get(name)
    return value if isinstance(value, str) else None


def _thumbprints(jwk: Mapping[str, Any]) -> frozenset[str]:
    """``x5t#S256`` of the key's certificate, as the set says it or as ``x5c`` gives it."""
    found = {jwk["x5t#S256"]} if isinstance(jwk.get("x5t#S256"), str) else set()
    chain = jwk.get("x5c")
    if isinstance(chain, list) and chain and isinstance(chain[0], str):
        found.add(b64url_encode(sha256(base64.b64decode(chain[0], validate=True)).digest()))
    return frozenset(found)
