"""A log is killed at every durable step of an append and of a checkpoint, on each backend; a witness outside sees all that ever left it.

What the process told anybody is in files beside the log: the indices that callers got, the rows that it recorded, the checkpoints that
it signed. ``make test`` runs a spread of 40 kills on each backend, ``make test-faults`` 200 at each point (GREATSEAL_FAULT_KILLS
changes that).
"""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from time import monotonic

import psycopg
import pytest
import structlog
from faults.test_kills import ALL, KILLS

from greatseal import faults
from greatseal.api.log import LogBackend, LogMoved
from greatseal.api.problems import StartProblem, Unavailable
from greatseal.testing.kills import KILLED, run_apart
from greatseal.testing.store import open_test_database
from greatseal_mtc import merkle
from greatseal_mtc.backends import files
from greatseal_mtc.backends.files import FilesBackend
from greatseal_mtc.backends.sql import SqlBackend
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.sequencer import Log, Witnessed
from greatseal_mtc.state import Batch, Made, entries_of
from greatseal_mtc.tables import SCHEMA
from greatseal_mtc.tiles import TileCache, TileName

MADE = Made("sha256", "plants-05", 1, "32473.1")
NAME = "default-1"
LOG_POINTS = ("mtc.log.commit", "mtc.log.committed", "mtc.log.recorded", "mtc.log.partials", "mtc.log.published")
FILE_POINTS = tuple(f"mtc.files.{step}" for step in ("journal", "written", "durable", "object", "committed", "settled"))
SQL_POINTS = ("db.commit", "db.committed")
CALLERS = 12
BRIEF = 100_000
"""Bytes of a segment of the journal that is full several times in the life of a process here."""

Opened = Callable[[], AbstractAsyncContextManager[LogBackend]]


class Place:
    """Where a log rests, and what is known of it outside."""

    def __init__(self, folder: Path, url: str = "") -> None:
        self.folder = folder
        self.url = url
        self.points = LOG_POINTS
        if not url:
            self.points += FILE_POINTS if files.SEGMENT < BRIEF else FILE_POINTS[:-1]
        else:
            self.points += ("db.begun", *SQL_POINTS) if url.startswith("sqlite") else SQL_POINTS

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[LogBackend]:
        if self.url:
            async with open_test_database(self.url, SCHEMA) as database:
                yield SqlBackend(database)
        else:
            yield FilesBackend(self.folder)

    @asynccontextmanager
    async def log(self) -> AsyncIterator[Log]:
        """The log, held as soon as whoever was killed is missed; it has all that left it."""
        witnessed = [Witnessed(int(size), bytes.fromhex(root)) for size, root in self.lines("signed")]
        witnessed += [Witnessed(int(index) + 1) for _, index in self.lines("rows")]
        patience = monotonic() + 10
        async with self.opened() as backend:
            while True:
                opening = Log.open(
                    backend, NAME, MADE, record=self.record, cache=TileCache(1 << 20), logger=structlog.get_logger(), witnessed=witnessed
                )
                try:
                    log = await opening.__aenter__()
                    break
                except StartProblem as problem:
                    if "stop that one first" not in str(problem) or monotonic() > patience:
                        raise
                await asyncio.sleep(0.02)
            try:
                yield log
            finally:
                await opening.__aexit__(None, None, None)

    async def record(self, batch: Batch) -> None:
        """As the plugin writes its rows: those that are there stay."""
        there = {id for id, _ in self.lines("rows")}
        for index, id in enumerate(batch.ids, batch.start):
            if id not in there:
                self.tell("rows", id, index)

    def tell(self, kind: str, *words: object) -> None:
        """Write a line down, outside of the log; it outlives the process."""
        with (self.folder / kind).open("ab", buffering=0) as file:
            file.write((" ".join(map(str, words)) + "\n").encode())

    def lines(self, kind: str) -> list[list[str]]:
        path = self.folder / kind
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(params=["files", "files with a brief journal", "sqlite", "postgresql"])
def place(request, tmp_path, monkeypatch) -> Place:
    match request.param:
        case "sqlite":
            return Place(tmp_path, f"sqlite:///{tmp_path}/greatseal.db")
        case "postgresql":
            return Place(tmp_path, request.getfixturevalue("postgres_url"))
        case "files with a brief journal":
            monkeypatch.setattr(files, "SEGMENT", 4096)
    return Place(tmp_path)


def entry_of(id: str) -> bytes:
    return b"\x00\x00\x00\x01" + id.encode() * 5


def work(place: Place, plan: str, number: int, seconds: float = 120.0):
    """The work of a process that is to be killed: callers that ask again for what got no answer, and checkpoints all the time."""

    async def run() -> None:
        faults.point = faults.passed
        async with place.log() as log:
            faults.arm(plan)
            end = monotonic() + seconds
            known = {id for id, _ in place.lines("rows")}
            lost = [id for (id,) in place.lines("asked") if id not in known]

            async def caller(which: int) -> None:
                count = 0
                while monotonic() < end:
                    count += 1
                    id = lost.pop() if lost else f"p{number}-c{which}-{count}"
                    if id.startswith(f"p{number}-"):
                        place.tell("asked", id)
                    appended = await log.append(id, entry_of(id))
                    place.tell("told", id, appended.index)

            async def signer() -> None:
                while monotonic() < end:
                    size, root = log.head
                    place.tell("signed", size, root.hex())
                    await log.publish(size, f"{size}\n{root.hex()}\n".encode())
                    await asyncio.sleep(0)

            await asyncio.gather(signer(), *(caller(which) for which in range(CALLERS)))

    return run


