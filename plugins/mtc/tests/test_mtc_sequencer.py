"""The sequencer: batches, what a log is made with, what it finds at its start, and reads of any size."""

import asyncio
from contextlib import asynccontextmanager
from hashlib import sha256

import msgspec
import pytest
import structlog

from greatseal.api.log import LogCorrupt, LogHead, LogMoved
from greatseal.api.problems import StartProblem, Unavailable, Uncertain
from greatseal.testing.store import open_test_database
from greatseal_mtc import merkle, sequencer, tiles
from greatseal_mtc.backends.files import FilesBackend
from greatseal_mtc.backends.sql import SqlBackend
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.sequencer import Appended, Log, Witnessed
from greatseal_mtc.state import Batch, Made, Tree
from greatseal_mtc.tables import SCHEMA
from greatseal_mtc.tiles import TileCache, TileName
from greatseal_mtc.views import LogView, OutOfRange

MADE = Made("sha256", "plants-05", 1, "32473.1")
NAME = "default-1"


class Bench:
    """A backend, and what was recorded of its log."""

    def __init__(self, backend) -> None:
        self.backend = backend
        self.recorded: dict[str, int] = {}
        self.batches: list[Batch] = []
        self.failures: list[Exception] = []
        self.told = asyncio.Event()

    async def record(self, batch: Batch) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append(batch)
        for index, id in enumerate(batch.ids, batch.start):
            assert self.recorded.setdefault(id, index) == index
        self.told.set()

    @asynccontextmanager
    async def log(self, made: Made = MADE, *, witnessed=(), recorded=None, backend=None):
        async with Log.open(
            backend or self.backend,
            NAME,
            made,
            record=self.record,
            cache=TileCache(1 << 20),
            logger=structlog.get_logger(),
            witnessed=witnessed,
            recorded=recorded,
        ) as log:
            yield log


@pytest.fixture(params=["files", "sqlite", "postgresql"])
async def bench(request, tmp_path):
    if request.param == "files":
        yield Bench(FilesBackend(tmp_path))
        return
    url = f"sqlite:///{tmp_path}/greatseal.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    async with open_test_database(url, SCHEMA) as database:
        yield Bench(SqlBackend(database))


@pytest.fixture
def files(tmp_path):
    return Bench(FilesBackend(tmp_path))


def entry(number: int) -> bytes:
    return b"\x00\x00\x00\x01" + f"entry {number} ".encode() * (1 + number % 7)


def leaves(count: int) -> list[bytes]:
    return [SHA256.leaf(sequencer.NULL), *(SHA256.leaf(entry(number)) for number in range(1, count))]


async def fill(log: Log, size: int) -> None:
    """Append up to that size."""
    begin = log.size
    found = await asyncio.gather(*(log.append(f"id{number}", entry(number)) for number in range(begin, size)))
    assert [one.index for one in found] == list(range(begin, size))


async def test_ca_064_the_null_entry_has_index_0_and_the_first_certificate_1(bench):
    async with bench.log() as log:
        assert log.head == (1, SHA256.leaf(b"\x00\x00\x00\x00"))
        assert await log.append("a", entry(1)) == Appended(1, 1, 2)
        assert await log.entry(0) == b"\x00\x00\x00\x00"
    assert bench.recorded == {"a": 1}


async def test_a_batch_is_what_came_while_a_commit_ran(bench):
    async with bench.log() as log:
        first = asyncio.gather(*(log.append(f"a{number}", entry(number)) for number in range(300)))
        found = await first
    assert {(one.start, one.end) for one in found} == {(1, 257), (257, 301)}
    assert [batch.start for batch in bench.batches] == [1, 257]
    assert [bench.recorded[f"a{number}"] for number in range(300)] == list(range(1, 301))


