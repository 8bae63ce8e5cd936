"""A log against a model of its tree: entries come, checkpoints and landmarks are made, disks fail, processes end, old copies come back."""

import asyncio
import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from greatseal.api.problems import StartProblem, Unavailable, Uncertain
from greatseal.testing.store import open_test_database
from greatseal_mtc import merkle, sequencer
from greatseal_mtc.backends.files import FilesBackend
from greatseal_mtc.backends.sql import SqlBackend
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.sequencer import Log, Witnessed
from greatseal_mtc.state import Batch, Made, entries_of
from greatseal_mtc.tables import SCHEMA
from greatseal_mtc.tiles import TileCache, TileName
from greatseal_mtc.views import LogView

MADE = Made("sha256", "plants-05", 1, "32473.1")
NAME = "default-1"
SETTINGS = settings(
    max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.reuse, Phase.generate)
)


class Machine(RuleBasedStateMachine):
    """The log of one CA over its life. ``entries`` is the model; what was told outside is in ``rows`` and ``signed``."""

    sql = False

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="mtc-machine-"))
        self.entries = [sequencer.NULL]
        self.rows: dict[str, int] = {}
        self.signed: dict[int, bytes] = {}
        self.landmarks: list[int] = []
        self.published = 0
        self.unsure: list[str] = []
        """Ids whose callers were refused: they may be in the log, or not."""
        self.fail: list[str] = []
        self.copies: list[tuple[Path, int]] = []
        self.count = 0

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    # ---- The life of the process

    @initialize()
    def begin(self) -> None:
        self.run(self.open())

    async def open(self) -> None:
        self.stack = AsyncExitStack()
        place = self.folder / "log"
        place.mkdir(exist_ok=True)
        if self.sql:
            self.backend = SqlBackend(await self.stack.enter_async_context(open_test_database(f"sqlite:///{place}/greatseal.db", SCHEMA)))
        else:
            self.backend = FilesBackend(place)
        witnessed = [Witnessed(size, root) for size, root in self.signed.items()]
        if self.rows:
            witnessed.append(Witnessed(max(self.rows.values()) + 1))
        logger = structlog.get_logger()
        opening = Log.open(
            self.backend,
            NAME,
            MADE,
            record=self.record,
            cache=TileCache(100_000),
            logger=logger,
            witnessed=witnessed,
            recorded=max(self.rows.values(), default=0) + 1,
        )
        try:
            self.log = await self.stack.enter_async_context(opening)
        except BaseException:
            await self.stack.aclose()
            raise
        self.commit, self.log._writer.commit = self.log._writer.commit, self.failing  # type: ignore[method-assign]

    async def failing(self, before, after, objects) -> None:
        match self.fail.pop() if self.fail else "":
            case "disk":
                raise Unavailable("the disk is full")
            case "answer":
                await self.commit(before, after, objects)
                raise Uncertain("the connection went away")
        await self.commit(before, after, objects)

    async def record(self, batch: Batch) -> None:
        if self.fail and self.fail[-1] == "record":
            self.fail.pop()
            raise Unavailable("the database cannot be used now")
        for index, id in enumerate(batch.ids, batch.start):
            assert self.rows.setdefault(id, index) == index
            self.model(id, index)

    def model(self, id: str, index: int) -> None:
        if index < len(self.entries):
            assert self.entries[index] == entry_of(id)
        else:
            assert index == len(self.entries)
            self.entries.append(entry_of(id))

    @rule()
    def restart(self) -> None:
        self.fail.clear()
        self.run(self.stack.aclose())
        self.run(self.open())

    @rule()
    def kill(self) -> None:
        """What is on the disk now is all that the next process has."""
        self.fail.clear()
        shutil.copytree(self.folder / "log", self.folder / "left")
        self.run(self.stack.aclose())
        shutil.rmtree(self.folder / "log")
        (self.folder / "left").rename(self.folder / "log")
        self.run(self.open())

    @rule()
    def back_up(self) -> None:
        """A copy of everything, of a moment."""
        self.run(self.stack.aclose())
        copy, is_first = self.folder / "backup", not self.copies
        if is_first:
            shutil.copytree(self.folder / "log", copy)
        self.fail.clear()
        self.run(self.open())
        if is_first:  # what was committed without an answer is in the copy, and recorded now
            self.copies.append((copy, max(self.rows.values(), default=0)))

    @precondition(
        lambda self: (
            self.copies and (max(self.signed, default=0) > self.copies[0][1] + 1 or max(self.rows.values(), default=0) > self.copies[0][1])
        )
    )
    @rule()
    def put_an_older_copy_back(self) -> None:
        self.fail.clear()
        self.run(self.stack.aclose())
        (self.folder / "log").rename(self.folder / "good")
        shutil.copytree(self.copies[0][0], self.folder / "log")
        with pytest.raises(StartProblem, match="an older copy was put back"):
            self.run(self.open())
        shutil.rmtree(self.folder / "log")
        (self.folder / "good").rename(self.folder / "log")
        self.run(self.open())

    # ---- What it does

    @rule(failure=st.sampled_from(["disk", "answer", "record"]))
    def something_will_fail(self, failure: str) -> None:
        self.fail.append(failure)

    @rule(count=st.sampled_from([1, 1, 2, 5, 60, 255, 256, 300]), again=st.integers(0, 3))
    def append(self, count: int, again: int) -> None:
        ids = [f"id{number}" for number in range(self.count, self.count + count)]
        self.count += count
        ids += self.unsure[:again]
        self.unsure = self.unsure[again:]
        asked = [id for id in ids if id not in self.rows]

        async def work() -> list:
            return await asyncio.gather(*(self.log.append(id, entry_of(id)) for id in asked), return_exceptions=True)

        for id, found in zip(asked, self.run(work()), strict=True):
            if isinstance(found, Unavailable):
                self.unsure.append(id)
            else:
                assert found.index == self.rows[id]
                assert found.start <= found.index < found.end

    @rule()
    def checkpoint(self) -> None:
        size, root = self.log.head
        assert self.signed.setdefault(size, root) == root
        try:
            self.run(self.log.publish(size, f"{size}\n".encode()))
        except Unavailable:
            return
        self.published = size

    @precondition(lambda self: self.signed)
    @rule()
    def landmark(self) -> None:
        newest = max(self.signed)
        if newest > (self.landmarks or [0])[-1]:
            self.landmarks.append(newest)
        del self.landmarks[:-5]

    @precondition(lambda self: len(self.signed) > 3)
    @rule()
    def prune(self) -> None:
        """Rows of old checkpoints go; what was signed stays true, and the landmarks stay."""
        for size in sorted(self.signed)[:-2]:
            del self.signed[size]

    # ---- What always holds

    @invariant()
    def the_log_is_the_model(self) -> None:
        size, root = self.log.head
        leaves = [SHA256.leaf(one) for one in self.entries]
        if self.log._is_behind():  # the storage has entries of which nobody was told yet
            assert size >= len(self.entries) or self.log._doubtful is not None
            return
        assert (size, root) == (len(leaves), merkle.root(SHA256, leaves))
        self.run(self.check(size, root, leaves))

    async def check(self, size: int, root: bytes, leaves: list[bytes]) -> None:
        for older, signed in self.signed.items():
            assert merkle.root(SHA256, leaves[:older]) == signed
            proof = await self.log.consistency(0, older, size)
            merkle.verify_consistency(SHA256, 0, older, size, subtree=signed, root=root, proof=proof)
        for before, landmark in zip([0, *self.landmarks], self.landmarks, strict=False):
            for start, end in merkle.cover(before, landmark):
                index = max(start, before)
                found = await self.log.inclusion(index, start, end)
                expected = merkle.root(SHA256, leaves[start:end])
                assert merkle.evaluate(SHA256, start, end, index, leaf=leaves[index], proof=found) == expected
        view = LogView(NAME, self.backend.reader(NAME), TileCache(10_000))
        assert await view.refresh()
        assert view.head == (size, root)
        last = await view.read(TileName(None, size - 1 >> 8, (size - 1 & 0xFF) + 1))
        assert entries_of(last)[0] == self.entries[size - 1 >> 8 << 8 :]
        if self.published:
            note = await self.backend.reader(NAME).published("checkpoint")
            assert int(note) >= self.published

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.fail.clear()
            self.run(self.stack.aclose())
        self.loop.close()
        shutil.rmtree(self.folder)


def entry_of(id: str) -> bytes:
    return b"\x00\x00\x00\x01" + id.encode()


class SqlMachine(Machine):
    """The same in a database."""

    sql = True


TestFilesMachine = Machine.TestCase
TestFilesMachine.settings = SETTINGS
TestSqlMachine = SqlMachine.TestCase
TestSqlMachine.settings = SETTINGS