async def check(place: Place) -> tuple[int, int]:
    """What holds after every kill: the log's size, and how many checkpoints the witness saw."""
    async with place.log() as log:
        size = log.size
        entries: list[bytes] = []
        for number in range((size + 255) // 256):
            bundle = await log.read(TileName(None, number, min(256, size - number * 256)))
            assert bundle is not None
            entries += entries_of(bundle)[0]
        assert len(entries) == size
        assert merkle.root(SHA256, list(map(SHA256.leaf, entries))) == log.root
        rows = {int(index): id for id, index in place.lines("rows")}
        assert len(rows) == len(place.lines("rows")), "an index was recorded twice"
        assert [rows.get(index) for index in range(1, size)] == [entry[4:].decode()[: len(entry[4:]) // 5] for entry in entries[1:]]
        assert len(set(entries)) == size, "an id was appended twice"
        for id, index in place.lines("told"):
            assert entries[int(index)] == entry_of(id), "an index that was promised is another's"
        signed = {(int(size), root) for size, root in place.lines("signed")}
        assert len({size for size, _ in signed}) == len(signed), "two checkpoints of one size differ"
        for older, root in signed:
            proof = await log.consistency(0, older, size)
            merkle.verify_consistency(SHA256, 0, older, size, subtree=bytes.fromhex(root), root=log.root, proof=proof)
    async with place.opened() as backend:
        note = await backend.reader(NAME).published("checkpoint")
        if note is not None:
            published, root = note.decode().split()
            assert (int(published), root) in signed
            await check_partials(backend, int(published), entries)
    return size, len(signed)


async def check_partials(backend: LogBackend, size: int, entries: list[bytes]) -> None:
    """A web server has every tile of the checkpoint that is published: partial ones too, until they are full."""
    for number in range((size + 255) // 256):
        width = min(256, size - number * 256)
        content = await backend.reader(NAME).read(TileName(0, number, width).path) or await backend.reader(NAME).read(
            TileName(0, number).path
        )
        assert content is not None
        assert content[: width * 32] == b"".join(map(SHA256.leaf, entries[number * 256 : number * 256 + width]))


def kill(place: Place, plan: list[tuple[str, int]]) -> str:
    """Carry out the plan, and check after each of the first, and at the end."""
    for number, (point, hit) in enumerate(plan):
        assert run_apart(work(place, f"{point}:kill:{hit}", number)) == KILLED, f"{point} was not passed {hit} times"
        if number < 20 or number % 20 == 0:
            asyncio.run(check(place))
    size, signed = asyncio.run(check(place))
    return f"{len(plan)} kills, {size} entries, {signed} checkpoints"


@pytest.mark.timeout(300)
def test_f04_a_spread_of_kills_gives_no_index_twice_and_forks_nothing(place, record_property):
    hits = (1, 2, 4, 7, 11, 16)
    spread = [(point, hit) for hit in hits for point in place.points][:40]
    record_property("figures", kill(place, spread))


@ALL
@pytest.mark.timeout(3600)
def test_f04_two_hundred_kills_at_each_point(place, record_property):
    chosen = random.Random(0)
    record_property("figures", kill(place, [(point, chosen.randint(1, 30)) for point in place.points for _ in range(KILLS)]))


@pytest.mark.timeout(60)
def test_f05_a_holder_that_wakes_up_after_another_took_over_writes_nothing(place):
    async def sleeper() -> None:
        async with place.log() as log:
            await log.append("a", entry_of("a"))
            size, root = log.head
            place.tell("signed", size, root.hex())
            os.kill(os.getpid(), signal.SIGSTOP)
            with pytest.raises(Unavailable):
                await log.append("of the one that slept", b"\x00\x00\x00\x01it")
            assert isinstance(log.stopped, LogMoved)
            with pytest.raises(LogMoved):
                await log.publish(size, b"an old note")

    async def next_one() -> None:
        async with place.log() as log:
            for id in "bcd":
                place.tell("told", id, (await log.append(id, entry_of(id))).index)
            place.tell("signed", log.size, log.root.hex())
            await log.publish(log.size, f"{log.size}\n{log.root.hex()}\n".encode())

    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            asyncio.run(sleeper())
            code = 0
        os._exit(code)
    _, status = os.waitpid(child, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    lose(place)
    assert run_apart(next_one) == 0
    os.kill(child, signal.SIGCONT)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert asyncio.run(check(place)) == (5, 2)


def lose(place: Place) -> None:
    """The lock of the sleeper is taken away from it."""
    if place.url.startswith("postgresql"):
        with psycopg.connect(place.url, autocommit=True) as connection:
            ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND pid != %s"
            assert connection.execute(ended, [connection.info.backend_pid]).fetchall() == [(True,)]
        return
    (lock,) = [*place.folder.glob("*.hold"), *place.folder.glob("*/.log/lock")]
    lock.unlink()
