"""Witnesses (C2SP tlog-witness): each is sent the checkpoint with the proof that the log only grew, and answers with its cosignature."""

from typing import TYPE_CHECKING

from greatseal.api.problems import Outbound
from greatseal.net import Fetched, NameResolver, excerpt, fetch
from greatseal_mtc.algorithms import BadSignature, signature_algorithm, verify
from greatseal_mtc.cosigners import ANYWHERE, SECONDS, Refused, Silent
from greatseal_mtc.merkle import Range
from greatseal_mtc.note import BadNote, Checkpoint, Note, NoteSignature, signature_lines
from greatseal_mtc.settings import Witness
from greatseal_mtc.stored_checkpoints import Stored
from greatseal_mtc.structures import SubtreeSignature
from greatseal_mtc.wire import cosigned_message
from greatseal_mtc.witnessing import AddCheckpoint, SignSubtree, parse_size

if TYPE_CHECKING:
    from greatseal_mtc.sequencer import Log

MAX_ANSWER = 1 << 16
TEXT = "text/plain; charset=utf-8"


class Larger(Refused):
    """The witness knows a larger tree of this log: an older copy of the log was put back, here or there."""


class Witnessing:
    """One checkpoint at one witness."""

    def __init__(self, witness: Witness, checkpoint: Stored, log: "Log", *, resolver: NameResolver) -> None:
        self._witness = witness
        self._checkpoint = checkpoint
        self._log = log
        self._resolver = resolver
        self._note = Note.parse(checkpoint.log_note if witness.subtrees else checkpoint.note)

    async def add(self, old: int) -> NoteSignature:
        """Have the checkpoint cosigned. ``old`` is the size that the witness cosigned last, as far as is known here.

        Raises Silent, Refused, and what the log raises.
        """
        answer = await self._add(old)
        if answer.status == 409:
            old = self._told(answer)
            answer = await self._add(old)
        if answer.status != 200:
            raise Refused(f"status {answer.status}: {excerpt(answer.body.decode(errors='replace'))}")
        return self._checked(answer)

    async def sign(self, subtree: Range, root: bytes, cosigned: NoteSignature) -> SubtreeSignature:
        """Have a subtree signed, after :meth:`add` gave ``cosigned``. Raises as it does."""
        start, end = subtree
        path = tuple(await self._log.consistency(start, end, self._checkpoint.size))
        note = Note(self._note.text, (*self._note.signatures, cosigned))
        answer = await self._post("sign-subtree", SignSubtree(start, end, root, path, note).encoded)
        if answer.status != 200:
            raise Refused(f"sign-subtree: status {answer.status}: {excerpt(answer.body.decode(errors='replace'))}")
        line = self._line(answer)
        key, anchor = self._witness.key, self._witness.anchor
        assert anchor is not None, "the settings ask for a name that is an ID"
        if line.signature[:8] != bytes(8):
            raise Refused("sign-subtree: the time of the signature is not 0")
        message = cosigned_message(key.name, Checkpoint.parse(self._note.text).origin, start, end, root)
        try:
            verify(key.key, message, line.signature[8:])
        except BadSignature:
            raise Refused("sign-subtree: the signature is wrong") from None
        return SubtreeSignature(
            cosigner=anchor,
            start=start,
            end=end,
            root=root,
            checkpoint=self._checkpoint.der,
            algorithm=signature_algorithm(key.key),
            signature=line.signature[8:],
        )

    async def _add(self, old: int) -> Fetched:
        path = tuple(await self._log.consistency(0, old, self._checkpoint.size)) if 0 < old < self._checkpoint.size else ()
        return await self._post("add-checkpoint", AddCheckpoint(old, path, self._note).encoded)

    def _told(self, answer: Fetched) -> int:
        """The size that a witness says it cosigned last."""
        try:
            size = parse_size(answer.body)
        except BadNote:
            raise Refused(f"status 409 without a size: {excerpt(answer.body.decode(errors='replace'))}") from None
        if size > self._checkpoint.size:
            raise Larger(f"it has cosigned {size} entries of this log, which has {self._checkpoint.size}")
        return size

    def _checked(self, answer: Fetched) -> NoteSignature:
        """The line of the witness. Raises Refused for one that is not good for the checkpoint."""
        line = self._line(answer)
        try:
            self._witness.key.verify(Checkpoint.parse(self._note.text), line)
        except BadNote as error:
            raise Refused(str(error)) from None
        return line

    def _line(self, answer: Fetched) -> NoteSignature:
        key = self._witness.key
        try:
            lines = signature_lines(answer.body.decode())
        except (BadNote, UnicodeDecodeError) as error:
            raise Refused(f"the answer is no line of signature: {error}") from None
        found = next((one for one in lines if (one.name, one.id) == (key.name, key.id)), None)
        if found is None:
            raise Refused("the answer has no signature of the key in vkey")
        return found

    async def _post(self, what: str, body: bytes) -> Fetched:
        try:
            return await fetch(
                f"{self._witness.url}/{what}",
                resolver=self._resolver,
                policy=ANYWHERE,
                redirects=0,
                seconds=SECONDS,
                max_body=MAX_ANSWER,
                content=(TEXT, body),
            )
        except Outbound as problem:
            raise Silent(f"{type(problem).__name__}: {problem.detail}") from None
