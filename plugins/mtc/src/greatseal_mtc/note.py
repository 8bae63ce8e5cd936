"""Signed notes and checkpoints (C2SP signed-note, tlog-checkpoint, tlog-cosignature)."""

import re
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from enum import IntEnum
from hashlib import sha256
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa

from greatseal.jose.acceptance import accept_public_key
from greatseal_mtc.algorithms import CosignerKey, key_of_spki, spki_of
from greatseal_mtc.wire import cosigned_message

__all__ = [
    "MAX_NOTE", "BadNote", "Checkpoint", "Kind", "Note", "NoteKey", "NoteSignature", "cosigner_kind", "log_kind", "open_note",
    "parse_base64", "parse_number", "signature_lines",
]  # fmt: skip

MAX_NOTE: Final = 1 << 17
"""Bytes of a note: some thirty signatures of ML-DSA-44."""
MAX_SIGNATURES: Final = 100
_MAX_TIME: Final = (1 << 63) - 1
_MAX_SIZE: Final = (1 << 64) - 1
_NUMBER: Final = re.compile(r"0|[1-9]\d{0,19}", re.ASCII)
_ECDSA: Final = ec.ECDSA(hashes.SHA256())


class BadNote(ValueError):
    """A note that cannot be read or must not be believed."""


class Kind(IntEnum):
    """The types of signatures that are made and checked here."""

    ED25519 = 0x01
    """A log operator's, over the text."""
    ECDSA = 0x02
    """A log operator's or a cosigner's, over the text with SHA-256, whatever the curve."""
    ED25519_COSIGNER = 0x04
    """A cosigner's, over a time and the text."""
    MLDSA44_COSIGNER = 0x06
    """A cosigner's, over the message that it signs for certificates, with a time."""

    @property
    def timed(self) -> bool:
        """Whether eight bytes of time stand before the signature."""
        return self in {Kind.ED25519_COSIGNER, Kind.MLDSA44_COSIGNER}


def log_kind(key: object) -> Kind:
    """The type of the signatures of a log operator with this public key. Raises ValueError for a key that none may have."""
    if isinstance(key, ed25519.Ed25519PublicKey):
        return Kind.ED25519
    if isinstance(key, ec.EllipticCurvePublicKey):
        return Kind.ECDSA
    raise ValueError("a log operator signs with Ed25519 or ECDSA; ML-DSA-44 is for cosigners alone, Ed448 and RSA for nobody")


def cosigner_kind(key: object) -> Kind:
    """The type of the signatures of a cosigner with this public key. Raises ValueError for a key that none may have."""
    if isinstance(key, ed25519.Ed25519PublicKey):
        return Kind.ED25519_COSIGNER
    if isinstance(key, ec.EllipticCurvePublicKey):
        return Kind.ECDSA
    if isinstance(key, mldsa.MLDSA44PublicKey):
        return Kind.MLDSA44_COSIGNER
    raise ValueError("a cosigner of checkpoints signs with Ed25519, ECDSA or ML-DSA-44")


class Checkpoint(msgspec.Struct, frozen=True):
    """What a log says of itself: its ``origin``, its size, its root, and lines that others may add."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text of the note."""
        return "".join(f"{line}\n" for line in (self.origin, self.size, b64encode(self.root).decode(), *self.extensions))

    @classmethod
    def parse(cls, text: str) -> "Checkpoint":
        """The text of a note. Raises BadNote."""
        *lines, last = text.split("\n")
        if len(lines) < 3 or last or not all(lines):
            raise BadNote("a checkpoint has an origin, a size and a root, each on a line of its own")
        origin, size, root, *extensions = lines
        return cls(origin, parse_number(size), parse_base64(root), tuple(extensions))


