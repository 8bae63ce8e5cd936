"""The backends keep the promises of a log backend, and what each promises besides."""

import asyncio
import errno
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greatseal.api.log import LogBackend, LogCorrupt, LogHead, LogWriter
from greatseal.api.problems import Unavailable
from greatseal.testing.logs import LOG, LogBackendContract
from greatseal.testing.schema import schema_matches
from greatseal.testing.store import open_test_database
from greatseal_mtc.backends import files
from greatseal_mtc.backends.files import FilesBackend
from greatseal_mtc.backends.journal import HEADER, Discarded, Segment
from greatseal_mtc.backends.sql import SqlBackend
from greatseal_mtc.tables import SCHEMA


class TestFiles(LogBackendContract):
    """A folder for each log."""

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncIterator[LogBackend]:
        yield FilesBackend(folder)

    async def lose(self, folder: Path) -> bool:
        (folder / LOG / ".log" / "lock").unlink()
        return True


class TestFilesWithBriefJournal(TestFiles):
    """A segment for each record: the files are brought to the disk all the time."""

    @pytest.fixture(autouse=True)
    def brief(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "SEGMENT", 1)


class InOneDatabase(SqlBackend):
    """Logs of several folders of a test."""

    def __init__(self, db, folder: Path) -> None:
        super().__init__(db)
        self._prefix = f"{folder.name[-40:].lower().replace('[', '.').replace(']', '.')}."

    def hold(self, log: str) -> AbstractAsyncContextManager[LogWriter]:
        return super().hold(f"n{self._prefix}{log}")

    def reader(self, log: str):
        return super().reader(f"n{self._prefix}{log}")


class TestSql(LogBackendContract):
    """The tables, on both databases."""

    @pytest.fixture(autouse=True)
    def url(self, database_url: str) -> None:
        self._url = database_url

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncIterator[LogBackend]:
        async with open_test_database(self._url, SCHEMA) as database:
            yield InOneDatabase(database, folder)

    async def lose(self, folder: Path) -> bool:
        if self._url.startswith("sqlite"):
            for file in Path(self._url.removeprefix("sqlite:///")).parent.glob("*.hold"):
                file.unlink()
            return True
        with psycopg.connect(self._url, autocommit=True) as connection:
            ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND pid != %s"
            assert connection.execute(ended, [connection.info.backend_pid]).fetchall() == [(True,)]
        return True


def test_the_tables_are_those_of_the_migrations(database_url: str) -> None:
    assert schema_matches(SCHEMA, database_url) == []


ZERO = LogHead(size=0, root=b"\x00" * 32)
HEADS = [LogHead(size=number, root=bytes([number]) * 32, edge=b"e" * number) for number in range(1, 6)]


def objects_of(number: int) -> dict[str, bytes]:
    return {f"tile/0/{number:03}": bytes([number]) * 3000, f"staged/{number}": b"entries" * number}


async def committed(folder: Path, *, end: bool = True) -> None:
    """Five commits; without ``end`` it looks as after a kill."""
    writer = FilesBackend(folder).hold(LOG)
    held = await writer.__aenter__()
    for before, after in pairwise([None, *HEADS]):
        await held.commit(before, after, objects_of(after.size))
    if end:
        await writer.__aexit__(None, None, None)
    else:
        shutil.copytree(folder / LOG, folder / "copy" / LOG)
        await writer.__aexit__(None, None, None)


async def seen(folder: Path) -> int:
    """The size of the log for the next holder, which has all that it promises and goes on from there."""
    async with FilesBackend(folder).hold(LOG) as writer:
        head = await writer.head()
        size = head.size if head else 0
        assert head == (HEADS[size - 1] if size else None)
        for number in range(1, 6):
            for name, content in objects_of(number).items():
                assert await writer.read(name) == (content if number <= size else None)
        after = LogHead(size=99, root=b"\x63" * 32)
        await writer.commit(head, after, {"tile/0/099": b"one more"})
        assert await FilesBackend(folder).reader(LOG).head() == after
    return size


@pytest.mark.parametrize("lost", ["tile", "heads", ".log/objects", ""])
async def test_f04_files_that_a_power_cut_lost_come_back_from_the_journal(tmp_path: Path, lost: str) -> None:
    await committed(tmp_path, end=False)
    folder = tmp_path / "copy"
    if not lost:  # written in parts
        for file in [*(folder / LOG / "tile").rglob("*"), *(folder / LOG / ".log").glob("head.*")]:
            if file.is_file():
                file.write_bytes(file.read_bytes()[:10])
    elif lost == "heads":
        for file in (folder / LOG / ".log").glob("head.*"):
            file.unlink()
    else:
        shutil.rmtree(folder / LOG / lost)

    assert await seen(folder) == 5


