"""What a witness does (C2SP tlog-witness): each checkpoint of a log is cosigned only when it is proven to continue the last one."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from greatseal.api.audit import AuditEvent
from greatseal.api.keys import Signer
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, Forbidden, NotFound, Problem
from greatseal.api.store import Row, Tx
from greatseal.host import Host
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.merkle import MAX_SIZE, BadProof, verify_consistency
from greatseal_mtc.note import BadNote, Checkpoint, Kind, Note, NoteKey, NoteSignature, cosigner_kind, open_note
from greatseal_mtc.wire import cosigned_message
from greatseal_mtc.witness.settings import WitnessLog
from greatseal_mtc.witness.state import Next, latest, move, remember_cosignatures
from greatseal_mtc.witnessing import AddCheckpoint, SignSubtree

__all__ = ["FORK", "NotProven", "OtherSize", "TwoTrees", "Witness", "log_id"]

FORK = "witness.fork"
FORKS_AN_HOUR = 10
"""Events for one log: a log that lies may do so as often as it likes."""
HOUR = 3600.0


class OtherSize(Exception):
    """The witness has cosigned another size of the log last: status 409 with it."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class TwoTrees(Problem):
    """The log signed two trees of one size. No size is named: whoever asks again with it is answered the same."""

    status, error, type = 409, "forked", "malformed"


class NotProven(Problem):
    """The proof does not show that the log goes on, or that it has the subtree."""

    status, error, type = 422, "not_proven", "malformed"


def log_id(origin: str) -> str:
    """Under which the last checkpoint of a log is published."""
    return sha256(origin.encode()).hexdigest()