class NoteSignature(msgspec.Struct, frozen=True):
    """A line of signature: by whom it says to be, and what was signed after the key ID."""

    name: str
    id: bytes
    signature: bytes

    @property
    def line(self) -> str:
        """The line, with its end."""
        return f"\u2014 {self.name} {b64encode(self.id + self.signature).decode()}\n"

    @classmethod
    def parse(cls, line: str) -> "NoteSignature":
        """A line without its end. Raises BadNote."""
        dash, _, rest = line.partition(" ")
        name, _, encoded = rest.partition(" ")
        if dash != "\u2014":
            raise BadNote("a line of signature begins with an em dash")
        _check_name(name)
        blob = parse_base64(encoded)
        if len(blob) < 5:
            raise BadNote("a signature has a key ID of four bytes and more")
        return cls(name, blob[:4], blob[4:])


class Note(msgspec.Struct, frozen=True):
    """A signed text, as it came: nothing in it is checked."""

    text: str
    signatures: tuple[NoteSignature, ...]

    @property
    def encoded(self) -> bytes:
        """The note as it is written."""
        return "".join((self.text, "\n", *(one.line for one in self.signatures))).encode()

    @classmethod
    def parse(cls, data: bytes) -> "Note":
        """A note of at most :data:`MAX_NOTE` bytes. Raises BadNote."""
        if len(data) > MAX_NOTE:
            raise BadNote(f"a note of more than {MAX_NOTE} bytes")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise BadNote("a note is in UTF-8") from None
        if any(ord(one) < 0x20 and one != "\n" for one in text):
            raise BadNote("a note has no control characters")
        body, _, signatures = text.rpartition("\n\n")
        if not body:
            raise BadNote("a note is a text, a blank line and signatures")
        return cls(f"{body}\n", tuple(signature_lines(signatures)))


def signature_lines(text: str) -> list[NoteSignature]:
    """Lines of signature, one or more, as a witness answers with. Raises BadNote."""
    *lines, last = text.split("\n")
    if last or not lines or len(lines) > MAX_SIGNATURES:
        raise BadNote(f"one to {MAX_SIGNATURES} lines of signature, each with its end")
    return [NoteSignature.parse(line) for line in lines]


class NoteKey:
    """A public key that notes are checked with, under its name."""

    __slots__ = ("id", "key", "kind", "material", "name")

    def __init__(self, name: str, kind: Kind, key: CosignerKey) -> None:
        """Raises ValueError for a name that cannot stand in a note, and for a key that cannot sign so."""
        _check_name(name)
        if kind not in {*_kinds(log_kind, key), *_kinds(cosigner_kind, key)}:
            raise BadNote(f"a key of another type than signatures of type {kind:#04x} have")
        self.name: Final = name
        self.kind: Final = kind
        self.key: Final = key
        self.material: Final = spki_of(key) if isinstance(key, ec.EllipticCurvePublicKey) else key.public_bytes_raw()
        """The key as a vkey has it."""
        hashed = self.material if kind is Kind.ECDSA else b"%b\n%c%b" % (name.encode(), kind, self.material)
        self.id: Final = sha256(hashed).digest()[:4]
        """The key ID."""

    @property
    def vkey(self) -> str:
        """The key as verifiers are given it: ``<name>+<key ID>+<type and key>``."""
        return f"{self.name}+{self.id.hex()}+{b64encode(bytes((self.kind,)) + self.material).decode()}"

    @classmethod
    def parse(cls, vkey: str) -> "NoteKey":
        """A vkey. Raises BadNote."""
        name, _, rest = vkey.partition("+")
        id, _, encoded = rest.partition("+")
        blob = parse_base64(encoded)
        try:
            kind = Kind(blob[0]) if blob else None
        except ValueError:
            kind = None
        if kind is None:
            raise BadNote("a verifier key of a type that is not known; expected 0x01, 0x02, 0x04 or 0x06")
        try:
            found = cls(name, kind, _key(kind, blob[1:]))
        except ValueError as error:
            raise BadNote(f"not a verifier key: {error}") from error
        if found.id.hex() != id:
            raise BadNote("the key ID of the verifier key is not that of its key")
        return found

    def message(self, checkpoint: Checkpoint, *, time: int = 0) -> bytes:
        """What the key signs of a checkpoint. ``time`` is in seconds; it is of no concern where signatures have none."""
        if self.kind is Kind.MLDSA44_COSIGNER:
            return cosigned_message(self.name, checkpoint.origin, 0, checkpoint.size, checkpoint.root, time=time)
        header = f"cosignature/v1\ntime {time}\n" if self.kind is Kind.ED25519_COSIGNER else ""
        return f"{header}{checkpoint.text}".encode()

    def signature(self, signature: bytes, *, time: int = 0) -> NoteSignature:
        """The signature over :meth:`message`, as a line of the note."""
        return NoteSignature(self.name, self.id, (time.to_bytes(8) if self.kind.timed else b"") + signature)

    def verify(self, checkpoint: Checkpoint, signature: NoteSignature) -> int:
        """Check a signature of the key. Returns its time in seconds, 0 where there is none. Raises BadNote."""
        raw, time = signature.signature, 0
        if self.kind.timed:
            time, raw = int.from_bytes(raw[:8]), raw[8:]
            if time > _MAX_TIME or (self.kind is Kind.ED25519_COSIGNER and not time):
                raise BadNote(f"the time of the cosignature of {self.name} is none")
        try:
            message = self.message(checkpoint, time=time)
        except ValueError:
            raise BadNote(f"{self.name} signs no checkpoint of an origin of so many bytes") from None
        try:
            if isinstance(self.key, ec.EllipticCurvePublicKey):
                self.key.verify(raw, message, _ECDSA)
            else:
                self.key.verify(raw, message)
        except InvalidSignature:
            raise BadNote(f"the signature of {self.name} is wrong") from None
        return time


