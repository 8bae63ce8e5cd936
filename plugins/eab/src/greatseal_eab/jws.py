"""The member externalAccountBinding: a flattened JWS with a MAC (RFC 8555 s7.3.4). Nothing in it was verified by anybody."""

import hmac
from collections.abc import Mapping
from types import MappingProxyType

from greatseal.jose.compact import BadJws, Jws, read_flattened
from greatseal.jose.jwk import public_key, thumbprint_of
from greatseal.jose.strict import decode_object

HASHES: Mapping[str, str] = MappingProxyType({"HS256": "sha256", "HS384": "sha384", "HS512": "sha512"})
"""The MACs that are offered, with their hashes."""


def read_binding(value: object) -> tuple[str, Jws]:
    """The kid and the whole. Raises :class:`BadJws`, worded to follow "externalAccountBinding: "."""
    if not isinstance(value, dict):
        raise BadJws("it is no flattened JWS")
    jws = read_flattened(value)
    kid = jws.header.get("kid")
    if not isinstance(kid, str) or not kid:
        raise BadJws("the protected header has no kid")
    return kid, jws


def is_for_key(jws: Jws, thumbprint: str) -> bool:
    """Whether the payload is the public key of that thumbprint, however its members are ordered (RFC 7638)."""
    try:
        return thumbprint_of(public_key(decode_object(jws.payload))) == thumbprint
    except ValueError:
        return False


def is_by_key(jws: Jws, key: bytes) -> bool:
    """Whether the MAC is by ``key``, compared in constant time. ``alg`` is one of :data:`HASHES`."""
    return hmac.compare_digest(jws.signature, hmac.digest(key, jws.signing_input, HASHES[jws.alg]))
