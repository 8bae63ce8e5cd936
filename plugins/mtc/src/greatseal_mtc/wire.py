"""The bytes of log entries, proofs and certificates (draft-ietf-plants-merkle-tree-certs-05 s5.2.1, s5.3.1, s6)."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from greatseal import der
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.dialects import Dialect
from greatseal_mtc.hashes import Hash
from greatseal_mtc.merkle import MAX_SIZE
from greatseal_mtc.tiles import MAX_ENTRY, frame

__all__ = [
    "NO_EXTENSIONS", "NULL_ENTRY", "Certificate", "Place", "Proof", "Signature", "bundle_of", "certificate_of", "cosigned_message",
    "entry_of_tbs", "parse_bundle", "parse_certificate", "parse_proof", "parse_tbs", "place_of", "prefixed", "serial_of", "take",
]  # fmt: skip

NO_EXTENSIONS = b"\x00\x00"
NULL_ENTRY = NO_EXTENSIONS + b"\x00\x00"
"""The entry that stands for no certificate; it is the first of every log."""
TBS_CERT_ENTRY = b"\x00\x01"
"""The type of an entry that is a certificate."""
MAX_LOG_NUMBER = 0xFFFF
MAX_ORIGIN = 0xFF
_INDEX_BITS = 48
_INTEGER, _SEQUENCE = 0x02, 0x30


class Signature(msgspec.Struct, frozen=True):
    """An MTCSignature: a cosigner's over a subtree."""

    cosigner: TrustAnchorId
    signature: bytes


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """An MTCProof: the subtree ``[start, end)``, the inclusion proof of the entry in it, and what cosigners signed of it."""

    start: int
    end: int
    path: tuple[bytes, ...]
    signatures: tuple[Signature, ...] = ()
    extensions: bytes = NO_EXTENSIONS
    """The encoded list of extensions of the entry."""

    def encode(self, dialect: Dialect) -> bytes:
        """The content of signatureValue. The signatures are put into their order. Raises ValueError for more than there is room for."""
        signatures = sorted(self.signatures, key=_order)
        _refuse_twins(signatures)
        encoded = b"".join(prefixed(1, one.cosigner.binary) + prefixed(2, one.signature) for one in signatures)
        subtree = self.start.to_bytes(6) + self.end.to_bytes(6)
        return b"".join((self.extensions, subtree, prefixed(2, b"".join(self.path)), prefixed(dialect.length_of_signatures, encoded)))


class Place(msgspec.Struct, frozen=True):
    """What a TBSCertificate says of its entry: the DER name of its CA, and the serial number, which is the log number and the index."""

    issuer: bytes
    serial: int
    log_number: int
    index: int


class Certificate(msgspec.Struct, frozen=True):
    """A certificate whose signature is an MTCProof."""

    tbs: bytes
    place: Place
    proof: Proof


def serial_of(log_number: int, index: int) -> int:
    """The serial number of the certificate of an entry."""
    if not 1 <= log_number <= MAX_LOG_NUMBER or not 0 <= index < MAX_SIZE:
        raise ValueError(f"log {log_number} has no entry {index}")
    return log_number << _INDEX_BITS | index


def place_of(serial: int) -> tuple[int, int]:
    """The log number and the index that a serial number says. Raises ValueError where it is none of a log."""
    log_number, index = serial >> _INDEX_BITS, serial & MAX_SIZE - 1
    if not 1 <= log_number <= MAX_LOG_NUMBER:
        raise ValueError("the serial number is none of a log")
    return log_number, index


def entry_of_tbs(dialect: Dialect, ca: TrustAnchorId, hash: Hash, tbs: bytes, extensions: bytes = NO_EXTENSIONS) -> bytes:
    """The log entry of a DER TBSCertificate, whoever is its issuer: serial and algorithm go, and the key is hashed.

    Raises ValueError for what is no TBSCertificate, or would be more than :data:`greatseal_mtc.tiles.MAX_ENTRY` bytes.
    """
    start, serial, _, validity, key, rest, end = _fields(tbs)
    algorithm = _content(tbs, key)
    contents = (
        extensions, TBS_CERT_ENTRY, tbs[start:serial], dialect.issuer(ca), tbs[validity:key],
        tbs[algorithm : _end(tbs, algorithm, rest, _SEQUENCE)], b"\x04", hash.size.to_bytes(1), hash.digest(tbs[key:rest]), tbs[rest:end],
    )  # fmt: skip
    entry = b"".join(contents)
    if len(entry) > MAX_ENTRY:
        raise ValueError(f"the log entry of the certificate would have {len(entry)} bytes; a log takes {MAX_ENTRY} at most")
    return entry


