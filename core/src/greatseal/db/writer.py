"""Group commit on SQLite: whatever waits is written in one transaction and one fsync.

The event loop runs the functions, which take microseconds; a thread does what waits: for the lock file, for the disk, for a function
that was long the last time. Two threads that both run Python would spend a tenth of the time on passing the interpreter's lock to and fro.
"""

import asyncio
import contextvars
import fcntl
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Any

import structlog

from greatseal import faults
from greatseal.api.problems import Unavailable
from greatseal.api.store import Refuse
from greatseal.db.delivery import Delivery, Write
from greatseal.db.statements import Statements
from greatseal.db.transaction import Writing
from greatseal.host import Clock

GROUP = 256
BRIEF = 0.005
"""Seconds. A function that took longer is run in the thread the next time."""
TURN = 0.02
"""Seconds after which the event loop begins no other function of a group: the rest is the next group."""
WAITING = 4096
"""Functions that may wait before callers are refused: about a quarter of a second of work."""
IDLE = 2.0
"""Seconds without a write after which the write-ahead log is emptied into the database."""


BUSY = 5000
"""Milliseconds that the thread waits for a process that does not know the lock file. The event loop never does."""


class RolledBack(Exception):
    """SQLite ended the whole transaction by itself."""


class Writer:
    """The only writing connection of this process; ``connect`` opens it, also again after an I/O error.

    It belongs to the event loop or, from the hand-over of a job to its end, to the thread.
    """

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
        self._waiting: deque[Write] = deque()
        self._at_work = False
        """Something was handed to the thread, or is about to be. Only the event loop looks at it."""
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._long: set[object] = set()
        """The code of functions whose last run was not brief."""
        self._idle: asyncio.TimerHandle | None = None
        self._last = 0.0
        self._context = contextvars.Context()
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
        call = Write(fn, args, kwargs, self._loop.create_future())
        self._waiting.append(call)
        if not self._at_work:
            self._at_work = True
            # After what else is ready to run, so that its writes come along; and for none of the callers in particular.
            self._loop.call_soon(self._go_on, context=self._context)
        return await call.future

    async def close(self) -> None:
        """Write what waits, then end the thread."""
        self._stopping = True
        if self._idle is not None:
            self._idle.cancel()
        while group := self._next_group():
            self._jobs.put(partial(self._write, group))
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        self._lock.close()

    def _go_on(self) -> None:
        """Take what waits: run it here as far as it is brief, and let the thread commit it, or do all of it."""
        group = self._next_group()
        self._at_work = bool(group)
        if not group:
            return
        here = 0 if self._is_long(group[0]) else self._run_here(group)
        self._waiting.extendleft(reversed(group[here or len(group) :]))
        self._jobs.put(partial(self._end, group[:here]) if here else partial(self._write, group))

    def _next_group(self) -> list[Write]:
        """What waits, as far as somebody still wants it and a group can hold it."""
        group: list[Write] = []
        while self._waiting and len(group) < GROUP:
            call = self._waiting.popleft()
            if not call.future.cancelled():
                group.append(call)
        return group

    def _run_here(self, group: list[Write]) -> int:
        """Begin the transaction on the event loop and run what is brief; how many functions that were. With none it is not begun."""
        connection = self._connection
        if connection is None or not self._lock.taken_at_once():
            return 0
        try:
            connection.execute("BEGIN IMMEDIATE")
            faults.point("db.begun")
            began = monotonic()
            for number, call in enumerate(group):
                if number and (self._is_long(call) or monotonic() - began > TURN):
                    return number
                self._attempt(connection, call, alone=len(group) == 1)
        except Exception:  # noqa: BLE001 - the thread has the time to find out what it is
            with suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            self._lock.release()
            return 0
        return len(group)

    def _is_long(self, call: Write) -> bool:
        return call.scan or call.code in self._long

    def _delivered(self, group: list[Write]) -> None:
        self._delivery.deliver(group)
        self._last = self._loop.time()
        if self._idle is None and not self._stopping:
            self._idle = self._loop.call_later(IDLE, self._rest, context=self._context)
        self._go_on()

    def _rest(self) -> None:
        """Nothing was written for some time: empty the write-ahead log."""
        self._idle = None
        if self._at_work or self._loop.time() - self._last < IDLE:
            self._idle = self._loop.call_later(IDLE, self._rest, context=self._context)
        else:
            self._at_work = True
            self._jobs.put(self._checkpoint)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
        self._disconnect()

    def _end(self, group: list[Write]) -> None:
        """In the thread: commit what the event loop began and ran."""
        try:
            try:
                assert self._connection is not None
                if not self._committed(self._connection, group):
                    self._each_alone(group)
            finally:
                self._lock.release()
        except Exception as error:  # noqa: BLE001 - the writer outlives whatever happens to one group
            self._fail(group, error)
        self._loop.call_soon_threadsafe(self._delivered, group)

    def _write(self, group: list[Write]) -> None:
        """In the thread: write all of it together. Whatever happens, every call has an outcome then."""
        try:
            with self._lock.held():
                if not self._commit(group):
                    self._each_alone(group)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(group, error)
        self._loop.call_soon_threadsafe(self._delivered, group)

    def _each_alone(self, group: list[Write]) -> None:
        """SQLite gave the group up: one of it may be the cause."""
        if len(group) > 1:
            for call in group:
                self._commit([call])

    def _fail(self, group: list[Write], error: Exception) -> None:
        self._log.exception("the database cannot be written")
        for call in group:
            if not call.settled:
                call.fail(unavailable(error))
        self._disconnect()

    def _commit(self, calls: list[Write]) -> bool:
        """One transaction, in the thread. False: it was rolled back and every call carries an error. Raises when none could begin."""
        connection = self._connection or self._reconnect()
        connection.execute(f"PRAGMA busy_timeout={BUSY}")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("PRAGMA busy_timeout=0")
        try:
            faults.point("db.begun")
            for call in calls:
                self._attempt(connection, call, alone=len(calls) == 1)
        except (sqlite3.Error, OSError, RolledBack) as error:
            give_up(connection, calls, error)
            return False
        return self._committed(connection, calls)

    def _committed(self, connection: sqlite3.Connection, calls: list[Write]) -> bool:
        """Whether the COMMIT went through; otherwise all is rolled back."""
        try:
            faults.point("db.commit")
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            give_up(connection, calls, error)
            return False
        faults.point("db.committed")
        for call in calls:
            call.settled = True
        return True

    def _attempt(self, connection: sqlite3.Connection, call: Write, *, alone: bool) -> None:
        """Run the function so that its failure is its own: in a savepoint, unless it has the transaction to itself."""
        began = monotonic()
        if not alone:
            connection.execute("SAVEPOINT call")
        try:
            self._run(connection, call, alone=alone)
        except BaseException as error:  # noqa: BLE001 - the caller gets it; the writer and the others go on
            undo(connection, error, alone=alone)
            call.fail(outcome(error))
        if not alone:
            connection.execute("RELEASE call")
        if monotonic() - began > BRIEF:
            self._long.add(call.code)
        elif self._long:
            self._long.discard(call.code)

    def _run(self, connection: sqlite3.Connection, call: Write, *, alone: bool) -> None:
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
        """In the thread: empty the write-ahead log unless somebody else is busy with the file."""
        if self._connection is not None:
            try:
                with self._lock.held():
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except (sqlite3.Error, OSError) as error:
                self._disconnect()
                self._log.warning("the write-ahead log could not be emptied", error=str(error))
        self._loop.call_soon_threadsafe(self._go_on)


class FileLock:
    """``flock`` on ``<file>.lock``: the kernel hands it on in order, where SQLite's own waiting starves somebody for seconds."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def taken_at_once(self) -> bool:
        """Take it, unless another process has it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def release(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it, alone among all processes."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            self.release()

    def close(self) -> None:
        os.close(self._file)


def give_up(connection: sqlite3.Connection, calls: Sequence[Write], error: Exception) -> None:
    """The transaction failed: nothing of it stays, and every call carries the error."""
    for call in calls:
        call.fail(outcome(error))
    if connection.in_transaction:
        connection.execute("ROLLBACK")


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
