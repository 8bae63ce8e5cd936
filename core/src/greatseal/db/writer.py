"""Group commit on SQLite: whatever waits is written in one transaction and one fsync (architecture 5)."""

import asyncio
import fcntl
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import structlog

from greatseal import faults
from greatseal.api.problems import Unavailable
from greatseal.api.store import Refuse
from greatseal.db.delivery import Call, Delivery
from greatseal.db.statements import Statements
from greatseal.db.transaction import Writing
from greatseal.host import Clock

GROUP = 256
TURN = 0.002
"""Seconds for which the event loop lets the writer work alone. Two threads that both want the interpreter spend a tenth of the time on
passing its lock to and fro, because every SQLite call gives it away."""
WAITING = 4096
"""Functions that may wait before callers are refused: about a quarter of a second of work."""
IDLE = 2.0
"""Seconds without a write after which the write-ahead log is emptied into the database."""


BUSY = 5000
"""Milliseconds that a connection waits for a process that does not know the lock file."""


class RolledBack(Exception):
    """SQLite ended the whole transaction by itself."""


class Writer:
    """One thread with the only writing connection of this process. ``connect`` opens it, also again after an I/O error."""

    def __init__(
        self,
        path: Path,
        connect: Callable[[], sqlite3.Connection],
        statements: Statements,
        delivery: Delivery,
        *,
        clock: Clock,
        node_id: str,
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._connect = connect
        self._statements = statements
        self._delivery = delivery
        self._clock = clock
        self._node_id = node_id
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Call] = deque()
        self._at_work = False
        """A group was handed over, or is about to be; its delivery hands over the next one. Only the event loop looks at it."""
        self._groups: SimpleQueue[list[Call] | None] = SimpleQueue()
        self._turn = threading.Lock()
        """The loop takes it and waits for it once more; the thread releases it before its COMMIT, which needs no interpreter."""
        self._connection: sqlite3.Connection | None = None
        self._stopping = False
        self._lock = FileLock(path)
        self._thread = threading.Thread(target=self._work, name="sqlite-writer", daemon=True)
        self._thread.start()

    async def write(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Hand the function over and wait for its commit."""
        if self._stopping:
            raise Unavailable("the service stops")
        if len(self._waiting) >= WAITING:
            raise Unavailable("too many writes are waiting", retry_after=1)
        call = Call(fn, args, kwargs, self._loop.create_future())
        self._waiting.append(call)
        if not self._at_work:
            self._at_work = True
            self._loop.call_soon(self._hand_over)  # after what else is ready to run, so that its writes come along
        return await call.future

    async def close(self) -> None:
        """Write what waits, then end the thread."""
        self._stopping = True
        while group := self._next_group():
            self._groups.put(group)
        self._groups.put(None)
        await asyncio.to_thread(self._thread.join)
        self._lock.close()

    def _next_group(self) -> list[Call]:
        """What waits, as far as somebody still wants it and a group can hold it."""
        group: list[Call] = []
        while self._waiting and len(group) < GROUP:
            call = self._waiting.popleft()
            if not call.future.cancelled():
                group.append(call)
        return group

    def _hand_over(self) -> None:
        """Give the thread its next group and the time to run its functions. Who blocks in one holds up the loop for TURN, no longer."""
        group = self._next_group()
        self._at_work = bool(group)
        if group:
            self._turn.acquire(blocking=False)
            self._groups.put(group)
            self._turn.acquire(timeout=TURN)

    def _written(self, group: list[Call]) -> None:
        self._delivery.deliver(group)
        self._hand_over()

    def _work(self) -> None:
        written = False
        while True:
            try:
                group = self._groups.get(timeout=IDLE if written else None)
            except Empty:
                self._checkpoint()
                written = False
                continue
            if group is None:
                break
            self._write_group(group)
            written = True
            self._loop.call_soon_threadsafe(self._written, group)
        self._disconnect()

    def _write_group(self, group: list[Call]) -> None:
        """Write all of it together; when SQLite gave the group up, each alone. Whatever happens, every call has an outcome then."""
        try:
            with self._lock.held():
                if not self._commit(group) and len(group) > 1:
                    for call in group:
                        self._commit([call])
        except Exception as error:  # noqa: BLE001 - the writer outlives whatever happens to one group
            self._log.exception("the database cannot be written")
            for call in group:
                if not call.settled:
                    call.fail(unavailable(error))
            self._disconnect()

    def _commit(self, calls: list[Call]) -> bool:
        """One transaction. False: it was rolled back and every call carries an error. Raises when none could begin."""
        connection = self._connection or self._reconnect()
        connection.execute("BEGIN IMMEDIATE")
        try:
            faults.point("db.begun")
            for call in calls:
                self._attempt(connection, call, alone=len(calls) == 1)
            faults.point("db.commit")
            if self._turn.locked():
                self._turn.release()
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError, RolledBack) as error:
            for call in calls:
                call.fail(outcome(error))
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return False
        faults.point("db.committed")
        for call in calls:
            call.settled = True
        return True

    def _attempt(self, connection: sqlite3.Connection, call: Call, *, alone: bool) -> None:
        """Run the function so that its failure is its own: in a savepoint, unless it has the transaction to itself."""
        if not alone:
            connection.execute("SAVEPOINT call")
        try:
            self._run(connection, call, alone=alone)
        except BaseException as error:  # noqa: BLE001 - the caller gets it; the writer and the others go on
            undo(connection, error, alone=alone)
            call.fail(outcome(error))
        if not alone:
            connection.execute("RELEASE call")

    def _run(self, connection: sqlite3.Connection, call: Call, *, alone: bool) -> None:
        tx = Writing(connection.execute, self._statements, self._clock.now(), self._node_id)
        try:
            result = tx.perform(call.fn, call.args, call.kwargs)
        except Refuse as refusal:
            undo(connection, refusal, alone=alone)
            Writing(connection.execute, self._statements, tx.now, self._node_id).audit_all(refusal.audit)
            call.fail(refusal.problem)
        else:
            call.succeed(result, tx)

    def _reconnect(self) -> sqlite3.Connection:
        self._connection = self._connect()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _checkpoint(self) -> None:
        """Empty the write-ahead log unless somebody else is busy with the file."""
        if self._connection is None:
            return
        try:
            with self._lock.held():
                self._connection.execute("PRAGMA busy_timeout=0")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self._connection.execute(f"PRAGMA busy_timeout={BUSY}")
        except (sqlite3.Error, OSError) as error:
            self._disconnect()
            self._log.warning("the write-ahead log could not be emptied", error=str(error))


class FileLock:
    """``flock`` on ``<file>.lock``: the kernel hands it on in order, where SQLite's own waiting starves somebody for seconds."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it, alone among all processes."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._file)


def undo(connection: sqlite3.Connection, error: BaseException, *, alone: bool) -> None:
    """Back to before the function, unless SQLite has already given up the whole transaction."""
    if not connection.in_transaction:
        raise RolledBack(str(error)) from error
    if alone:
        connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
    else:
        connection.execute("ROLLBACK TO call")


OUTAGES = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)


def is_outage(error: BaseException) -> bool:
    """Whether the file or the machine failed, not the statement."""
    # The lower byte is the primary code: https://www.sqlite.org/rescode.html
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in OUTAGES


def outcome(error: BaseException) -> BaseException:
    """What the caller of a failed function gets: its own mistake as it is, an outage as Unavailable."""
    return unavailable(error) if isinstance(error, (OSError, RolledBack)) or is_outage(error) else error


def unavailable(error: BaseException) -> Unavailable:
    """What a caller sees of an outage."""
    return Unavailable("the database cannot be used now", cause=f"{type(error).__name__}: {error}")