@pytest.mark.parametrize("size", [2, 255, 256, 257, 511, 700])
async def test_ca_070_roots_proofs_entries_and_tiles_of_every_size(bench, size):
    hashes = leaves(size)
    async with bench.log() as log:
        await fill(log, size)
        assert log.head == (size, merkle.root(SHA256, hashes))
        offline = LogView(NAME, bench.backend.reader(NAME), TileCache(1 << 20))
        assert await offline.refresh()
        for view in (log, offline):
            await check_view(view, hashes)
    async with bench.log() as log:
        assert log.head == (size, merkle.root(SHA256, hashes))
        await check_view(log, hashes)
        await fill(log, size + 3)
        await check_view(log, leaves(size + 3))


async def check_view(view: LogView, hashes: list[bytes]) -> None:
    size = len(hashes)
    old = [*range(0, size, 97), size - 1, size]
    assert [await view.root_at(one) for one in old] == [merkle.root(SHA256, hashes[:one]) for one in old]
    for index in (0, 1, size // 2, size - 1):
        assert await view.leaf(index) == hashes[index]
        assert await view.entry(index) == (entry(index) if index else sequencer.NULL)
        proof = await view.inclusion(index, 0, size)
        assert merkle.evaluate(SHA256, 0, size, index, leaf=hashes[index], proof=proof) == view.root
    for one in old[1:]:
        proof = await view.consistency(0, one, size)
        merkle.verify_consistency(SHA256, 0, one, size, subtree=merkle.root(SHA256, hashes[:one]), root=view.root, proof=proof)
    for start, end in merkle.cover(size // 3, size):
        assert await view.subtree_root(start, end) == merkle.root(SHA256, hashes[start:end])
    for width in (1, 2, 255, 256):
        for number in range(3):
            there = width <= 256 and number * 256 + width <= size
            assert await view.read(TileName(0, number, width)) == (b"".join(hashes[number * 256 : number * 256 + width]) if there else None)
            found = await view.read(TileName(None, number, width))
            written = (entry(index) if index else sequencer.NULL for index in range(number * 256, number * 256 + width))
            assert found == (b"".join(map(tiles.frame, written)) if there else None)
    assert await view.read(TileName(1, 0, 1)) == (merkle.root(SHA256, hashes[:256]) if size >= 256 else None)
    assert await view.read(TileName(1, 0, 2)) == (
        merkle.root(SHA256, hashes[:256]) + merkle.root(SHA256, hashes[256:512]) if size >= 512 else None
    )
    assert await view.read(TileName(1, 0)) is None
    assert await view.read(TileName(7, 0, 1)) is None


async def test_what_a_log_does_not_have_is_out_of_range(files):
    async with files.log() as log:
        await fill(log, 10)
        for asked in (
            log.root_at(11), log.root_at(-1), log.subtree_root(1, 3), log.subtree_root(0, 11), log.inclusion(5, 0, 11),
            log.inclusion(5, 6, 8), log.consistency(0, 5, 11), log.consistency(0, 6, 5), log.leaf(10), log.leaf(-1), log.entry(10),
            log.entry(-1), log.publish(11, b""), log.publish(0, b""),
        ):  # fmt: skip
            with pytest.raises(OutOfRange):
                await asked
        with pytest.raises(ValueError, match="65535 at most"):
            await log.append("long", bytes(65536))
        await log.append("just", bytes(65535))


async def test_an_id_gets_one_index_however_often_it_is_asked_for(bench):
    async with bench.log() as log:
        together = await asyncio.gather(*(log.append("a", entry(1)) for _ in range(3)), log.append("b", entry(2)))
        assert together == [Appended(1, 1, 3)] * 3 + [Appended(2, 1, 3)]
        assert await log.append("a", entry(1)) == Appended(1, 1, 3)
    async with bench.log() as log:
        assert await log.append("b", entry(2)) == Appended(2, 1, 3)
        assert log.size == 3


async def test_a_caller_that_goes_away_takes_no_index_with_it(bench):
    async with bench.log() as log:
        gone = asyncio.create_task(log.append("gone", entry(1)))
        stays = asyncio.create_task(log.append("stays", entry(2)))
        again = asyncio.create_task(log.append("gone", entry(1)))
        await asyncio.sleep(0)
        gone.cancel()
        assert (await stays, await again) == (Appended(2, 1, 3), Appended(1, 1, 3))
    assert bench.recorded == {"gone": 1, "stays": 2}


async def test_nothing_is_committed_before_the_last_batch_is_recorded(bench):
    bench.failures = [Unavailable("the database cannot be used now"), ValueError("a fault"), Unavailable("again")]
    async with bench.log() as log:
        for number, cause in enumerate(["the database", "ValueError: a fault", "again"]):
            with pytest.raises(Unavailable) as refused:
                await log.append("a", entry(1))
            assert cause in refused.value.detail + refused.value.cause, number
            assert log.size == 2
        assert await log.append("b", entry(2)) == Appended(2, 2, 3)
        assert bench.recorded == {"a": 1, "b": 2}


async def test_a_start_records_the_last_batch(bench):
    bench.failures = [Unavailable("killed here")]
    async with bench.log() as log:
        with pytest.raises(Unavailable):
            await asyncio.gather(*(log.append(id, entry(1)) for id in "ab"))
    assert bench.recorded == {}
    async with bench.log() as log:
        assert bench.recorded == {"a": 1, "b": 2}
        assert await log.append("a", entry(1)) == Appended(1, 1, 3)


async def test_an_end_writes_what_waits_and_then_refuses(bench):
    async with bench.log() as log:
        waiting = [asyncio.create_task(log.append(f"a{number}", entry(number))) for number in range(600)]
        await asyncio.sleep(0)
    assert [task.result().index for task in waiting] == list(range(1, 601))
    with pytest.raises(Unavailable, match="takes no entries"):
        await log.append("late", entry(1))


async def test_too_many_that_wait_are_refused(files, monkeypatch):
    monkeypatch.setattr(sequencer, "WAITING", 3)
    async with files.log() as log:
        found = await asyncio.gather(*(log.append(f"a{number}", entry(number)) for number in range(5)), return_exceptions=True)
    assert [one.index for one in found[:3]] == [1, 2, 3]
    assert [type(one) for one in found[3:]] == [Unavailable] * 2


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Made("sha384", "plants-05", 1, "32473.1"), "hash_alg 'sha256', the configuration says 'sha384'"),
        (Made("sha256", "plants-07", 1, "32473.1"), "dialect 'plants-05', the configuration says 'plants-07'"),
        (Made("sha256", "plants-05", 2, "32473.1"), "log_number 1, the configuration says 2"),
        (Made("sha256", "plants-05", 1, "32473.2"), "trust_anchor_id '32473.1', the configuration says '32473.2'"),
    ],
)
async def test_ca_055_a_log_keeps_what_it_was_made_with(files, other, said):
    async with files.log():
        pass
    with pytest.raises(StartProblem, match=said) as refused:
        async with files.log(other):
            pass
    assert "open the next log number" in str(refused.value)


