"""The DER structures of the log's HTTP interface; the draft has none of them.

.. code-block:: text

    LogID ::= SEQUENCE { hashAlgorithm AlgorithmIdentifier, publicKey SubjectPublicKeyInfo }
    Checkpoint ::= SEQUENCE { logID LogID, treeSize INTEGER, treeMinimumIndex [0] IMPLICIT INTEGER OPTIONAL,
                              rootValue OCTET STRING, timestamp GeneralizedTime }
    Subtree ::= SEQUENCE { start INTEGER, end INTEGER, value OCTET STRING }
    SubtreeSignature ::= SEQUENCE { cosigner RELATIVE-OID, subtree Subtree, checkpoint Checkpoint,
                                    signatureAlgorithm AlgorithmIdentifier, signature BIT STRING }
    LandmarkID ::= SEQUENCE { logID LogID, treeSize INTEGER }
    LandmarkCertificate ::= SEQUENCE { tbsCertificate TBSCertificate, leafIndex INTEGER,
                                       inclusionProof SEQUENCE OF OCTET STRING, landmarkID LandmarkID,
                                       signatureAlgorithm AlgorithmIdentifier, signature BIT STRING }

The signature of a SubtreeSignature is over :func:`greatseal_mtc.wire.cosigned_message` with time 0, so that it can go into an MTCProof.
That of a LandmarkCertificate is the CA cosigner's over the message of ``[0, treeSize)``.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec

from greatseal import der
from greatseal.api.moments import SECOND
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.hashes import BY_OID, Hash
from greatseal_mtc.merkle import MAX_SIZE, is_subtree

__all__ = ["MAX_STRUCTURE", "Checkpoint", "LandmarkCertificate", "LandmarkId", "LogId", "SubtreeSignature"]

MAX_STRUCTURE: Final = 1 << 16
"""Bytes of a structure that comes from elsewhere."""

_INTEGER, _BIT_STRING, _OCTETS, _NULL, _OID, _SEQUENCE, _TIME = 0x02, 0x03, 0x04, b"\x05\x00", 0x06, 0x30, 0x18
_MINIMUM = 0x80
_MAX_PROOF = 64


class LogId(msgspec.Struct, frozen=True):
    """Which log: its hash and the DER SubjectPublicKeyInfo of its key."""

    hash: Hash
    public_key: bytes

    @property
    def der(self) -> bytes:
        """The LogID."""
        return der.sequence(self.hash.algorithm, self.public_key)

    @classmethod
    def parse(cls, element: bytes) -> "LogId":
        """A LogID; the hash may have NULL for parameters. Raises ValueError."""
        algorithm, public_key = _elements(element, 2)
        oid, *parameters = _elements(algorithm)
        found = next((one for one in BY_OID.values() if der.object_identifier(one.oid) == oid), None)
        if found is None or parameters not in ([], [_NULL]):
            raise ValueError("the hash algorithm of the log is not known")
        if not _strict(public_key, _SEQUENCE):
            raise ValueError("the key of the log is no SubjectPublicKeyInfo")
        return cls(found, public_key)


class Checkpoint(msgspec.Struct, frozen=True):
    """A tree of a log: how large it is, its root, and when it was so, in microseconds on a whole second."""

    log: LogId
    size: int
    root: bytes
    moment: int

    @property
    def der(self) -> bytes:
        """The Checkpoint."""
        return der.sequence(self.log.der, der.integer(self.size), der.octet_string(self.root), der.generalized_time(self.moment))

    @classmethod
    def parse(cls, element: bytes) -> "Checkpoint":
        """A Checkpoint. Raises ValueError."""
        log, size, *rest = _elements(element)
        if len(rest) == 3 and rest[0][:1] == bytes((_MINIMUM,)):
            _number(rest.pop(0), _MINIMUM)
        root, moment = _exactly(rest, 2)
        found = LogId.parse(log)
        return cls(found, _number(size), _hash(root, found.hash), _moment(moment))


class SubtreeSignature(msgspec.Struct, frozen=True, kw_only=True):
    """What a cosigner answers: its ID, the subtree with its hash, the DER Checkpoint that it was asked for, and its signature."""

    cosigner: TrustAnchorId
    start: int
    end: int
    root: bytes
    checkpoint: bytes
    algorithm: bytes
    signature: bytes

    @property
    def der(self) -> bytes:
        """The SubtreeSignature."""
        subtree = der.sequence(der.integer(self.start), der.integer(self.end), der.octet_string(self.root))
        return der.sequence(self.cosigner.der, subtree, self.checkpoint, self.algorithm, der.bit_string(self.signature))

    @classmethod
    def parse(cls, element: bytes) -> "SubtreeSignature":
        """A SubtreeSignature of at most :data:`MAX_STRUCTURE` bytes. Raises ValueError."""
        if len(element) > MAX_STRUCTURE:
            raise ValueError(f"a SubtreeSignature of more than {MAX_STRUCTURE} bytes")
        cosigner, subtree, checkpoint, algorithm, signature = _elements(element, 5)
        start, end, root = _elements(subtree, 3)
        log = Checkpoint.parse(checkpoint).log
        found = cls(
            cosigner=TrustAnchorId.from_der(cosigner), start=_number(start), end=_number(end), root=_hash(root, log.hash),
            checkpoint=checkpoint, algorithm=_algorithm(algorithm), signature=_bits(signature),
        )  # fmt: skip
        if not is_subtree(found.start, found.end):
            raise ValueError(f"[{found.start}, {found.end}) is no subtree")
        return found


class LandmarkId(msgspec.Struct, frozen=True):
    """Which landmark: its log and the size of the tree that it freezes."""

    log: LogId
    size: int

    @property
    def der(self) -> bytes:
        """The LandmarkID."""
        return der.sequence(self.log.der, der.integer(self.size))

    @classmethod
    def parse(cls, element: bytes) -> "LandmarkId":
        """A LandmarkID. Raises ValueError."""
        log, size = _elements(element, 2)
        return cls(LogId.parse(log), _number(size))


class LandmarkCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate of a landmark: the TBSCertificate of an entry as it stands in its standalone certificate, its index, the proof that it
    is in the frozen tree, the landmark, and the CA's signature over that tree."""

    tbs: bytes
    index: int
    path: tuple[bytes, ...]
    landmark: LandmarkId
    algorithm: bytes
    signature: bytes

    @property
    def der(self) -> bytes:
        """The LandmarkCertificate."""
        path = der.sequence(*map(der.octet_string, self.path))
        return der.sequence(self.tbs, der.integer(self.index), path, self.landmark.der, self.algorithm, der.bit_string(self.signature))

    @classmethod
    def parse(cls, element: bytes) -> "LandmarkCertificate":
        """A LandmarkCertificate. Raises ValueError."""
        if len(element) > 2 * MAX_STRUCTURE:
            raise ValueError(f"a LandmarkCertificate of more than {2 * MAX_STRUCTURE} bytes")
        tbs, index, path, landmark, algorithm, signature = _elements(element, 6)
        of = LandmarkId.parse(landmark)
        hashes = _elements(path)
        if len(hashes) > _MAX_PROOF or not _strict(tbs, _SEQUENCE):
            raise ValueError("not a LandmarkCertificate: its TBSCertificate or its proof is none")
        return cls(
            tbs=tbs, index=_number(index), path=tuple(_hash(one, of.log.hash) for one in hashes), landmark=of,
            algorithm=_algorithm(algorithm), signature=_bits(signature),
        )  # fmt: skip


