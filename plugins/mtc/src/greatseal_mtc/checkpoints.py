"""Checkpoints: the log is signed when it has grown, stored, and only then shown to anybody; cosigners and witnesses come after that.

The order of a run: size and root are read, the subtrees of the new certificates, which every inclusion proof comes from, are computed, the
checkpoint is signed, stored, published; cosigners are asked in parallel; the standalone certificates of what lacks one are made.
"""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from greatseal import faults
from greatseal.api.moments import SECOND
from greatseal.api.problems import Internal
from greatseal.host import Host
from greatseal_mtc.cosigning import Cosigning
from greatseal_mtc.keys import note_line
from greatseal_mtc.merkle import Range, cover
from greatseal_mtc.note import Checkpoint, Note
from greatseal_mtc.standalone import Standalones
from greatseal_mtc.stored_checkpoints import Stored, keep, newest_of, prune, witnesses_of
from greatseal_mtc.structures import Checkpoint as CheckpointDer
from greatseal_mtc.structures import LogId

if TYPE_CHECKING:
    from greatseal_mtc.logs import CaLog

__all__ = ["Checkpoints", "Published"]


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of the log: its newest checkpoint. Unlike those in it, ``note`` and ``log_note`` also have the lines of witnesses."""

    checkpoint: Stored
    note: bytes
    log_note: bytes

    @property
    def size(self) -> int:
        """Entries of the tree: nothing is shown of what comes after them."""
        return self.checkpoint.size


class Checkpoints:
    """The checkpoints of one log."""

    def __init__(self, host: Host, log: "CaLog") -> None:
        self._host = host
        self._log = log
        self.cosigning = Cosigning(host, log)
        self._standalones = Standalones(host, log)
        self._lock = asyncio.Lock()
        self._left_over = True
        """Whether a run before may have ended in the middle: the first one of a process finishes it."""
        self.published: Published | None = None
        """None before the first one."""

    async def open(self) -> None:
        """Show the newest one that is stored: a kill may have come between."""
        newest = await self._host.db.read(newest_of, self._log.ca_id, self._log.number)
        if newest is not None:
            await self._publish(newest)

    async def run(self) -> None:
        """Sign what is new, have others sign it, and make the standalone certificates that can be made."""
        async with self._lock:
            before = 0 if self.published is None else self.published.size
            grown = await self._grown() is not None
            if self.published is None or not (grown or self._left_over):
                return
            self._left_over = False
            newest = self.published.checkpoint
            new_from = before if grown else newest.size
            if await self.cosigning.ask(newest, new_from):
                await self._publish(newest)
            await self._standalones.make(newest, new_from)

    async def _grown(self) -> Stored | None:
        """The next checkpoint, stored and published; None where the log has not grown."""
        size, root = self._log.log.head
        before = 0 if self.published is None else self.published.size
        if size <= before:
            return None
        await self._prove(before, size, root)
        made = await self._sign(size, root)
        faults.point("mtc.checkpoint.signed")
        stored = await self._host.db.write(keep, made)
        await self._publish(stored)
        await self._prune(stored)
        return stored

    async def _prove(self, before: int, size: int, root: bytes) -> None:
        """Read the subtrees that proofs of the new certificates come from: what the tiles do not give is not signed. Raises Internal."""
        log = self._log.log
        ranges: tuple[Range, ...] = cover(before, size)
        for start, end in ranges:
            await log.subtree_root(start, end)
        if await log.subtree_root(0, size) != root:
            raise Internal(cause=f"the tiles of log {log.name} do not give the root of its {size} entries")

    async def _sign(self, size: int, root: bytes) -> Stored:
        log, keys = self._log, self._log.keys
        seconds = self._host.clock.now() // SECOND
        checkpoint, named = Checkpoint(log.origin, size, root), Checkpoint(log.id.name, size, root)
        own = keys.cosigner_note_key(log.anchor.name)
        operator = await note_line(keys.operator, keys.note_key(log.origin), checkpoint, time=seconds)
        cosigner = await note_line(keys.cosigner, own, checkpoint, time=seconds)
        of_log = await note_line(keys.cosigner, own, named, time=seconds)
        return Stored(
            ca_id=log.ca_id,
            log_number=log.number,
            sequence_no=-1,
            size=size,
            root=root,
            der=CheckpointDer(LogId(log.log.hash, keys.spki), size, root, seconds * SECOND).der,
            signature=await keys.sign(log.signer.message(0, size, root, time=seconds)),
            note=Note(checkpoint.text, (operator,)).encoded,
            cosigned=Note(checkpoint.text, (cosigner,)).encoded,
            log_note=Note(named.text, (of_log,)).encoded,
            created_at=seconds * SECOND,
        )

    async def _publish(self, stored: Stored) -> None:
        """Show it, with what witnesses said of it. It is in the database."""
        lines = (await self._host.db.read(witnesses_of, stored.ca_id, stored.sequence_no)).values()
        note = stored.note + "".join(line for line, of_log in lines if not of_log).encode()
        log_note = stored.log_note + "".join(line for line, of_log in lines if of_log).encode()
        await self._log.log.publish(stored.size, note)
        self.published = Published(checkpoint=stored, note=note, log_note=log_note)
        faults.point("mtc.checkpoint.published")

    async def _prune(self, newest: Stored) -> None:
        last = newest.sequence_no - self._log.settings.checkpoint_retention_count
        while last >= 0 and await self._host.db.write(prune, self._log.ca_id, last):
            pass
