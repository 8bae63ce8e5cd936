"""The one that writes a log: it gives each entry its index, and the index is promised when the commit is on the disk.

Entries that come while a commit runs are the next one (group commit). After a commit its batch is recorded, by whoever opened the log, and
only then the next commit begins: so at most one batch lacks its record after a crash, and the head names that batch.

Nothing is signed here. Whoever signs takes :attr:`Log.head`, which never runs ahead of the disk.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import msgspec
import structlog

from greatseal import faults
from greatseal.api.log import LogBackend, LogCorrupt, LogHead, LogHeld, LogMoved, LogWriter
from greatseal.api.problems import Problem, StartProblem, Unavailable
from greatseal_mtc import tiles
from greatseal_mtc.hashes import HASHES
from greatseal_mtc.merkle import MAX_SIZE
from greatseal_mtc.state import OTHER_DATABASE, RECOVER, Batch, Made, State, Tree, entries_of, is_full, made_otherwise, staged_name
from greatseal_mtc.tiles import MAX_ENTRY, Edge, TileCache, TileName
from greatseal_mtc.views import LogView, OutOfRange

__all__ = ["Appended", "Log", "Witnessed"]

GROUP = 256
"""Entries of a batch."""
WAITING = 4096
"""Entries that may wait before callers are refused."""
AGAIN = 1.0
"""Seconds until what failed is tried again."""
NULL = b"\x00\x00\x00\x00"
"""The null entry (s5.2.1), which is the one with index 0: no certificate has that."""

Record = Callable[[Batch], Awaitable[None]]


class Appended(msgspec.Struct, frozen=True):
    """The index of an entry, and the batch ``[start, end)`` that it was committed in."""

    index: int
    start: int
    end: int


class Witnessed(NamedTuple):
    """What others know of the log: its root at a size; None where only the size is known, as of an index that was given."""

    size: int
    root: bytes | None = None


class _Waiting(NamedTuple):
    """An entry without an index yet, and its first caller."""

    id: str
    entry: bytes
    caller: "asyncio.Future[Appended]"


class _Step(NamedTuple):
    """A commit, and the log after it."""

    before: LogHead | None
    tree: Tree
    objects: Mapping[str, bytes]


class Log(LogView):
    """A log of one CA, held for writing. What a :class:`LogView` can do it does for the log as it is now."""

    def __init__(self, name: str, writer: LogWriter, record: Record, cache: TileCache, logger: structlog.stdlib.BoundLogger) -> None:
        super().__init__(name, writer, cache)
        self._writer = writer
        self._record = record
        self._logger = logger
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._callers: dict[str, list[asyncio.Future[Appended]]] = {}
        """By the ids that wait or are being committed: who else waits for each."""
        self._last: Mapping[str, Appended] = {}
        """The last batch, by id."""
        self._flushing: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._turn = asyncio.Lock()
        """The writer does one thing at a time."""
        self._doubtful: _Step | None = None
        """A commit of which the storage did not say whether it was done."""
        self._unrecorded: Batch | None = None
        self._garbage: tuple[str, ...] = ()
        """Objects that are to be discarded, as the head says too."""
        self._closing = False
        self.stopped: Problem | None = None
        """Why nothing is written any more: the hold was lost, or the storage does not hold what it should."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        backend: LogBackend,
        name: str,
        made: Made,
        *,
        record: Record,
        cache: TileCache,
        logger: structlog.stdlib.BoundLogger,
        witnessed: Sequence[Witnessed] = (),
        recorded: int | None = None,
    ) -> "AsyncIterator[Log]":
        """Hold the log; one that does not exist is made, with the null entry.

        ``record`` is awaited after each commit and before the next one, and once now for the last batch there is: it writes what is not
        written yet. ``recorded`` is how many entries it has written, as far as that is known: all but the last batch. Raises StartProblem
        when another process writes the log, when it was made otherwise than ``made`` says, when it does not have what was ``witnessed`` of
        it, or more than could be unrecorded, and when its parts do not fit; Unavailable when the storage cannot be used.
        """
        async with AsyncExitStack() as stack:
            try:
                writer = await stack.enter_async_context(backend.hold(name))
                log = cls(name, writer, record, cache, logger)
                await log._begin(made, witnessed, recorded)
            except LogHeld as held:
                raise StartProblem(f"log {name}: {held.detail}; one process writes a log: stop that one first") from held
            except LogCorrupt as error:
                raise StartProblem(f"log {name}: {error.detail}; {RECOVER}") from error
            try:
                yield log
            finally:
                await log._end()

    # ---- Appending

    async def append(self, id: str, entry: bytes) -> Appended:
        """Give an entry its index; when this returns it is on the disk and recorded. ``id`` names it until then.

        Of an id that waits, or is in the last batch, it is the same index again. Raises Unavailable when it cannot be written now; the
        entry may come to be in the log all the same, and is recorded then. Raises ValueError for an entry that is too long.
        """
        if len(entry) > MAX_ENTRY:
            raise ValueError(f"an entry of {len(entry)} bytes: {MAX_ENTRY} at most")
        others = self._callers.get(id)
        caller: asyncio.Future[Appended] = self._loop.create_future()
        if others is not None:
            others.append(caller)
            return await caller
        if self._unrecorded is None and (known := self._last.get(id)) is not None:
            return known
        if self.stopped is not None or self._closing:
            raise Unavailable("the log takes no entries now", cause=self.stopped.detail if self.stopped else "the service stops")
        if len(self._waiting) >= WAITING:
            raise Unavailable("too many entries wait for the log", retry_after=1)
        self._callers[id] = []
        self._waiting.append(_Waiting(id, entry, caller))
        self._begin_flush()
        return await caller

    async def publish(self, size: int, note: bytes) -> None:
        """Make ``note`` the document ``checkpoint``, after the partial tiles of that size are stored. It was signed and recorded before.

        Raises OutOfRange for a size that the log does not have, Unavailable when it cannot be written now.
        """
        async with self._writing():
            objects = await self._partials(size)
            if objects:
                state = self.tree.state
                state = msgspec.structs.replace(state, partials=(*state.partials, *objects), superseded=self._garbage)
                await self._take(_Step(self.tree.head, self.tree.grown(self.tree.edge, state), objects))
            faults.point("mtc.log.partials")
            await self._writer.publish("checkpoint", note)
            faults.point("mtc.log.published")

    # ---- Beginning and end

    async def _begin(self, made: Made, witnessed: Sequence[Witnessed], recorded: int | None) -> None:
        head = await self._writer.head()
        if head is None:
            if witnessed:
                raise StartProblem(
                    f"log {self.name} is empty, and had {max(one.size for one in witnessed)} entries: it was lost; {RECOVER}"
                )
            await self._create(made)
        else:
            await self._load(head, made)
        await self._check(witnessed)
        self._check_recorded(recorded)
        self._remember(self.tree.state.last)
        self._garbage = self.tree.state.superseded
        await self._settle()
        await self._discard()

    async def _create(self, made: Made) -> None:
        hash = HASHES[made.hash]
        empty = Tree(LogHead(size=0, root=hash.empty), State(made, b"", Batch(0, ())), Edge(), hash)
        step = self._step(empty, [("", NULL)])
        await self._writer.commit(None, step.tree.head, step.objects)
        self._tree = step.tree

    async def _load(self, head: LogHead, made: Made) -> None:
        """The log as its head and the staged entries say."""
        found = State.decode(head).made
        if found != made:
            raise StartProblem(*made_otherwise(self.name, found, made))
        self._tree = Tree.of(head)
        bundle = await self._partial_bundle() if head.size & 0xFF else b""
        tree = self._tree = Tree.of(head, bundle)
        leaves = b"".join(map(tree.hash.leaf, entries_of(bundle)[0]))
        if leaves != (tree.edge.levels[0] if tree.edge.levels else b""):
            raise LogCorrupt("the entries behind the last full bundle are not those that were hashed")
        for level, hashes in enumerate(tree.edge.levels[1:], 1):
            if hashes:
                number = (head.size >> 8 * level) - 1
                tile = await self.read(TileName(level - 1, number))
                assert tile is not None
                if tiles.Tile(tree.hash, tile).hash_at(8, 0) != hashes[-tree.hash.size :]:
                    raise LogCorrupt(f"{TileName(level - 1, number).path} is not what the tile above it has")

    async def _check(self, witnessed: Sequence[Witnessed]) -> None:
        for size, root in witnessed:
            if size > self.size:
                raise StartProblem(f"log {self.name} has {self.size} entries, and had {size}: an older copy was put back; {RECOVER}")
            if root is not None and await self.root_at(size) != root:
                raise StartProblem(f"log {self.name} has another root at size {size} than was signed: it is another log; {RECOVER}")

    def _check_recorded(self, recorded: int | None) -> None:
        last = self.tree.state.last
        if recorded is not None and max(recorded, 1) < last.start:  # the null entry is never recorded
            raise StartProblem(
                f"log {self.name} has {self.size} entries, and the database knows those below {recorded} alone: an older copy of the "
                f"database was put back; {OTHER_DATABASE}"
            )

    async def _end(self) -> None:
        """Write what waits."""
        self._closing = True
        if self._later is not None:
            self._later.cancel()
        if self._flushing is not None:
            await self._flushing

    # ---- One commit after another

    async def _flush(self) -> None:
        try:
            # After whoever else is ready to append; and after those whom the last commit let go on.
            await asyncio.sleep(0)
            if not self._waiting:
                await self._mend()
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]
                await self._commit(batch)
                await asyncio.sleep(0)
        finally:
            self._flushing = None
        if self._is_behind() and not self._closing:
            self._later = self._loop.call_later(AGAIN, self._begin_flush)

    def _begin_flush(self) -> None:
        if self._flushing is None:
            self._flushing = self._loop.create_task(self._flush())

    def _is_behind(self) -> bool:
        """Whether something that failed is to be tried again, though nobody appends."""
        return self.stopped is None and (self._doubtful is not None or self._unrecorded is not None)

    async def _mend(self) -> None:
        try:
            async with self._writing():
                pass
        except Exception as error:  # noqa: BLE001 - it is tried again
            self._logger.warning("a batch of the log is not recorded yet", log=self.name, error=str(error) or repr(error))

    async def _commit(self, batch: list[_Waiting]) -> None:
        """Commit and record; every caller has an outcome then."""
        try:
            async with self._writing():
                known = self._last  # it was not recorded, perhaps, when they came
                new = [(one.id, one.entry) for one in batch if one.id not in known]
                if new:
                    await self._take(self._step(self.tree, new))
                    await self._settle()
                    await self._discard()
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            self._refuse(batch, error)
        else:
            for id, _, caller in batch:
                appended = self._last[id] if id in self._last else known[id]
                for one in (caller, *self._callers.pop(id)):
                    if not one.done():
                        one.set_result(appended)

    def _refuse(self, batch: Sequence[_Waiting], error: Exception) -> None:
        if not isinstance(error, Unavailable):
            if not isinstance(error, Problem):
                self._logger.error("a batch of the log failed", log=self.name, exc_info=error)
            error = Unavailable("the log takes no entries now", cause=f"{type(error).__name__}: {error}")
        for id, _, caller in batch:
            for one in (caller, *self._callers.pop(id)):
                if not one.done():
                    one.set_exception(error)

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[None]:
        """The writer for one who uses it, when it is clear what became of the last commit."""
        async with self._turn:
            if self.stopped is not None:
                raise self.stopped
            try:
                await self._resolve()
                yield
            except (LogMoved, LogCorrupt) as error:
                self.stopped = error
                self._logger.critical("the log is not written any more: restart the service", log=self.name, error=error.detail)
                raise

    async def _resolve(self) -> None:
        if self._doubtful is not None:
            head = await self._writer.head()
            if head == self._doubtful.tree.head:
                self._accept(self._doubtful)
            elif head != self._doubtful.before:
                raise LogMoved("the head of the log is neither the one before nor the one after the last commit")
            self._doubtful = None
        await self._settle()

    async def _take(self, step: _Step) -> None:
        """Commit one step."""
        faults.point("mtc.log.commit")
        try:
            await self._writer.commit(step.before, step.tree.head, step.objects)
        except Unavailable:
            self._doubtful = step
            raise
        self._accept(step)
        faults.point("mtc.log.committed")

    def _accept(self, step: _Step) -> None:
        if step.tree.size != self.size:
            self._remember(step.tree.state.last)
        self._garbage = step.tree.state.superseded
        self._tree = step.tree

    def _remember(self, last: Batch) -> None:
        start, end = last.start, last.end
        self._last = {id: Appended(index, start, end) for index, id in enumerate(last.ids, start)}
        self._unrecorded = last

    async def _settle(self) -> None:
        """Have the last batch recorded."""
        if self._unrecorded is not None:
            if self._unrecorded.ids != ("",):
                await self._record(self._unrecorded)
            self._unrecorded = None
            faults.point("mtc.log.recorded")

    async def _discard(self) -> None:
        """What the last commit made superfluous: when it fails, or is cut off, it is done later."""
        if self._garbage:
            try:
                await self._writer.discard(self._garbage)
                self._garbage = ()
            except Unavailable as problem:
                self._logger.warning("objects of the log that are not needed stay", log=self.name, error=problem.cause)

    def _step(self, tree: Tree, batch: Sequence[tuple[str, bytes]]) -> _Step:
        """The log with a batch at its end."""
        if tree.size + len(batch) > MAX_SIZE:
            raise LogCorrupt("the log is full")
        state, start, old = tree.state, tree.edge.size, tree.edge.bundle
        edge, objects = tiles.append(tree.hash, tree.edge, [entry for _, entry in batch])
        staged, partials, garbage = state.staged, state.partials, self._garbage
        if edge.size >> 8 != start >> 8:
            partials = tuple(name for name in partials if not is_full(name, edge.size))
            garbage = (*garbage, *map(staged_name, staged), *(name for name in state.partials if name not in partials))
            staged, old, start = (), b"", edge.size >> 8 << 8
        if len(edge.bundle) > len(old):
            objects[staged_name(start)] = edge.bundle[len(old) :]
            staged = (*staged, start)
        last = Batch(tree.edge.size, tuple(id for id, _ in batch))
        after = tree.grown(edge, State(state.made, edge.encode(), last, staged, partials, garbage))
        return _Step(tree.head if tree.size else None, after, objects)

    async def _partials(self, size: int) -> dict[str, bytes]:
        """The partial objects of a size that are not stored, and whose full ones are not there."""
        if not 0 < size <= self.size:
            raise OutOfRange(f"the log has {self.size} entries, not {size}")
        objects = {}
        for level in (None, *range((size.bit_length() + 7) // 8)):
            shift = 8 * (level or 0)
            name = TileName(level, size >> shift + 8, size >> shift & 0xFF)
            if name.width and not self.tree.is_full(name) and name.path not in self.tree.state.partials:
                content = await self.read(name)
                assert content is not None
                objects[name.path] = content
        return objects