def certificate_of(dialect: Dialect, ca: TrustAnchorId, tbs: bytes, serial: int, proof: Proof) -> bytes:
    """The DER certificate of a logged TBSCertificate: standalone with signatures in the proof, landmark-relative without."""
    start, old, _, validity, _, _, end = _fields(tbs)
    fields = (tbs[start:old], der.integer(serial), dialect.algorithm, dialect.issuer(ca), tbs[validity:end])
    return der.signed(der.sequence(*fields), dialect.algorithm, proof.encode(dialect))


def parse_tbs(dialect: Dialect, tbs: bytes) -> Place:
    """The place of the entry of a DER TBSCertificate as it stands in a certificate of a log. Raises ValueError."""
    _, serial, issuer, validity, _, _, _ = _fields(tbs)
    inner = _end(tbs, serial, len(tbs), _INTEGER)
    if tbs[inner:issuer] != dialect.algorithm:
        raise ValueError(f"the certificate is not one of {dialect.name}")
    number = int.from_bytes(der.content(tbs[serial:inner]))
    if tbs[serial:inner] != der.integer(number):
        raise ValueError("the serial number is negative, or not DER")
    return Place(tbs[issuer:validity], number, *place_of(number))


def parse_certificate(dialect: Dialect, hash: Hash, certificate: bytes) -> Certificate:
    """A DER certificate whose signature is an MTCProof. Raises ValueError."""
    tbs, algorithm, value = _three(der.children(certificate))
    place = parse_tbs(dialect, tbs)
    signature = der.content(value)
    if algorithm != dialect.algorithm:
        raise ValueError(f"the certificate is not signed by an MTCProof of {dialect.name}")
    if der.signed(tbs, algorithm, signature[1:]) != certificate:
        raise ValueError("the certificate is not DER, or its signature has unused bits")
    return Certificate(tbs, place, parse_proof(dialect, hash, signature[1:]))


def parse_proof(dialect: Dialect, hash: Hash, data: bytes) -> Proof:
    """An MTCProof, with nothing after it. Raises ValueError."""
    extensions, at = take(data, 0, 2)
    _check_extensions(extensions)
    start, end = int.from_bytes(data[at : at + 6]), int.from_bytes(data[at + 6 : at + 12])
    path, at = take(data, at + 12, 2)
    encoded, at = take(data, at, dialect.length_of_signatures)
    if at != len(data):
        raise ValueError("bytes follow the proof")
    if len(path) % hash.size:
        raise ValueError(f"the inclusion proof is not of hashes of {hash.size} bytes")
    signatures, at = [], 0
    while at < len(encoded):
        cosigner, at = take(encoded, at, 1)
        signature, at = take(encoded, at, 2)
        signatures.append(Signature(TrustAnchorId.from_binary(cosigner), signature))
    if any(_order(one) > _order(other) for one, other in pairwise(signatures)):
        raise ValueError("the signatures of the proof are not in their order")
    _refuse_twins(signatures)
    hashes = tuple(path[at : at + hash.size] for at in range(0, len(path), hash.size))
    return Proof(start=start, end=end, path=hashes, signatures=tuple(signatures), extensions=data[: 2 + len(extensions)])


def cosigned_message(cosigner: str, origin: str, start: int, end: int, root: bytes, *, time: int = 0) -> bytes:
    """What a cosigner signs of a subtree (s5.3.1). ``time`` is in seconds, and 0 in certificates.

    ``cosigner`` and ``origin`` are the names of :attr:`greatseal_mtc.anchors.TrustAnchorId.name`, or of a checkpoint.
    """
    names = prefixed(1, cosigner.encode()) + time.to_bytes(8) + prefixed(1, origin.encode())
    return b"".join((b"subtree/v1\n\x00", names, start.to_bytes(8), end.to_bytes(8), root))


