"""A stranger's log backend in one file: a SQLite file for each log, and a lock beside it. And a selector: the name of the program."""

import asyncio
import fcntl
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path

from greatseal import hookimpl
from greatseal.api.log import LogBackend, LogCorrupt, LogHead, LogHeld, LogMoved, LogReader, LogWriter
from greatseal.api.workload import Selector, Workload
from greatseal.host import Host

TABLES = """
CREATE TABLE IF NOT EXISTS head (size INTEGER, root BLOB, edge BLOB);
CREATE TABLE IF NOT EXISTS object (name TEXT PRIMARY KEY, content BLOB);
CREATE TABLE IF NOT EXISTS document (name TEXT PRIMARY KEY, content BLOB);
CREATE TABLE IF NOT EXISTS hold (fence INTEGER);
"""
DOCUMENT = "SELECT content FROM document WHERE name = ?"
OBJECT = "SELECT content FROM object WHERE name = ?"


@contextmanager
def transaction(file: Path) -> Iterator[sqlite3.Connection]:
    """One transaction, on the disk when this ends."""
    store = sqlite3.connect(file, isolation_level=None)
    try:
        store.execute("PRAGMA synchronous = FULL")
        store.executescript(TABLES)
        store.execute("BEGIN IMMEDIATE")
        yield store
        store.execute("COMMIT")
    finally:
        store.close()


class Reader(LogReader):
    """The file of one log."""

    def __init__(self, file: Path) -> None:
        self.file = file

    async def head(self) -> LogHead | None:
        return await asyncio.to_thread(self._head)

    async def read(self, name: str) -> bytes | None:
        return await asyncio.to_thread(self._one, OBJECT, name)

    async def published(self, name: str) -> bytes | None:
        return await asyncio.to_thread(self._one, DOCUMENT, name)

    def _head(self) -> LogHead | None:
        with transaction(self.file) as store:
            return head_of(store)

    def _one(self, query: str, name: str) -> bytes | None:
        with transaction(self.file) as store:
            row = store.execute(query, (name,)).fetchone()
        return row[0] if row else None


class Writer(Reader, LogWriter):
    """The same, while the lock is held; the fence shows when another holder came after it."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        with transaction(file) as store:
            (self.fence,) = store.execute("SELECT coalesce(max(fence), 0) + 1 FROM hold").fetchone()
            store.execute("INSERT INTO hold VALUES (?)", (self.fence,))

    async def commit(self, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        await asyncio.to_thread(self._commit, before, after, objects)

    async def publish(self, name: str, content: bytes) -> None:
        await asyncio.to_thread(self._publish, name, content)

    async def discard(self, names: Iterable[str]) -> None:
        await asyncio.to_thread(self._discard, list(names))

    def _commit(self, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        with self._mine() as store:
            if head_of(store) != before:
                raise LogMoved("the head is not the one that was known")
            for name, content in objects.items():
                store.execute("INSERT OR IGNORE INTO object VALUES (?, ?)", (name, content))
                if store.execute(OBJECT, (name,)).fetchone() != (content,):
                    raise LogCorrupt(f"{name} exists with other bytes")
            store.execute("DELETE FROM head")
            store.execute("INSERT INTO head VALUES (?, ?, ?)", (after.size, after.root, after.edge))

    def _publish(self, name: str, content: bytes) -> None:
        with self._mine() as store:
            store.execute("INSERT OR REPLACE INTO document VALUES (?, ?)", (name, content))

    def _discard(self, names: list[str]) -> None:
        with self._mine() as store:
            store.executemany("DELETE FROM object WHERE name = ?", [(name,) for name in names])

    @contextmanager
    def _mine(self) -> Iterator[sqlite3.Connection]:
        """A transaction of the last holder."""
        with transaction(self.file) as store:
            if store.execute("SELECT max(fence) FROM hold").fetchone() != (self.fence,):
                raise LogMoved("another writer holds the log")
            yield store


def head_of(store: sqlite3.Connection) -> LogHead | None:
    """The head that a transaction sees."""
    row = store.execute("SELECT size, root, edge FROM head").fetchone()
    return LogHead(size=row[0], root=row[1], edge=row[2]) if row else None


class SqliteLog(LogBackend):
    """A file for each log. The lock ends with its process, or with its file."""

    name = "sqlite-file"
    writer: type[Writer] = Writer

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def hold(self, log: str) -> AbstractAsyncContextManager[LogWriter]:
        return self._hold(log)

    @asynccontextmanager
    async def _hold(self, log: str) -> AsyncIterator[LogWriter]:
        descriptor = os.open(self.folder / f"{log}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LogHeld(f"another process writes {log}") from None
            yield await asyncio.to_thread(self.writer, self.folder / f"{log}.db")
        finally:
            os.close(descriptor)

    def reader(self, log: str) -> LogReader:
        return Reader(self.folder / f"{log}.db")


class ProgramName(Selector[str]):
    """``{"type": "Program", "value": "nginx"}``: what the kernel calls the program of a local process."""

    type = "Program"

    def parse(self, value: object) -> str:
        if not isinstance(value, str) or not 1 <= len(value.encode()) <= 15 or "\n" in value:
            raise ValueError("value is a program's name of 1 to 15 bytes")
        return value

    async def facts(self, workload: Workload, wanted: frozenset[str]) -> frozenset[str]:  # there is one at most
        if workload.peer is None:
            return frozenset()
        name = await asyncio.to_thread(Path(f"/proc/{workload.peer.pid}/comm").read_text)
        signal.pidfd_send_signal(workload.peer.pidfd, 0)  # raises when the process that was read has ended
        return frozenset({name.removesuffix("\n")})


class Plugin:
    """A log in SQLite files, and the selector Program."""

    @hookimpl
    def log_backends(self, host: Host) -> Sequence[LogBackend]:
        return [SqliteLog(host.state_dir)]

    @hookimpl
    def selectors(self) -> Sequence[Selector[str]]:
        return [ProgramName()]
