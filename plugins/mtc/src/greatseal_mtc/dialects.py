"""The revisions of the draft that a log can speak. They differ in bytes of every entry, so a log keeps the one that it was made with."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from greatseal import der
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.hashes import HASHES, SHA256, Hash

__all__ = ["DIALECTS", "PLANTS_05", "PLANTS_07", "Dialect"]

UTF8_STRING = 0x0C
SET = 0x31


@dataclass(frozen=True)
class Dialect:
    """One revision, by its ``name`` in the configuration."""

    name: str
    proof_oid: str
    """The algorithm of a certificate whose signature is an MTCProof."""
    issuer_oid: str
    """The attribute of an issuer's name that holds the ID of the CA: as text, or in a dialect ``of_oids`` as RELATIVE-OID."""
    authority_oid: str
    """The extension of the certificate of a CA. Where the dialect has one hash alone, its name stands for the hash too."""
    length_of_signatures: int
    """Bytes of the length that stands before the signatures of an MTCProof."""
    hashes: frozenset[str] = frozenset(HASHES)
    """The names of the hash functions that its logs may have."""
    of_oids: bool = False
    dated_landmarks: bool = False
    """Whether the list of landmarks says when each expires, and not how many are active."""

    @property
    def algorithm(self) -> bytes:
        """The AlgorithmIdentifier of an MTCProof, without parameters."""
        return _algorithm(self.proof_oid)

    def issuer(self, ca: TrustAnchorId) -> bytes:
        """The name that the CA has as issuer, and as subject of its own certificate (s5.2)."""
        return _issuer(self.issuer_oid, ca, of_oid=self.of_oids)

    def authority(self, hash: Hash, signature_algorithm: bytes, serials: tuple[int, int]) -> bytes:
        """The content of the extension MTCCertificationAuthority (s5.5): ``serials`` are the smallest and the largest one."""
        named = [] if len(self.hashes) == 1 else [hash.algorithm]
        return der.sequence(*named, signature_algorithm, *map(der.integer, serials))


@lru_cache(16)
def _algorithm(oid: str) -> bytes:
    return der.sequence(der.object_identifier(oid))


@lru_cache(256)
def _issuer(oid: str, ca: TrustAnchorId, *, of_oid: bool) -> bytes:
    value = ca.der if of_oid else der.element(UTF8_STRING, ca.ascii.encode())
    return der.sequence(der.element(SET, der.sequence(der.object_identifier(oid), value)))


PLANTS_05 = Dialect(
    name="plants-05",
    proof_oid="1.3.6.1.4.1.44363.47.0",
    issuer_oid="1.3.6.1.4.1.44363.47.1",
    authority_oid="1.3.6.1.4.1.44363.47.2",
    length_of_signatures=2,
)
"""draft-ietf-plants-merkle-tree-certs-05."""

PLANTS_07 = Dialect(
    name="plants-07",
    proof_oid="1.3.6.1.5.5.7.6.67",
    issuer_oid="1.3.6.1.5.5.7.25.3",
    authority_oid="1.3.6.1.5.5.7.1.38",
    length_of_signatures=3,
    hashes=frozenset({SHA256.name}),
    of_oids=True,
    dated_landmarks=True,
)
"""draft-ietf-plants-merkle-tree-certs-07, with the numbers that IANA has assigned."""

DIALECTS: Mapping[str, Dialect] = MappingProxyType({one.name: one for one in (PLANTS_05, PLANTS_07)})
"""By the name in the configuration."""