def open_note(note: Note, keys: Iterable[NoteKey]) -> tuple[Checkpoint, list[tuple[NoteKey, int]]]:
    """The checkpoint of a note, and which of the keys signed it, each with the time that it says.

    Signatures of other keys are ignored. Raises BadNote where none of these keys signed it, or one of their signatures is wrong.
    """
    checkpoint = Checkpoint.parse(note.text)
    known = {(key.name, key.id): key for key in keys}
    found: dict[tuple[str, bytes], tuple[NoteKey, int]] = {}
    for one in note.signatures:
        by = (one.name, one.id)
        if by in known and by not in found:
            found[by] = (known[by], known[by].verify(checkpoint, one))
    if not found:
        raise BadNote("the note is signed by none of the keys that are trusted")
    return checkpoint, list(found.values())


def parse_number(text: str) -> int:
    """A decimal number of 64 bits without needless zeros. Raises BadNote."""
    if not _NUMBER.fullmatch(text) or int(text) > _MAX_SIZE:
        raise BadNote("a number is decimal, of 64 bits, without leading zeros")
    return int(text)


def parse_base64(text: str) -> bytes:
    """Base64 with its padding, as it is written again. Raises BadNote."""
    try:
        found = b64decode(text, validate=True)
    except ValueError:
        found = None
    if found is None or b64encode(found).decode() != text:
        raise BadNote("not base64 (RFC 4648 s4)")
    return found


def _check_name(name: str) -> None:
    if not name or "+" in name or any(one.isspace() or unicodedata.category(one).startswith(("Z", "C")) for one in name):
        raise BadNote("the name of a key is not empty, and has no spaces and no plus")


def _kinds(role: Any, key: object) -> Sequence[Kind]:
    try:
        return [role(key)]
    except ValueError:
        return []


def _key(kind: Kind, material: bytes) -> CosignerKey:
    if kind is Kind.ECDSA:
        return key_of_spki(material)
    key: CosignerKey
    if kind is Kind.MLDSA44_COSIGNER:
        key = mldsa.MLDSA44PublicKey.from_public_bytes(material)
    else:
        key = ed25519.Ed25519PublicKey.from_public_bytes(material)
    accept_public_key(key)
    return key
