"""A log in a folder, laid out as tlog-tiles says, so that a plain web server or a CDN can serve it.

``<log>/tile/...`` are its tiles and entry bundles, ``<log>/checkpoint`` is a document. What is nobody else's lies in ``<log>/.log``: the
lock, the journal, the head, and objects with other names than ``tile/...``.

A commit is one record of the journal: the ``fdatasync`` behind it is the moment from which the commit is there. Only then its objects and
the head are written, each beside its place and renamed into it, so that readers in other processes see it when :meth:`commit` returns.
They reach the disk later, from a thread: until then the journal has them, and who holds the log next writes them again.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import msgspec

from greatseal import faults
from greatseal.api.log import LogBackend, LogCorrupt, LogHead, LogMoved, LogReader, LogWriter
from greatseal.api.problems import Unavailable
from greatseal_mtc.backends.disk import content_of, locked, remove, sync_all, unreachable, whole, with_checksum, write
from greatseal_mtc.backends.journal import Committed, Discarded, Record, Segment

__all__ = ["FilesBackend"]

SEGMENT = 4 << 20
"""Bytes of a segment of the journal, from which on the other one is written: what a start has to do again at most, twice."""
ATTEMPTS = 10
"""A reader that comes while both heads are written looks again."""
PRIVATE = ".log"
LOG = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
NAME = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*")
PUBLIC = "tile/"


class Base(msgspec.Struct, frozen=True, array_like=True):
    """Up to which record the files are on the disk without the journal, and the head then."""

    number: int = 0
    head: LogHead | None = None


class Place:
    """The folder of a log, and where what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.private = f"{folder}/{PRIVATE}"
        self.heads = tuple(f"{self.private}/head.{number}" for number in (0, 1))
        """The head after the last commit, and after the one before: they take turns, so that one of them is whole."""
        self.base = f"{self.private}/base"

    def last_head(self) -> LogHead | None:
        """The head, for whoever does not hold the log."""
        for _ in range(ATTEMPTS):
            found = [one for path in self.heads if (one := whole(path, Base))]
            if found or not os.path.exists(self.heads[0]):
                break
        # After a power cut, until the log is held again, what is on the disk for sure is what there is.
        if base := whole(self.base, Base):
            found.append(base)
        return max(found, key=attrgetter("number")).head if found else None

    def object(self, name: str) -> str:
        """The file of an object. Raises ValueError for a name that is none."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an object")
        return f"{self.folder}/{name}" if name.startswith(PUBLIC) else f"{self.private}/objects/{name}"

    def document(self, name: str) -> str:
        """The file of a document."""
        if not NAME.fullmatch(name) or f"{name}/".startswith(PUBLIC):
            raise ValueError(f"{name!r} is no name of a document")
        return f"{self.folder}/{name}"


class FilesReader(LogReader):
    """The files, which are read on the event loop: a tile in memory takes 20 microseconds, and a thread more."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def head(self) -> LogHead | None:
        return self._place.last_head()

    async def read(self, name: str) -> bytes | None:
        try:
            return content_of(self._place.object(name))
        except ValueError:
            return None

    async def published(self, name: str) -> bytes | None:
        try:
            return content_of(self._place.document(name))
        except ValueError:
            return None