class Witness:
    """The witness of this service under its ``name``."""

    def __init__(self, host: Host, name: str, logs: Sequence[WitnessLog]) -> None:
        self._host = host
        self.name = name
        self._logs: Mapping[str, Sequence[NoteKey]] = {log.origin: log.verifiers() for log in logs}
        self._by_id = {log_id(origin): origin for origin in self._logs}
        self._signers: tuple[tuple[NoteKey, Signer], ...] = ()

    def use(self, signers: Sequence[Signer]) -> None:
        """Sign with these keys from now on. Raises ValueError for one that no witness has."""
        self._signers = tuple((NoteKey(self.name, self._kind(one), one.public_key), one) for one in signers)  # type: ignore[arg-type]

    @property
    def keys(self) -> list[NoteKey]:
        """The keys that logs and their readers check the cosignatures with."""
        return [key for key, _ in self._signers]

    @property
    def signs_subtrees(self) -> bool:
        """Whether a key can sign subtrees: C2SP has a form for ML-DSA-44 alone."""
        return any(key.kind is Kind.MLDSA44_COSIGNER for key in self.keys)

    async def add_checkpoint(self, asked: AddCheckpoint) -> str:
        """The lines of cosignature of a checkpoint that continues the last one.

        Raises NotFound for an unknown log, Forbidden for a signature that is none of its, BadRequest for an old size above the new one,
        OtherSize, TwoTrees, and NotProven.
        """
        checkpoint, signed = self._opened(asked.note)
        id = log_id(checkpoint.origin)
        if asked.old > checkpoint.size:
            raise BadRequest(f"the old size {asked.old} is above the size {checkpoint.size} of the checkpoint")
        known = await self._host.db.read(latest, id)
        size, root = (known.size, known.root) if known else (0, SHA256.empty)
        if asked.old != size:
            raise OtherSize(size)
        step = Next(
            log=id,
            origin=checkpoint.origin,
            old_size=size,
            old_root=root,
            size=checkpoint.size,
            root=checkpoint.root,
            note=Note(asked.note.text, tuple(signed)).encoded,
        )
        await self._proven(step, asked.path)
        if not await self._host.db.write(move, step):
            now = await self._host.db.read(latest, id)
            raise OtherSize(now.size if now else 0)
        return await self._cosigned(id, checkpoint)

    async def sign_subtree(self, asked: SignSubtree) -> str:
        """The lines of signature of a subtree of a checkpoint that this witness cosigned.

        Raises NotFound for an unknown log, Forbidden for a checkpoint without cosignature of this witness, BadRequest for a subtree beyond
        it, and NotProven.
        """
        checkpoint = self._known(asked.note)
        try:
            open_note(asked.note, self.keys)
        except BadNote as error:
            raise Forbidden(f"the checkpoint is not cosigned by this witness: {error}") from None
        if asked.end > checkpoint.size:
            raise BadRequest(f"the subtree ends at {asked.end}, behind the {checkpoint.size} entries of the checkpoint")
        try:
            self._check_subtree(asked, checkpoint)
        except BadProof as error:
            raise NotProven(str(error)) from None
        lines = []
        for key, signer in self._signers:
            if key.kind is Kind.MLDSA44_COSIGNER:
                message = cosigned_message(key.name, checkpoint.origin, asked.start, asked.end, asked.root)
                lines.append(key.signature(await signer.sign(message)).line)
        return "".join(lines)

    async def published(self, id: str) -> bytes:
        """The last checkpoint of a log that was cosigned, with the cosignatures. Raises NotFound."""
        known = await self._host.db.read(latest, id) if id in self._by_id else None
        if known is None:
            raise NotFound("this witness has cosigned no checkpoint of such a log")
        lines = known.cosignatures
        if lines is None:  # the process ended between the record and the signature, or is about to sign
            lines = (await self._cosigned(id, Checkpoint.parse(Note.parse(known.note).text))).encode()
        return bytes(known.note) + bytes(lines)

    async def _proven(self, step: Next, path: Sequence[bytes]) -> None:
        """Raises TwoTrees, NotProven."""
        if step.old_size == step.size > 0 and step.old_root != step.root:
            await self._forked(step)
            raise TwoTrees(f"this witness cosigned another tree of {step.size} entries of this log")
        try:
            _check_step(step, path)
        except BadProof as error:
            self._host.log.warning(
                "a log is not proven to go on", origin=step.origin, size=step.size, since=step.old_size, reason=str(error)
            )
            raise NotProven(str(error)) from None

    async def _forked(self, step: Next) -> None:
        """Two signed trees of one size are proof enough for anybody, so both notes are kept."""
        if self._host.limits.hit(FORK, step.origin, FORKS_AN_HOUR, HOUR) is not None:
            return

        def told(tx: Tx) -> None:
            known: Row | None = latest(tx, step.log)
            first = bytes(known.note).decode() if known else ""
            detail = f"{first}\n{step.note.decode()}"
            tx.audit(AuditEvent(event_type=FORK, service="ca", outcome="failure", sub=step.origin, detail=detail))

        await self._host.db.write(told)
        self._host.log.error("a log forked: it signed two trees of one size", origin=step.origin, size=step.size)

    async def _cosigned(self, id: str, checkpoint: Checkpoint) -> str:
        """Sign what was recorded, and keep it for readers."""
        time = self._host.clock.now() // SECOND
        signed: list[NoteSignature] = []
        for key, signer in self._signers:
            signed.append(key.signature(await signer.sign(key.message(checkpoint, time=time)), time=time))
        lines = "".join(one.line for one in signed)
        await self._host.db.write(remember_cosignatures, id, checkpoint.size, checkpoint.root, lines.encode())
        return lines

    def _known(self, note: Note) -> Checkpoint:
        try:
            checkpoint = Checkpoint.parse(note.text)
        except BadNote as error:
            raise BadRequest(str(error)) from None
        if checkpoint.origin not in self._logs:
            raise NotFound("this witness does not know the log of this origin")
        if len(checkpoint.root) != SHA256.size or checkpoint.size > MAX_SIZE:
            raise BadRequest(f"a log has a root of {SHA256.size} bytes and up to 2^48 entries")
        return checkpoint

    def _opened(self, note: Note) -> tuple[Checkpoint, list[NoteSignature]]:
        """The checkpoint, and the lines of the log's own keys that were verified."""
        checkpoint = self._known(note)
        try:
            _, signed = open_note(note, self._logs[checkpoint.origin])
        except BadNote as error:
            raise Forbidden(str(error)) from None
        by = {(key.name, key.id) for key, _ in signed}
        lines = {(one.name, one.id): one for one in reversed(note.signatures) if (one.name, one.id) in by}
        return checkpoint, list(lines.values())

    @staticmethod
    def _check_subtree(asked: SignSubtree, checkpoint: Checkpoint) -> None:
        """Raises BadProof."""
        within = (asked.start, asked.end, checkpoint.size)
        verify_consistency(SHA256, *within, subtree=asked.root, root=checkpoint.root, proof=asked.path)

    @staticmethod
    def _kind(signer: Signer) -> Kind:
        kind = cosigner_kind(signer.public_key)
        if kind is Kind.ECDSA:
            raise ValueError("a witness signs with Ed25519 or ML-DSA-44: a signature of ECDSA has no time")
        return kind


def _check_step(step: Next, path: Sequence[bytes]) -> None:
    """Raises BadProof."""
    if step.old_size in {0, step.size}:
        if path:
            raise BadProof("no proof belongs to a first checkpoint, or to the same one")
        if step.size == 0 and step.root != SHA256.empty:
            raise BadProof("a log without entries has the root of nothing")
        return
    verify_consistency(SHA256, 0, step.old_size, step.size, subtree=step.old_root, root=step.root, proof=path)
