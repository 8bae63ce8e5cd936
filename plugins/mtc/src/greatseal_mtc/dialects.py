"""The revisions of the draft that a log can speak. They differ in bytes of every entry, so a log keeps the one that it was made with."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from greatseal import der
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.hashes import Hash

__all__ = ["DIALECTS", "PLANTS_05", "Dialect"]

UTF8_STRING = 0x0C
SET = 0x31


@dataclass(frozen=True)
class Dialect:
    """One revision, by its ``name`` in the configuration."""

    name: str
    proof_oid: str
    """The algorithm of a certificate whose signature is an MTCProof."""
    issuer_oid: str
    """The attribute of an issuer's name that holds the ID of the CA."""
    authority_oid: str
    """The extension of the certificate of a CA."""
    length_of_signatures: int
    """Bytes of the length that stands before the signatures of an MTCProof."""

    @property
    def algorithm(self) -> bytes:
        """The AlgorithmIdentifier of an MTCProof, without parameters."""
        return _algorithm(self.proof_oid)

    def issuer(self, ca: TrustAnchorId) -> bytes:
        """The name that the CA has as issuer, and as subject of its own certificate (s5.2)."""
        return _issuer(self.issuer_oid, ca)

    def authority(self, hash: Hash, signature_algorithm: bytes, serials: tuple[int, int]) -> bytes:
        """The content of the extension MTCCertificationAuthority (s5.5): ``serials`` are the smallest and the largest one."""
        return der.sequence(hash.algorithm, signature_algorithm, *map(der.integer, serials))


@lru_cache(16)
def _algorithm(oid: str) -> bytes:
    return der.sequence(der.object_identifier(oid))


@lru_cache(256)
def _issuer(oid: str, ca: TrustAnchorId) -> bytes:
    attribute = der.sequence(der.object_identifier(oid), der.element(UTF8_STRING, ca.ascii.encode()))
    return der.sequence(der.element(SET, attribute))


PLANTS_05 = Dialect(
    name="plants-05",
    proof_oid="1.3.6.1.4.1.44363.47.0",
    issuer_oid="1.3.6.1.4.1.44363.47.1",
    authority_oid="1.3.6.1.4.1.44363.47.2",
    length_of_signatures=2,
)
"""draft-ietf-plants-merkle-tree-certs-05."""

DIALECTS: Mapping[str, Dialect] = MappingProxyType({PLANTS_05.name: PLANTS_05})
"""By the name in the configuration."""