class FilesWriter(FilesReader, LogWriter):
    """The files, while the lock is held. What writes runs in a thread, one after another."""

    def __init__(self, place: Place, lock: int) -> None:
        super().__init__(place)
        self._lock = lock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log-writer")
        self._settler = ThreadPoolExecutor(1, thread_name_prefix="log-settler")
        self._settling: Unsettled | None = None
        """What the segment holds that is not written now; it is on its way to the disk."""
        self._touched = set[str]()
        """The files that only the segment that is written now has on the disk for sure."""
        self._heads: list[int] = []
        self._segments: list[Segment] = []
        """The one that is written, and the other."""
        self._number = 0
        self._head: LogHead | None = None
        self._broken = False

    async def head(self) -> LogHead | None:
        return self._head

    async def commit(self, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        await self._in_thread(self._commit, before, after, objects)

    async def publish(self, name: str, content: bytes) -> None:
        await self._in_thread(self._publish, self._place.document(name), content)

    async def discard(self, names: Iterable[str]) -> None:
        await self._in_thread(self._discard, tuple(names))

    async def opened(self) -> None:
        """Do again what the journal has, before anything else."""
        await self._in_thread(self._open)

    async def close(self) -> None:
        """Bring all to the disk, as far as it can be: the journal has the rest."""
        with suppress(Unavailable, LogMoved):
            await self._in_thread(self._settle_all)
        self._thread.shutdown()
        self._settler.shutdown()
        for segment in self._segments:
            segment.close()
        for head in self._heads:
            os.close(head)

    async def _in_thread(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
        except OSError as error:
            raise unreachable(error) from error

    # What follows runs in the thread.

    def _open(self) -> None:
        base = whole(self._place.base, Base)
        if base is None:
            if os.path.exists(self._place.base):
                raise LogCorrupt(f"{self._place.base} does not hold what was written to it")
            base = Base()
        self._heads = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600) for path in self._place.heads]
        self._segments = [Segment(f"{self._place.private}/journal.{number}") for number in (0, 1)]
        self._number, self._head = base.number, base.head
        found = [(first, segment) for segment in self._segments if (first := segment.first()) is not None and first > base.number]
        for _, segment in sorted(found, key=itemgetter(0)):
            for number, record in segment.records():
                self._number += 1
                if number != self._number:
                    raise LogCorrupt(f"the journal in {self._place.private} has no record {self._number}, and has {number}")
                self._redo(record)
        for path, file in zip(self._place.heads, self._heads, strict=True):
            if (head := whole(path, Base)) and head.number > self._number:  # of a disk that lost what it had promised to keep
                os.ftruncate(file, 0)
        if self._head is not None:
            self._write_head(Base(self._number, self._head))
        self._settle_all()

    def _redo(self, record: Record) -> None:
        """What was cut off may have left anything of it."""
        if isinstance(record, Discarded):
            self._unlink(record.names)
            return
        for name, content in record.objects.items():
            path = self._place.object(name)
            if content_of(path) != content:
                self._write(path, content)
            self._touched.add(path)
        self._head = record.head

    def _commit(self, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        self._check()
        if before != self._head:
            raise LogMoved("the head of the log is not the one that its writer knew")
        record = Committed(after, self._new(objects))
        with self._recorded(record) as written:
            faults.point("mtc.files.durable")
            for name, content in record.objects.items():
                path = self._place.object(name)
                written.append(path)
                self._write(path, content)
                faults.point("mtc.files.object")
            self._write_head(Base(self._number + 1, after))
        self._head = after
        faults.point("mtc.files.committed")

    def _new(self, objects: Mapping[str, bytes]) -> dict[str, bytes]:
        """Those that are not there. Raises LogCorrupt for one that is, with other bytes."""
        new = {}
        for name, content in objects.items():
            found = content_of(self._place.object(name))
            if found is None:
                new[name] = content
            elif found != content:
                raise LogCorrupt(f"{name} exists with other bytes")
        return new

    @contextmanager
    def _recorded(self, record: Committed) -> Iterator[list[str]]:
        """Write the record. When the files that it speaks of cannot be written, because the disk is full, both are undone."""
        segment = self._writable()
        end, written = segment.end, list[str]()
        try:
            faults.point("mtc.files.journal")
            segment.append(self._number + 1, record)
            faults.point("mtc.files.written")
            segment.sync()
            yield written
        except OSError:
            self._broken = True
            # In this order: while the record is there, the files are made again.
            remove(written)
            segment.take_back(end)
            self._broken = False
            raise
        self._number += 1
        self._touched.update(written)

    def _discard(self, names: tuple[str, ...]) -> None:
        self._check()
        names = tuple(name for name in names if NAME.fullmatch(name) and os.path.exists(self._place.object(name)))
        if names:
            # The record is not for their sake: without it, what is done again would bring them back.
            self._writable().append(self._number + 1, Discarded(names))
            self._number += 1
            self._unlink(names)

    def _unlink(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(self._place.object(name))

    def _publish(self, path: str, content: bytes) -> None:
        self._check()
        write(path, content, beside=f"{self._place.private}/next", last=True)

    def _write(self, path: str, content: bytes) -> None:
        write(path, content, beside=f"{self._place.private}/next")

    def _write_head(self, head: Base) -> None:
        """In place: to rename a file over another one makes ext4 write it to the disk at once, which the journal has done already."""
        content = with_checksum(head)
        written = os.pwrite(self._heads[head.number & 1], content, 0)
        while written < len(content):
            written += os.pwrite(self._heads[head.number & 1], content[written:], written)

    def _check(self) -> None:
        if self._broken:
            raise Unavailable("the log cannot be used now", cause="a commit could neither be made nor undone; hold the log again")
        self._check_lock()

    def _check_lock(self) -> None:
        """Whether ours is the one that others find."""
        try:
            ours = os.stat(f"{self._place.private}/lock").st_ino == os.fstat(self._lock).st_ino
        except FileNotFoundError:
            ours = False
        if not ours:
            raise LogMoved("the lock of the log was taken away: another process may hold it")

    def _writable(self) -> Segment:
        """The segment for the next record."""
        current, other = self._segments
        if current.end < SEGMENT:
            return current
        current.sync()
        self._wait()
        self._settling = Unsettled(Base(self._number, self._head), frozenset(self._touched))
        self._settling.running = self._settler.submit(self._settle, self._settling)
        self._touched.clear()
        self._segments.reverse()
        other.end = 0
        return other

    def _wait(self) -> None:
        """Until the other segment is not needed."""
        if self._settling is None:
            return
        try:
            self._settling.running.result()
        except OSError:
            # What could not be written the system forgets, so the files are written again.
            for _, record in self._segments[1].records():
                if isinstance(record, Committed):
                    self._write_again(record.objects)
            self._settle(self._settling)
        self._settling = None

    def _write_again(self, objects: Mapping[str, bytes]) -> None:
        for name, content in objects.items():
            if os.path.exists(path := self._place.object(name)):  # else it was discarded meanwhile
                self._write(path, content)

    def _settle(self, unsettled: "Unsettled") -> None:
        """Bring the files to the disk, and note that their records are not needed."""
        sync_all(self._place.folder, unsettled.touched)
        self._check_lock()
        faults.point("mtc.files.settled")
        write(self._place.base, with_checksum(unsettled.base), beside=f"{self._place.base}.next", last=True)

    def _settle_all(self) -> None:
        if self._segments:
            self._wait()
            self._settle(Unsettled(Base(self._number, self._head), frozenset(self._touched)))
            self._touched.clear()
            for segment in self._segments:
                segment.end = 0


class Unsettled:
    """Files that may not be on the disk, and what is noted when they are."""

    running: "Future[None]"

    def __init__(self, base: Base, touched: frozenset[str]) -> None:
        self.base = base
        self.touched = touched


class FilesBackend(LogBackend):
    """A folder for each log, in one folder."""

    name = "files"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def hold(self, log: str) -> AbstractAsyncContextManager[LogWriter]:
        return self._hold(self._place(log))

    @asynccontextmanager
    async def _hold(self, place: Place) -> AsyncIterator[LogWriter]:
        try:
            lock = locked(place.private)
        except OSError as error:
            raise unreachable(error) from error
        try:
            writer = FilesWriter(place, lock)
            try:
                await writer.opened()
                yield writer
            finally:
                await writer.close()
        finally:
            os.close(lock)

    def reader(self, log: str) -> LogReader:
        return FilesReader(self._place(log))

    def _place(self, log: str) -> Place:
        if not LOG.fullmatch(log):
            raise ValueError(f"{log!r} is no name of a log")
        return Place(self._folder / log)
