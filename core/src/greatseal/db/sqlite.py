"""SQLite: a writer with group commit, rows read in line, scans read in a few threads."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog

from greatseal.api.store import SCAN
from greatseal.db.config import DatabaseConfig, StoreProblem, sqlite_path
from greatseal.db.database import DatabaseImpl
from greatseal.db.delivery import Delivery, OnChanged
from greatseal.db.holds import FileNamedHold
from greatseal.db.statements import Statements
from greatseal.db.transaction import Reading
from greatseal.db.writer import BUSY, FileLock, Writer, is_outage, unavailable
from greatseal.host import Clock

OLDEST = (3, 35, 0)
"""The first SQLite with RETURNING."""
SCANS = 2
"""Threads for scans, each with a connection."""
READER_BUSY = 0.5
"""Seconds that a reader waits, which it only has to while another process recovers the file: rows are read on the event loop."""


def connect(path: Path, *, reading: bool = False) -> sqlite3.Connection:
    """A connection whose transactions are begun by hand. A commit is on the disk when it returns."""
    timeout = READER_BUSY if reading else BUSY / 1000
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512, timeout=timeout)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA temp_store=MEMORY")
    if reading:
        connection.execute("PRAGMA query_only=ON")
    return connection


def prepare_file(path: Path) -> None:
    """Make the folder and an empty file that only we can read; SQLite gives its mode to the files beside it."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise StoreProblem(f"SQLite {sqlite3.sqlite_version} is too old: 3.35 or newer is needed")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreProblem(f"the database {path} cannot be opened: {error.strerror}") from error


class SqliteDatabase(DatabaseImpl):
    """A database file that workers of one machine may share."""

    dialect = "sqlite"

    def __init__(self, config: DatabaseConfig, writer: Writer, statements: Statements, *, node_id: str, clock: Clock) -> None:
        super().__init__(config, node_id)
        self._path = sqlite_path(config.url)
        self._writer = writer
        self._write = writer.write
        self._statements = statements
        self._clock = clock
        self._reader: sqlite3.Connection | None = None
        self._scanners: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(SCANS, thread_name_prefix="sqlite-scan")

    async def _read(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if getattr(fn, SCAN, False):
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._scan, fn, args, kwargs)
        if self._reader is None:
            self._reader = self._open_reader()
        try:
            return self._select(self._reader, fn, args, kwargs)
        except sqlite3.Error as error:
            if not is_outage(error):
                raise
            self._reader.close()
            self._reader = None
            raise unavailable(error) from error

    def _scan(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        connection = self._scanners.pop() if self._scanners else self._open_reader()
        try:
            result = self._select(connection, fn, args, kwargs)
        except sqlite3.Error as error:
            if not is_outage(error):
                self._scanners.append(connection)
                raise
            connection.close()
            raise unavailable(error) from error
        except BaseException:
            self._scanners.append(connection)
            raise
        self._scanners.append(connection)
        return result

    def _open_reader(self) -> sqlite3.Connection:
        try:
            return connect(self._path, reading=True)
        except sqlite3.Error as error:
            raise unavailable(error) from error

    def _select(self, connection: sqlite3.Connection, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        tx = Reading(connection.execute, self._statements, self._clock.now(), self.node_id)
        connection.execute("BEGIN")  # every select sees one state
        try:
            return tx.perform(fn, args, kwargs)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        hold = FileNamedHold(self._path, name)
        try:
            yield
        finally:
            hold.close()

    async def close(self) -> None:
        await self._writer.close()
        self._threads.shutdown()
        for connection in (self._reader, *self._scanners):
            if connection is not None:
                connection.close()


@asynccontextmanager
async def open_sqlite(
    config: DatabaseConfig, *, node_id: str, clock: Clock, log: structlog.stdlib.BoundLogger, on_changed: OnChanged
) -> AsyncIterator[SqliteDatabase]:
    """Open the file, made when absent."""
    path = sqlite_path(config.url)
    prepare_file(path)
    probe(path)
    statements = Statements("sqlite")
    delivery = Delivery(on_changed, log)
    writer = Writer(path, lambda: connect(path), statements, delivery, clock=clock, node_id=node_id, log=log)
    database = SqliteDatabase(config, writer, statements, node_id=node_id, clock=clock)
    try:
        yield database
    finally:
        await database.close()


def probe(path: Path) -> None:
    """Open the file once, alone: the change to WAL waits for nobody by itself."""
    lock = FileLock(path)
    try:
        with lock.held():
            connection = connect(path)
            try:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
            finally:
                connection.close()
    except sqlite3.Error as error:
        raise StoreProblem(f"the database {path} cannot be opened: {error}") from error
    finally:
        lock.close()