@pytest.mark.parametrize("name", ["sha384", "sha512", "sha3-256", "sha3-384", "sha3-512"])
async def test_ca_056_every_hash_function_makes_a_log(files, name):
    made = Made(name, "plants-05", 1, "32473.1")
    async with files.log(made) as log:
        await asyncio.gather(*(log.append(f"id{number}", entry(number)) for number in range(300)))
        root = log.root
    async with files.log(made) as log:
        assert log.root == root
        proof = await log.inclusion(7, 0, 301)
        assert merkle.evaluate(log.hash, 0, 301, 7, leaf=await log.leaf(7), proof=proof) == root
        assert len(root) in {32, 48, 64}


async def test_f05_a_second_process_gets_an_immediate_error(bench):
    async with bench.log():
        with pytest.raises(StartProblem, match="stop that one first"):
            async with bench.log():
                pass


async def test_f27_a_log_that_has_less_than_was_seen_of_it_does_not_start(files, tmp_path):
    async with files.log() as log:
        await fill(log, 300)
        seen = [Witnessed(300), Witnessed(*log.head), Witnessed(200, await log.root_at(200)), Witnessed(290)]
    async with files.log(witnessed=seen):
        pass
    for wrong, said in (
        ([Witnessed(301)], "has 300 entries, and had 301: an older copy was put back"),
        ([Witnessed(200, bytes(32))], "another root at size 200 than was signed"),
        ([*seen, Witnessed(300, bytes(32))], "another root at size 300"),
    ):
        with pytest.raises(StartProblem, match=said):
            async with files.log(witnessed=wrong):
                pass
    with pytest.raises(StartProblem, match="is empty, and had 300 entries: it was lost"):
        async with Bench(FilesBackend(tmp_path / "empty")).log(witnessed=seen):
            pass