def bundle_of(entries: Iterable[bytes]) -> bytes:
    """The bundle of these entries (C2SP tlog-tiles). Raises ValueError for one that is too long."""
    return b"".join(map(frame, entries))


def parse_bundle(data: bytes, count: int) -> list[bytes]:
    """The ``count`` entries of a bundle, with nothing after them. Raises ValueError."""
    entries, at = [], 0
    for _ in range(count):
        entry, at = take(data, at, 2)
        entries.append(entry)
    if at != len(data):
        raise ValueError(f"bytes follow the {count} entries of the bundle")
    return entries


def _fields(tbs: bytes) -> tuple[int, int, int, int, int, int, int]:
    """Where the version, serial, issuer, validity, key and what follows it begin in a TBSCertificate, and where it ends."""
    if tbs[:1] != b"\x30" or _end(tbs, 0, len(tbs)) != len(tbs):
        raise ValueError("not a TBSCertificate")
    stop = len(tbs)
    start = _content(tbs, 0)
    serial = _end(tbs, start, stop) if tbs[start : start + 1] == b"\xa0" else start
    algorithm = _end(tbs, serial, stop, _INTEGER)
    issuer = _end(tbs, algorithm, stop, _SEQUENCE)
    validity = _end(tbs, issuer, stop, _SEQUENCE)
    subject = _end(tbs, validity, stop, _SEQUENCE)
    key = _end(tbs, subject, stop, _SEQUENCE)
    return start, serial, issuer, validity, key, _end(tbs, key, stop, _SEQUENCE), stop


def _content(data: bytes, at: int) -> int:
    """Where the content of the element at ``at`` starts."""
    size = data[at + 1]
    return at + 2 if size < 0x80 else at + 2 + (size & 0x7F)


def _end(data: bytes, at: int, stop: int, tag: int | None = None) -> int:
    """Where the element at ``at`` ends, which is at ``stop`` or before it. Raises ValueError where it is not DER, or of another tag."""
    if at + 2 > stop or (tag is not None and data[at] != tag):
        raise ValueError("not a TBSCertificate: a field is missing, or stands for another one")
    size = data[at + 1]
    end = at + 2 + size
    if size >= 0x80:
        start = at + 2 + (size & 0x7F)
        size = int.from_bytes(data[at + 2 : start])
        if start > stop or not 0x80 <= size < 1 << 32 or not data[at + 2]:
            raise ValueError("not DER: a length is not definite, or not in its shortest form")
        end = start + size
    if end > stop:
        raise ValueError("not DER: a field is cut short")
    return end


def take(data: bytes, at: int, prefix: int) -> tuple[bytes, int]:
    """What stands after a length of ``prefix`` bytes, and where it ends. Raises ValueError where it is cut short."""
    start = at + prefix
    end = start + int.from_bytes(data[at:start])
    if end > len(data):
        raise ValueError("it is cut short")
    return data[start:end], end


def prefixed(prefix: int, content: bytes) -> bytes:
    """Bytes after their length, which has ``prefix`` bytes. Raises ValueError where they are more than it can say."""
    if len(content) >> 8 * prefix:
        raise ValueError(f"{len(content)} bytes, where {(1 << 8 * prefix) - 1} fit")
    return len(content).to_bytes(prefix) + content


def _order(one: Signature) -> tuple[int, bytes]:
    return len(one.cosigner.binary), one.cosigner.binary


def _refuse_twins(signatures: Sequence[Signature]) -> None:
    for one, other in pairwise(signatures):
        if one.cosigner == other.cosigner:
            raise ValueError(f"two signatures of {one.cosigner.ascii}")


def _check_extensions(extensions: bytes) -> None:
    """Ascending types, each once."""
    at, last = 0, -1
    while at < len(extensions):
        kind = int.from_bytes(extensions[at : at + 2])
        if kind <= last:
            raise ValueError("the extensions of the entry are not in their order")
        last = kind
        _, at = take(extensions, at + 2, 2)


def _three(children: list[bytes]) -> list[bytes]:
    if len(children) != 3:
        raise ValueError("a certificate has three parts")
    return children