def _elements(element: bytes, count: int | None = None) -> list[bytes]:
    """What is in a SEQUENCE. Raises ValueError where it is not in its shortest form, or has not so many."""
    if not _strict(element, _SEQUENCE):
        raise ValueError("not a SEQUENCE in DER")
    found = der.children(element)
    if any(one != der.element(one[0], der.content(one)) for one in found):
        raise ValueError("a length is not in its shortest form")
    return found if count is None else _exactly(found, count)


def _exactly(found: list[bytes], count: int) -> list[bytes]:
    if len(found) != count:
        raise ValueError(f"{len(found)} fields of a structure, not {count}")
    return found


def _strict(element: bytes, tag: int) -> bool:
    """Whether it is one element of this tag, in its shortest form."""
    return element[:1] == bytes((tag,)) and element == der.element(tag, der.content(element))


def _number(element: bytes, tag: int = _INTEGER) -> int:
    """A size or index."""
    number = int.from_bytes(der.content(element))
    if number > MAX_SIZE or element != bytes((tag,)) + der.integer(number)[1:]:
        raise ValueError("not an INTEGER from 0 to 2^48")
    return number


def _octets(element: bytes) -> bytes:
    if not _strict(element, _OCTETS):
        raise ValueError("not an OCTET STRING")
    return der.content(element)


def _hash(element: bytes, hash: Hash) -> bytes:
    found = _octets(element)
    if len(found) != hash.size:
        raise ValueError(f"a hash of {len(found)} bytes, not {hash.size}")
    return found


def _bits(element: bytes) -> bytes:
    found = der.content(element)
    if not _strict(element, _BIT_STRING) or found[:1] != b"\x00":
        raise ValueError("not a BIT STRING of whole octets")
    return found[1:]


def _algorithm(element: bytes) -> bytes:
    first = next(iter(_elements(element)), b"")
    if not _strict(first, _OID):
        raise ValueError("not an AlgorithmIdentifier")
    return element


def _moment(element: bytes) -> int:
    text = der.content(element).decode("latin-1")
    try:
        moment = int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()) * SECOND
    except ValueError:
        moment = None
    if moment is None or element != der.generalized_time(moment):
        raise ValueError("not a GeneralizedTime of whole seconds")
    return moment