async def test_f27_a_log_that_has_more_than_its_last_batch_unrecorded_does_not_start(bench):
    async with bench.log(recorded=0) as log:
        await fill(log, 300)
        await fill(log, 310)
    for recorded in (300, 310):
        async with bench.log(recorded=recorded):
            pass
    for recorded in (0, 1, 299):
        with pytest.raises(StartProblem, match=f"has 310 entries, and the database knows those below {recorded} alone: an older copy"):
            async with bench.log(recorded=recorded):
                pass


@pytest.mark.parametrize("lost", ["tile/0/001", "staged"])
@pytest.mark.parametrize("how", ["gone", "other"])
async def test_f27_parts_that_do_not_fit_stop_the_start(files, tmp_path, lost, how):
    async with files.log() as log:
        await fill(log, 512)
        await fill(log, 520)
    folder = tmp_path / NAME
    path = folder / ".log/objects/staged/512" if lost == "staged" else folder / lost
    content = path.read_bytes()
    path.write_bytes(content[:40] + b"!" + content[41:]) if how == "other" else path.unlink()
    with pytest.raises(StartProblem, match=r"is not there|are not those that were hashed|is not what the tile above"):
        async with files.log():
            pass


async def test_f27_a_storage_that_does_not_hold_what_was_written_stops_the_start_with_what_to_do(files, tmp_path):
    async with files.log() as log:
        await fill(log, 3)
    base = tmp_path / NAME / ".log/base"
    base.write_bytes(base.read_bytes()[:-1])

    with pytest.raises(StartProblem, match="does not hold what was written to it; put back the whole log, or open the next log number"):
        async with files.log():
            pass


class Between:
    """A writer that fails at a commit, before or after it was made."""

    name = "between"

    def __init__(self, backend) -> None:
        self.backend = backend
        self.plan: list[str] = []

    @asynccontextmanager
    async def hold(self, log):
        async with self.backend.hold(log) as self.writer:
            yield self

    async def commit(self, before, after, objects) -> None:
        match self.plan.pop(0) if self.plan else "":
            case "before":
                raise Unavailable("the disk is full")
            case "after":
                await self.writer.commit(before, after, objects)
                raise Uncertain("the connection went away")
            case "moved":
                raise LogMoved("the head moved")
            case "corrupt":
                raise LogCorrupt("other bytes")
        await self.writer.commit(before, after, objects)

    def __getattr__(self, name):
        return getattr(self.writer, name)


async def test_f07_a_commit_that_failed_gives_its_indices_to_the_next(bench):
    between = Between(bench.backend)
    async with bench.log(backend=between) as log:
        between.plan = ["before", "before"]
        for _ in range(2):
            with pytest.raises(Unavailable, match="the disk is full"):
                await log.append("a", entry(1))
        assert await log.append("b", entry(2)) == Appended(1, 1, 2)
        assert await log.append("a", entry(1)) == Appended(2, 2, 3)
    assert bench.recorded == {"b": 1, "a": 2}


