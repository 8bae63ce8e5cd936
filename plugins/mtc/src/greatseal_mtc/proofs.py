"""A proof that an entry is in a log, in a file that can be checked offline (C2SP tlog-proof)."""

from base64 import b64encode
from collections.abc import Iterable
from typing import Final

import msgspec

from greatseal_mtc.hashes import SHA256
from greatseal_mtc.merkle import BadProof, evaluate
from greatseal_mtc.note import BadNote, Checkpoint, Note, NoteKey, open_note, parse_base64, parse_number

__all__ = ["LogProof"]

_HEADER: Final = "c2sp.org/tlog-proof@v1"
_MAX_HASHES: Final = 63
_MAX_EXTRA: Final = 1 << 17


class LogProof(msgspec.Struct, frozen=True, kw_only=True):
    """The place of an entry, the inclusion proof in the tree of a checkpoint, the checkpoint, and what else belongs to it."""

    index: int
    path: tuple[bytes, ...]
    note: Note
    extra: bytes | None = None

    @property
    def encoded(self) -> bytes:
        """The file."""
        extra = [] if self.extra is None else [f"extra {b64encode(self.extra).decode()}"]
        lines = [_HEADER, *extra, f"index {self.index}", *hash_lines(self.path), ""]
        return "".join(f"{line}\n" for line in lines).encode() + self.note.encoded

    @classmethod
    def parse(cls, data: bytes) -> "LogProof":
        """A file. Raises BadNote."""
        head, blank, note = data.partition(b"\n\n")
        if not blank or len(head) > 2 * _MAX_EXTRA:
            raise BadNote("a proof is some lines, a blank one and a checkpoint")
        try:
            lines = head.decode("ascii").split("\n")
        except UnicodeDecodeError:
            raise BadNote("the lines of a proof are ASCII") from None
        header, *lines = lines
        if header != _HEADER:
            raise BadNote(f"a proof begins with {_HEADER}")
        extra = None
        if lines and lines[0].startswith("extra "):
            extra = parse_base64(lines.pop(0).removeprefix("extra "))
        if not lines or not lines[0].startswith("index "):
            raise BadNote("a proof says the index of its entry")
        index = parse_number(lines.pop(0).removeprefix("index "))
        return cls(index=index, path=parse_hashes(lines), note=Note.parse(note), extra=extra)

    def verify(self, entry: bytes, keys: Iterable[NoteKey]) -> Checkpoint:
        """Check that the entry is in the log of a checkpoint that one of the keys signed. Raises BadNote and BadProof."""
        checkpoint, _ = open_note(self.note, keys)
        found = evaluate(SHA256, 0, checkpoint.size, self.index, leaf=SHA256.leaf(entry), proof=self.path)
        if found != checkpoint.root:
            raise BadProof("the entry is not in the log of the checkpoint")
        return checkpoint


def hash_lines(hashes: Iterable[bytes]) -> list[str]:
    """Hashes as they stand on lines, without the ends of the lines."""
    return [b64encode(one).decode() for one in hashes]


def parse_hashes(lines: list[str]) -> tuple[bytes, ...]:
    """Hashes of SHA-256, one on a line. Raises BadNote."""
    if len(lines) > _MAX_HASHES:
        raise BadNote(f"a proof has at most {_MAX_HASHES} hashes")
    found = tuple(map(parse_base64, lines))
    if any(len(one) != SHA256.size for one in found):
        raise BadNote(f"a hash of a proof has {SHA256.size} bytes")
    return found