@given(cut=st.integers(0, 20_000), garbage=st.binary(max_size=40))
@settings(max_examples=60, deadline=None)
def test_f04_a_journal_that_was_torn_gives_the_commits_before_it(cut: int, garbage: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(committed(folder, end=False))
        copy = folder / "copy"
        journal = copy / LOG / ".log" / "journal.0"
        whole = journal.read_bytes()
        ends = sorted(record_ends(whole))
        assert len(ends) == 5
        if whole[cut : cut + len(garbage)] == garbage:
            garbage = b""
        journal.write_bytes(whole[:cut] + garbage + whole[cut + len(garbage) :] if garbage else whole[:cut])
        # As if no later file had been written: a record is on the disk before any file that it speaks of.
        shutil.rmtree(copy / LOG / "tile")
        shutil.rmtree(copy / LOG / ".log" / "objects")

        size = asyncio.run(seen(copy))

    assert size == sum(end <= cut for end in ends)


def record_ends(journal: bytes) -> set[int]:
    """Where the records of a journal end; behind the last one are zeros."""
    ends, place = set(), 0
    while (header := HEADER.unpack_from(journal, place))[1]:
        place += HEADER.size + header[2]
        ends.add(place)
    return ends


@pytest.mark.parametrize("point", ["journal", "written", "durable", "object"])
@pytest.mark.parametrize("hits", [1, 2])
@pytest.mark.parametrize("failure", ["enospc", "eio"])
async def test_f07_a_commit_that_cannot_be_written_leaves_the_log_as_it_was(tmp_path, monkeypatch, point, hits, failure) -> None:
    async with FilesBackend(tmp_path).hold(LOG) as writer:
        await writer.commit(None, HEADS[0], objects_of(1))
        failing(monkeypatch, f"mtc.files.{point}", failure, hits if point == "object" else 1)
        with pytest.raises(Unavailable):
            await writer.commit(HEADS[0], HEADS[1], objects_of(2))
        for reader in (writer, FilesBackend(tmp_path).reader(LOG)):
            assert await reader.head() == HEADS[0]
            assert [await reader.read(name) for name in objects_of(2)] == [None, None]
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / LOG, copy / LOG)
        other = LogHead(size=2, root=b"\x17" * 32)
        await writer.commit(HEADS[0], other, {"tile/0/002": b"of another batch"})
        assert await FilesBackend(tmp_path).reader(LOG).head() == other
    assert await seen(copy) == 1


def failing(monkeypatch, name: str, failure: str, hit: int) -> None:
    """The disk fails at that point."""
    hits = itertools.count(1)
    number = errno.ENOSPC if failure == "enospc" else errno.EIO

    def point(passed: str) -> None:
        if passed == name and next(hits) == hit:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.faults, "point", point)


async def test_f07_files_that_could_not_be_synced_are_written_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(files, "SEGMENT", 1)
    async with FilesBackend(tmp_path).hold(LOG) as writer:
        failing(monkeypatch, "mtc.files.settled", "eio", 1)
        for before, after in pairwise([None, *HEADS]):
            await writer.commit(before, after, objects_of(after.size))
    assert await seen(tmp_path) == 5