async def test_f07_a_commit_without_an_answer_is_looked_up_before_the_next(bench):
    between = Between(bench.backend)
    async with bench.log(backend=between) as log:
        between.plan = ["after", "", "after"]
        with pytest.raises(Unavailable):
            await log.append("a", entry(1))
        assert await log.append("b", entry(2)) == Appended(2, 2, 3)
        with pytest.raises(Unavailable):
            await log.append("c", entry(3))
        assert await log.append("c", entry(3)) == Appended(3, 3, 4)
    assert bench.recorded == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize("failure", ["no answer", "no record"])
async def test_f07_what_failed_is_tried_again_though_nobody_appends(bench, monkeypatch, failure):
    monkeypatch.setattr(sequencer, "AGAIN", 0.01)
    between = Between(bench.backend)
    async with bench.log(backend=between) as log:
        if failure == "no answer":
            between.plan = ["after"]
        bench.failures = [Unavailable("the database cannot be used now")] * 2
        with pytest.raises(Unavailable):
            await log.append("a", entry(1))
        await asyncio.wait_for(bench.told.wait(), 20)
        assert (bench.recorded, log.size) == ({"a": 1}, 2)


@pytest.mark.parametrize("failure", ["moved", "corrupt"])
async def test_a_log_that_another_one_moved_takes_nothing_more(files, failure):
    between = Between(files.backend)
    async with files.log(backend=between) as log:
        between.plan = [failure]
        for _ in range(2):
            with pytest.raises(Unavailable, match="takes no entries"):
                await log.append("a", entry(1))
        assert isinstance(log.stopped, (LogMoved, LogCorrupt))
        with pytest.raises((LogMoved, LogCorrupt)):
            await log.publish(1, b"note")
        assert log.size == 1


async def test_a_checkpoint_is_published_after_its_tiles_and_they_go_when_full_ones_come(files, tmp_path):
    def stored() -> set[str]:
        folder = tmp_path / NAME
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and ".log" not in path.parts}

    async with files.log() as log:
        await fill(log, 20)
        assert stored() == set()
        await log.publish(20, b"note of 20")
        first = {"checkpoint", "tile/0/000.p/20", "tile/entries/000.p/20"}
        assert stored() == first
        await log.publish(20, b"note of 20 again")
        await fill(log, 30)
        await log.publish(25, b"note of 25")
        assert stored() == first | {"tile/0/000.p/25", "tile/entries/000.p/25"}
        assert (tmp_path / NAME / "tile/0/000.p/25").read_bytes() == b"".join(leaves(25))
    async with files.log() as log:
        await fill(log, 300)
        assert stored() == {"checkpoint", "tile/0/000", "tile/entries/000"}
        await log.publish(300, b"note of 300")
        full = {"checkpoint", "tile/0/000", "tile/entries/000"}
        assert stored() == full | {"tile/0/001.p/44", "tile/entries/001.p/44", "tile/1/000.p/1"}
        await log.publish(200, b"an older one")
        assert stored() == full | {"tile/0/001.p/44", "tile/entries/001.p/44", "tile/1/000.p/1"}
        assert (tmp_path / NAME / "checkpoint").read_bytes() == b"an older one"
        await fill(log, 520)
        full |= {"tile/0/001", "tile/entries/001"}
        assert stored() == full | {"tile/1/000.p/1"}


async def test_nothing_is_left_behind_of_entries_that_are_in_a_full_bundle(files, tmp_path):
    staged = tmp_path / NAME / ".log/objects/staged"
    async with files.log() as log:
        for number in range(1, 256):
            await log.append(f"id{number}", entry(number))
            assert len(list(staged.iterdir())) == (number + 1) % 256
        await fill(log, 300)
        assert {path.name for path in staged.iterdir()} == {"256"}


async def test_what_was_not_discarded_is_discarded_at_the_next_start(files, tmp_path):
    staged = tmp_path / NAME / ".log/objects/staged"
    between = Between(files.backend)

    async def fails(names):
        raise Unavailable("the disk does not answer")

    async with files.log(backend=between) as log:
        await fill(log, 100)
        between.discard = fails
        await fill(log, 300)
        assert {path.name for path in staged.iterdir()} == {"0", "1", "256"}
        await fill(log, 310)
    async with files.log() as log:
        assert {path.name for path in staged.iterdir()} == {"256", "300"}


