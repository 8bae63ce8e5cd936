"""What is sent to a witness (C2SP tlog-witness): a checkpoint with the proof that it goes on from the last one, or a subtree to sign."""

import msgspec

from greatseal_mtc.hashes import SHA256
from greatseal_mtc.merkle import is_subtree
from greatseal_mtc.note import MAX_NOTE, BadNote, Note, parse_base64, parse_number
from greatseal_mtc.proofs import hash_lines, parse_hashes

__all__ = ["MAX_BODY", "SIZE_TYPE", "AddCheckpoint", "SignSubtree", "parse_size", "size_body"]

MAX_BODY = MAX_NOTE + 64 * 64
"""Bytes of a request."""
SIZE_TYPE = "text/x.tlog.size"
"""The type of the answer 409, which says the size that the witness knows."""


class AddCheckpoint(msgspec.Struct, frozen=True):
    """The body of add-checkpoint: the size that the witness has cosigned last, the consistency proof from there, and the checkpoint."""

    old: int
    path: tuple[bytes, ...]
    note: Note

    @property
    def encoded(self) -> bytes:
        """The body."""
        return _joined([f"old {self.old}", *hash_lines(self.path)], self.note)

    @classmethod
    def parse(cls, body: bytes) -> "AddCheckpoint":
        """A body. Raises BadNote."""
        (first, *lines), note = _split(body)
        if not first.startswith("old "):
            raise BadNote("the first line is: old, a space and the size that was cosigned last")
        return cls(parse_number(first.removeprefix("old ")), parse_hashes(lines), note)


class SignSubtree(msgspec.Struct, frozen=True):
    """The body of sign-subtree: a subtree with its hash, the proof that the checkpoint's tree has it, and a checkpoint that the witness
    has cosigned."""

    start: int
    end: int
    root: bytes
    path: tuple[bytes, ...]
    note: Note

    @property
    def encoded(self) -> bytes:
        """The body."""
        return _joined([f"subtree {self.start} {self.end}", *hash_lines((self.root, *self.path))], self.note)

    @classmethod
    def parse(cls, body: bytes) -> "SignSubtree":
        """A body. Raises BadNote."""
        (first, *lines), note = _split(body)
        word, *numbers = first.split(" ")
        if word != "subtree" or len(numbers) != 2 or not lines:
            raise BadNote("the first line is: subtree, its start and its end; the second one is its hash")
        start, end = map(parse_number, numbers)
        if not is_subtree(start, end):
            raise BadNote(f"[{start}, {end}) is no subtree")
        root = parse_base64(lines.pop(0))
        if len(root) != SHA256.size:
            raise BadNote(f"the hash of a subtree has {SHA256.size} bytes")
        return cls(start, end, root, parse_hashes(lines), note)


def size_body(size: int) -> bytes:
    """The body of an answer 409."""
    return b"%d\n" % size


def parse_size(body: bytes) -> int:
    """The size that an answer 409 says. Raises BadNote."""
    text = body.decode("ascii", "replace")
    if not text.endswith("\n"):
        raise BadNote("the size that a witness knows ends its line")
    return parse_number(text[:-1])


def _joined(lines: list[str], note: Note) -> bytes:
    return "".join(f"{line}\n" for line in (*lines, "")).encode() + note.encoded


def _split(body: bytes) -> tuple[list[str], Note]:
    if len(body) > MAX_BODY:
        raise BadNote(f"a body of more than {MAX_BODY} bytes")
    head, blank, note = body.partition(b"\n\n")
    if not blank:
        raise BadNote("the body is some lines, a blank one and a checkpoint")
    try:
        return head.decode("ascii").split("\n"), Note.parse(note)
    except UnicodeDecodeError:
        raise BadNote("the lines before the checkpoint are ASCII") from None