async def test_f07_a_full_disk_is_an_outage_and_no_more(small_disk) -> None:
    head: LogHead | None = None
    number = 0
    async with FilesBackend(small_disk).hold(LOG) as writer:

        async def commit() -> None:
            nonlocal head, number
            after = LogHead(size=number + 1, root=bytes(32))
            await writer.commit(head, after, {f"tile/0/{number:03}": os.urandom(150_000), f"staged/{number}": os.urandom(50_000)})
            head, number = after, number + 1

        async def fill() -> None:
            for _ in range(1000):
                await commit()

        with pytest.raises(Unavailable):
            await fill()
        assert 5 < number < 1000
        assert await FilesBackend(small_disk).reader(LOG).head() == head
        await writer.discard([f"staged/{one}" for one in range(number)])
        (small_disk / "filler").unlink()
        for _ in range(5):
            await commit()
    async with FilesBackend(small_disk).hold(LOG) as writer:
        assert await writer.head() == head
        assert all([await writer.read(f"tile/0/{one:03}") for one in range(number)])


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 16 MiB, of which a file takes 2."""
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    (place / "filler").write_bytes(bytes(2 << 20))
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize(
    "name", ["../up", "tile/../../up", ".log/base", "tile/.hidden", "/etc/passwd", "tile//0", "tile/", "", "a\0b", "ä", "a b"]
)
async def test_f27_an_odd_name_is_no_file_outside_of_the_log(tmp_path, name) -> None:
    async with FilesBackend(tmp_path).hold(LOG) as writer:
        await writer.commit(None, ONE_HEAD, {"tile/0/001": b"there"})
        assert await writer.read(name) is None
        assert await writer.published(name) is None
        await writer.discard([name])
        for refused in (writer.commit(ONE_HEAD, HEADS[1], {name: b"x"}), writer.publish(name, b"x")):
            with pytest.raises(ValueError, match="no name"):
                await refused
        assert await writer.head() == ONE_HEAD
    with pytest.raises(ValueError, match="no name"):
        FilesBackend(tmp_path).reader(f"../{LOG}")


async def test_a_web_server_finds_tiles_and_checkpoint_and_nothing_else(tmp_path) -> None:
    async with FilesBackend(tmp_path).hold(LOG) as writer:
        await writer.commit(None, ONE_HEAD, {"tile/0/000.p/1": b"a leaf", "tile/entries/000.p/1": b"an entry", "staged/0": b"private"})
        await writer.publish("checkpoint", b"a note")

    found = {str(path.relative_to(tmp_path / LOG)) for path in (tmp_path / LOG).rglob("*") if path.is_file()}
    assert {name for name in found if not name.startswith(".log/")} == {"tile/0/000.p/1", "tile/entries/000.p/1", "checkpoint"}
    assert (tmp_path / LOG / ".log").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / LOG / "checkpoint").stat().st_mode & 0o044 == 0o044


async def test_a_torn_base_or_a_journal_with_a_gap_stops_the_holder(tmp_path) -> None:
    await committed(tmp_path)
    base = tmp_path / LOG / ".log" / "base"
    content = base.read_bytes()
    base.write_bytes(content[:-1])
    with pytest.raises(LogCorrupt, match="does not hold"):
        await seen(tmp_path)
    base.unlink()  # the journal begins behind it
    (tmp_path / LOG / ".log" / "journal.0").write_bytes(content)
    async with FilesBackend(tmp_path).hold("other") as writer:
        await writer.commit(None, ONE_HEAD, {})
        await writer.commit(ONE_HEAD, HEADS[1], {})
        shutil.copytree(tmp_path / "other", tmp_path / "copy" / "default")
    journal = tmp_path / "copy" / LOG / ".log" / "journal.0"
    whole = journal.read_bytes()
    journal.write_bytes(whole[min(record_ends(whole)) :] + bytes(HEADER.size))
    with pytest.raises(LogCorrupt, match="has no record 1, and has 2"):
        await seen(tmp_path / "copy")


ONE_HEAD = HEADS[0]


async def test_two_documents_are_two(tmp_path, database_url) -> None:
    async with open_test_database(database_url, SCHEMA) as database:
        for backend in (FilesBackend(tmp_path), SqlBackend(database)):
            async with backend.hold(LOG) as writer:
                await writer.publish("checkpoint", b"one")
                await writer.publish("landmarks", b"two")
                await writer.publish("checkpoint", b"three")
                assert [await writer.published(name) for name in ("checkpoint", "landmarks")] == [b"three", b"two"]


async def test_f27_a_document_is_no_tile(tmp_path) -> None:
    async with FilesBackend(tmp_path).hold(LOG) as writer:
        for name in ("tile", "tile/0/000"):
            with pytest.raises(ValueError, match="no name of a document"):
                await writer.publish(name, b"x")
        assert await writer.read("tile/0/000") is None


async def test_f04_a_reader_of_a_torn_head_has_the_one_before_or_what_is_on_the_disk_for_sure(tmp_path) -> None:
    private, reader = tmp_path / LOG / ".log", FilesBackend(tmp_path).reader(LOG)
    async with FilesBackend(tmp_path).hold(LOG) as writer:
        await writer.commit(None, HEADS[0], {})
    async with FilesBackend(tmp_path).hold(LOG) as writer:
        await writer.commit(HEADS[0], HEADS[1], {})
        await writer.commit(HEADS[1], HEADS[2], {})
        for number, expected in ((3, HEADS[1]), (2, HEADS[0])):
            with (private / f"head.{number & 1}").open("r+b") as file:
                file.seek(9)
                file.write(b"!!")
            assert await reader.head() == expected
        (private / "base").unlink()
        assert await reader.head() is None


async def test_f04_an_old_head_counts_less_than_what_is_on_the_disk_for_sure(tmp_path) -> None:
    await committed(tmp_path)
    private = tmp_path / LOG / ".log"
    old = {path: path.read_bytes() for path in private.glob("head.*")}
    async with FilesBackend(tmp_path).hold(LOG) as writer:
        await writer.commit(HEADS[-1], ZERO, {})
    for path, content in old.items():
        path.write_bytes(content)
    assert await FilesBackend(tmp_path).reader(LOG).head() == ZERO


async def test_f04_what_was_discarded_does_not_come_back_with_what_is_done_again(tmp_path) -> None:
    async with FilesBackend(tmp_path).hold(LOG) as writer:
        await writer.commit(None, HEADS[0], objects_of(1))
        await writer.discard(["staged/1"])
        await writer.commit(HEADS[0], HEADS[1], {})
        shutil.copytree(tmp_path / LOG, tmp_path / "copy" / LOG)
    async with FilesBackend(tmp_path / "copy").hold(LOG) as writer:
        assert await writer.head() == HEADS[1]
        assert await writer.read("staged/1") is None
        assert await writer.read("tile/0/001") == objects_of(1)["tile/0/001"]


async def test_f07_a_commit_that_can_neither_be_made_nor_undone_waits_for_the_next_holder(tmp_path, monkeypatch) -> None:
    def fails(_paths) -> None:
        raise OSError(errno.EROFS, "read-only")

    async with FilesBackend(tmp_path).hold(LOG) as writer:
        await writer.commit(None, HEADS[0], objects_of(1))
        failing(monkeypatch, "mtc.files.object", "eio", 1)
        monkeypatch.setattr(files, "remove", fails)
        for _ in range(2):
            with pytest.raises(Unavailable):
                await writer.commit(HEADS[0], HEADS[1], objects_of(2))
        with pytest.raises(Unavailable):
            await writer.publish("checkpoint", b"a note")
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / LOG, copy / LOG)
    monkeypatch.undo()
    assert await seen(copy) == 2


async def test_f07_a_folder_that_cannot_be_made_is_an_outage(tmp_path) -> None:
    (tmp_path / LOG).write_bytes(b"no folder")
    with pytest.raises(Unavailable):
        async with FilesBackend(tmp_path).hold(LOG):
            pass


async def test_f07_a_disk_that_does_not_give_a_tile_is_an_outage(tmp_path) -> None:
    async with FilesBackend(tmp_path).hold(LOG) as writer:
        (tmp_path / LOG / "tile" / "0").mkdir(parents=True)
        (tmp_path / LOG / "tile" / "0" / "000").symlink_to("000")
        with pytest.raises(Unavailable):
            await writer.read("tile/0/000")


async def test_f05_a_holder_that_lost_the_log_leaves_it_as_it_is_when_it_ends(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(files, "SEGMENT", 1)  # nothing is done again that was brought to the disk
    stale = FilesBackend(tmp_path).hold(LOG)
    writer = await stale.__aenter__()
    await writer.commit(None, HEADS[0], objects_of(1))
    (tmp_path / LOG / ".log" / "lock").unlink()
    await committed_on(tmp_path)
    await stale.__aexit__(None, None, None)
    assert await seen(tmp_path) == 5


async def committed_on(folder: Path) -> None:
    """Another holder goes on up to five."""
    async with FilesBackend(folder).hold(LOG) as writer:
        for before, after in pairwise(HEADS):
            await writer.commit(before, after, objects_of(after.size))


def test_f04_what_an_older_turn_left_in_the_journal_is_no_record(tmp_path) -> None:
    segment = Segment(str(tmp_path / "journal"))
    for number in (1, 2, 3):
        segment.append(number, Discarded((f"name {number}",)))
    segment.end = 0
    segment.append(4, Discarded(("name 4",)))

    assert list(segment.records()) == [(4, Discarded(("name 4",)))]
    segment.close()