async def test_a_log_of_an_older_head_is_read_while_another_process_goes_on(files):
    async with files.log() as log:
        await fill(log, 200)
        view = LogView(NAME, files.backend.reader(NAME), TileCache(1 << 20))
        await view.refresh()
        await fill(log, 600)
        assert view.head == (200, merkle.root(SHA256, leaves(200)))
        await check_view(view, leaves(200))
        assert await view.refresh()
        await check_view(view, leaves(600))


async def test_an_empty_log_and_a_head_that_cannot_be_read(files):
    view = LogView(NAME, files.backend.reader(NAME), TileCache(1 << 20))
    assert not await view.refresh()
    async with files.backend.hold(NAME) as writer:
        await writer.commit(None, LogHead(size=3, root=sha256(b"").digest(), edge=b"\x93garbage"), {})
    with pytest.raises(LogCorrupt, match="cannot be read"):
        await view.refresh()
    with pytest.raises(StartProblem, match="cannot be read"):
        async with files.log():
            pass


async def test_f07_a_head_that_is_neither_before_nor_after_stops_the_log(files):
    between = Between(files.backend)
    async with files.log(backend=between) as log:
        between.plan = ["before"]
        with pytest.raises(Unavailable):
            await log.append("a", entry(1))
        head = await between.writer.head()
        await between.writer.commit(head, LogHead(size=2, root=bytes(32)), {})
        with pytest.raises(Unavailable, match="takes no entries"):
            await log.append("a", entry(1))
        assert isinstance(log.stopped, LogMoved)


async def test_a_log_that_is_full_takes_nothing_more(files, monkeypatch):
    async with files.log() as log:
        monkeypatch.setattr(sequencer, "MAX_SIZE", 3)
        assert await log.append("a", entry(1)) == Appended(1, 1, 2)
        assert await log.append("b", entry(2)) == Appended(2, 2, 3)
        with pytest.raises(Unavailable, match="takes no entries"):
            await log.append("c", entry(3))
        assert log.size == 3


async def test_a_head_whose_edge_does_not_fit_is_corrupt(files):
    async with files.log() as log:
        await fill(log, 5)
        head, state = log.tree.head, log.tree.state
    for wrong in (
        msgspec.structs.replace(head, size=4),
        msgspec.structs.replace(head, root=bytes(32)),
        msgspec.structs.replace(head, edge=msgspec.structs.replace(state, edge=state.edge[:-1]).encode()),
        msgspec.structs.replace(head, edge=msgspec.structs.replace(state, made=Made("md5", "plants-05", 1, "32473.1")).encode()),
    ):
        with pytest.raises(LogCorrupt):
            Tree.of(wrong)
    assert Tree.of(head).size == 5


async def test_a_bundle_that_is_cut_off_is_corrupt(files, tmp_path):
    async with files.log() as log:
        await fill(log, 300)
        view = LogView(NAME, files.backend.reader(NAME), TileCache(1 << 20))
        await view.refresh()
        bundle, tile = tmp_path / NAME / "tile/entries/000", tmp_path / NAME / "tile/0/000"
        whole = bundle.read_bytes()
        for left in (whole[:-1], whole[: len(tiles.frame(sequencer.NULL)) + 1], whole[: -len(tiles.frame(entry(255)))]):
            bundle.write_bytes(left)
            with pytest.raises(LogCorrupt):
                await view.read(TileName(None, 0))
            with pytest.raises(LogCorrupt):
                await view.entry(255)
        tile.write_bytes(tile.read_bytes()[:-1])
        with pytest.raises(LogCorrupt):
            await view.read(TileName(0, 0))
        with pytest.raises(LogCorrupt):
            await view.inclusion(3, 0, 256)
