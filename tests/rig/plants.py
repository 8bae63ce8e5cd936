"""A log of certificates in a folder, made by the functions of the plugin alone, for readers that we did not write."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa

from greatseal.api.moments import SECOND
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.authorities import Authority
from greatseal_mtc.dialects import PLANTS_05, Dialect
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.merkle import Range, cover, inclusion, root
from greatseal_mtc.note import Checkpoint, Kind, Note, NoteKey, NoteSignature
from greatseal_mtc.tiles import Edge, append
from greatseal_mtc.wire import NULL_ENTRY, Proof, Signature, certificate_of, cosigned_message, entry_of_tbs, serial_of

ORIGIN = "https://ca.example/acme/mtc/tlog"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2030, 1, 1, tzinfo=UTC)

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | mldsa.MLDSA44PrivateKey


def signature(key: PrivateKey, message: bytes, *, of_note: bool = False) -> bytes:
    """In the form of certificates, or of notes."""
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(message, ec.ECDSA(hashes.SHA384() if key.curve.key_size == 384 and not of_note else hashes.SHA256()))
    return key.sign(message)


class Plant:
    """A log of one CA with ``size`` entries: the null entry and certificates of hosts."""

    def __init__(self, size: int, dialect: Dialect = PLANTS_05, key: PrivateKey | None = None, origin: str = ORIGIN) -> None:
        self.dialect, self.origin = dialect, origin
        self.ca = TrustAnchorId("32473.1")
        self.key = key or ed25519.Ed25519PrivateKey.generate()
        self._tbs = _tbs("host00000.example")
        self.entries = [NULL_ENTRY]
        self.entries += [entry_of_tbs(dialect, self.ca, SHA256, self.tbs(index)) for index in range(1, size)]
        self.leaves = [SHA256.leaf(one) for one in self.entries]
        self.edge, self.objects = append(SHA256, Edge(), self.entries)

    @property
    def size(self) -> int:
        """How many entries it has."""
        return self.edge.size

    def tbs(self, index: int) -> bytes:
        """The TBSCertificate of an entry, as an ordinary CA has it."""
        return self._tbs.replace(b"host00000", b"host%05d" % index)

    def hashes(self, ranges: Sequence[Range]) -> tuple[bytes, ...]:
        """The hashes of ranges."""
        return tuple(root(SHA256, self.leaves[slice(*one)]) for one in ranges)

    def checkpoint(self, size: int | None = None) -> Checkpoint:
        """What the log says of itself at a size, that of now when none is named."""
        size = size or self.size
        return Checkpoint(self.origin, size, root(SHA256, self.leaves[:size]))

    def note(self, *keys: tuple[NoteKey, PrivateKey], size: int | None = None, time: int = 1_700_000_000) -> Note:
        """The checkpoint, signed by keys."""
        checkpoint = self.checkpoint(size)
        return Note(checkpoint.text, tuple(_signed(one, private, checkpoint, time) for one, private in keys))

    def operator(self) -> tuple[NoteKey, PrivateKey]:
        """The key of the log operator."""
        kind = Kind.ECDSA if isinstance(self.key, ec.EllipticCurvePrivateKey) else Kind.ED25519
        return NoteKey(self.origin, kind, self.key.public_key()), self.key

    def write(self, folder: Path) -> None:
        """The tiles, bundles and checkpoint, as they are served, and ``vkey``."""
        for name, content in {**self.objects, **self.edge.partials()}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        (folder / "checkpoint").write_bytes(self.note(self.operator()).encoded)
        (folder / "vkey").write_text(self.operator()[0].vkey)

    def authority(self) -> bytes:
        """The unsigned certificate of the CA."""
        begin, end = (int(one.timestamp()) * SECOND for one in (BEGIN, END))
        authority = Authority(
            dialect=self.dialect, id=self.ca, hash=SHA256, key=self.key.public_key(), not_before=begin, not_after=end, log_number=1
        )  # fmt: skip
        return authority.certificate

    def subtree(self, index: int) -> Range:
        """The subtree of the second half of the log, or of the first one, that has the entry."""
        halves = [*cover(0, self.size // 2), *cover(self.size // 2, self.size)]
        return next(one for one in reversed(halves) if one[0] <= index < one[1])

    def certificate(self, index: int, cosigners: Sequence[tuple[TrustAnchorId, PrivateKey]] | None = None) -> bytes:
        """The standalone certificate of an entry, signed by the CA when nobody is named; landmark-relative for an empty list."""
        start, end = self.subtree(index)
        (whole,) = self.hashes([(start, end)])
        signers = [(self.ca, self.key)] if cosigners is None else cosigners
        signatures = tuple(
            Signature(by, signature(key, cosigned_message(by.name, self.ca.log(1).name, start, end, whole))) for by, key in signers
        )
        proof = Proof(start=start, end=end, path=self.hashes(inclusion(start, end, index)), signatures=signatures)
        return certificate_of(self.dialect, self.ca, self.tbs(index), serial_of(1, index), proof)


def _signed(key: NoteKey, private: PrivateKey, checkpoint: Checkpoint, time: int) -> NoteSignature:
    return key.signature(signature(private, key.message(checkpoint, time=time), of_note=True), time=time)


def _tbs(name: str) -> bytes:
    signer: Any = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Example CA")])
    builder = x509.CertificateBuilder(issuer, x509.Name([]), signer.public_key(), 1, BEGIN, END)
    names = x509.SubjectAlternativeName([x509.DNSName(name)])
    return builder.add_extension(names, critical=True).sign(signer, hashes.SHA256()).tbs_certificate_bytes
