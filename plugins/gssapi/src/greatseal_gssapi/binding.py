"""Channel bindings of the listener's certificate: ``tls-server-end-point`` (RFC 5929 s4)."""

import hashlib
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

PREFIX = b"tls-server-end-point:"
_WEAK = frozenset({"md5", "sha1"})


@lru_cache(16)
def end_point(der: bytes) -> bytes | None:
    """What a client of that TLS server binds its token to; None where the RFC defines nothing (Ed25519, ML-DSA)."""
    try:
        algorithm = x509.load_der_x509_certificate(der).signature_hash_algorithm
    except (UnsupportedAlgorithm, ValueError):
        return None
    if algorithm is None:
        return None
    name = "sha256" if algorithm.name in _WEAK else algorithm.name
    return PREFIX + hashlib.new(name, der).digest()
