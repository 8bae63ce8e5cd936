"""PostgreSQL: connections of psycopg in threads, every write SERIALIZABLE and repeated when the database says so."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
import structlog
from psycopg import errors, sql
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import IntLoader

from greatseal import faults
from greatseal.api.declarations import Schema
from greatseal.api.problems import Problem, Unavailable, Uncertain
from greatseal.api.store import Refuse
from greatseal.db.config import DatabaseConfig, StoreProblem, unreadable
from greatseal.db.database import DatabaseImpl
from greatseal.db.delivery import Delivery, OnChanged
from greatseal.db.migrate import version_table
from greatseal.db.statements import Statements
from greatseal.db.transaction import Reading, Writing
from greatseal.host import Clock

if TYPE_CHECKING:
    from sqlalchemy import Engine

WAITING = 1000
"""Functions that may wait for a connection before callers are refused."""
QUEUE_SECONDS = 5.0
"""How long one of them waits."""
RETRY_SECONDS = 10.0
"""How long a function is repeated that others keep getting in the way of."""
RACES = 5
"""Repetitions after a unique violation: under SERIALIZABLE it is mostly a race, else it stays."""
SERIALIZABLE = "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1; SAVEPOINT call"
"""The first SELECT fixes what the transaction sees: its moment, read after that, is later than every moment in it."""
READ_ONLY = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
MIGRATION_LOCK = 0x67726561747365  # "greatse", the key of pg_advisory_lock

REPEATED = (errors.SerializationFailure, errors.DeadlockDetected)
# https://www.postgresql.org/docs/current/errcodes-appendix.html: connection, resources, operator intervention, lock timeout, standby
OUTAGES = ("08", "53", "57", "58", "55P03", "25006", "XX")

T = TypeVar("T")
Connection = psycopg.Connection[Any]


def connect(url: str) -> Connection:
    """A connection whose transactions are begun by hand and whose statements end in bounded time."""
    connection = psycopg.connect(url, autocommit=True, connect_timeout=5, application_name="greatseal")
    connection.adapters.register_loader("numeric", IntLoader)  # sum() of a bigint is numeric; there are no fractions
    connection.execute("SET statement_timeout = '30s'")
    connection.execute("SET lock_timeout = '10s'")
    connection.execute("SET idle_in_transaction_session_timeout = '60s'")
    return connection


class PostgresDatabase(DatabaseImpl):
    """A database that several machines may share."""

    dialect = "postgresql"

    def __init__(self, config: DatabaseConfig, *, node_id: str, clock: Clock, delivery: Delivery) -> None:
        super().__init__(config, node_id)
        self._clock = clock
        self._delivery = delivery
        self._statements = Statements("postgresql")
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(config.max_connections)
        self._waiting = 0
        self._working: set[asyncio.Future[tuple[Any, Writing]]] = set()
        self._stopping = False
        self._threads = ThreadPoolExecutor(config.max_connections, thread_name_prefix="postgresql")

    async def _write(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        async with self._slot():
            # Shielded: what commits is told, also when its caller has gone away.
            working = asyncio.ensure_future(self._in_thread(self._committed, fn, args, kwargs))
            self._working.add(working)
            working.add_done_callback(self._tell)
            result, _ = await asyncio.shield(working)
            return result

    def _tell(self, working: "asyncio.Future[tuple[Any, Writing]]") -> None:
        self._working.discard(working)
        if not working.cancelled() and working.exception() is None:
            self._delivery.tell([working.result()[1]])

    async def _read(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        async with self._slot():
            return await self._in_thread(self._selected, fn, args, kwargs)

    async def settled(self) -> None:
        await super().settled()  # connections are given in order: those that waited before have theirs now
        if self._working:
            await asyncio.wait(set(self._working))

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """One of the connections, in order of arrival, or Unavailable."""
        if self._stopping:
            raise Unavailable("the service stops")
        if self.suspended:
            raise Unavailable("the database cannot be used now", cause="the lock on the database is lost")
        if self._free.locked():
            if self._waiting >= WAITING:
                raise Unavailable("too many requests wait for the database", retry_after=1)
            self._waiting += 1
            try:
                await asyncio.wait_for(self._free.acquire(), QUEUE_SECONDS)
            except TimeoutError:
                raise Unavailable("no database connection became free in time", retry_after=1) from None
            finally:
                self._waiting -= 1
        else:
            await self._free.acquire()
        try:
            yield
        finally:
            self._free.release()

    def _selected(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        def work(connection: Connection) -> Any:
            tx = Reading(connection.execute, self._statements, self._clock.now(), self.node_id)
            with transaction(connection, READ_ONLY):
                return tx.perform(fn, args, kwargs)

        return self._repeated(work)

    def _committed(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Writing]:
        def work(connection: Connection) -> tuple[Any, Writing | Exception]:
            with transaction(connection, SERIALIZABLE):
                tx = self._writing(connection)
                try:
                    result = tx.perform(fn, args, kwargs)
                except (Refuse, Problem) as refusal:
                    # What it read is only true once this commits: a refusal is not to stand on a state that never was.
                    connection.execute("ROLLBACK TO call")
                    if isinstance(refusal, Problem):
                        return None, refusal
                    self._writing(connection).audit_all(refusal.audit)
                    return None, refusal.problem
            return result, tx

        result, done = self._repeated(work)
        if isinstance(done, Exception):
            raise done
        return result, done

    def _writing(self, connection: Connection) -> Writing:
        return Writing(connection.execute, self._statements, self._clock.now(), self.node_id)

    def _repeated(self, work: Callable[[Connection], T]) -> T:
        """Do the work on a connection, again when it lost against another transaction or its connection was a dead one."""
        patience = Patience()
        while True:
            connection, fresh = self._take()
            try:
                return work(connection)
            except LostCommit as error:
                raise unavailable(error, Uncertain) from error
            except psycopg.Error as error:
                if connection.closed and not fresh:
                    self._drop_idle()
                else:
                    patience.endure(error)
            finally:
                self._give_back(connection)
            patience.wait()

    def _take(self) -> tuple[Connection, bool]:
        """A connection, and whether it was made for this."""
        try:
            return self._idle.pop(), False
        except IndexError:
            pass
        try:
            return connect(self.config.url), True
        except psycopg.Error as error:
            raise unavailable(error) from error

    def _give_back(self, connection: Connection) -> None:
        if not connection.closed:
            self._idle.append(connection)

    def _drop_idle(self) -> None:
        """One connection was cut: the others are as old, and a check of each would cost a caller."""
        while self._idle:
            self._idle.pop().close()

    async def close(self) -> None:
        self._stopping = True
        await asyncio.gather(*self._working, return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown)
        self._drop_idle()


class Patience:
    """How often and how long a function is repeated."""

    def __init__(self) -> None:
        self._end = time.monotonic() + RETRY_SECONDS
        self._tried = self._races = 0

    def endure(self, error: psycopg.Error) -> None:
        """Return when the work is to be tried again, else raise what the caller is to see."""
        if isinstance(error, errors.UniqueViolation):
            self._races += 1
            if self._races <= RACES:
                return
        elif isinstance(error, REPEATED) and time.monotonic() < self._end:
            return
        elif isinstance(error, REPEATED) or is_outage(error):
            raise unavailable(error) from error
        raise error

    def wait(self) -> None:
        """Let the others finish."""
        self._tried += 1
        time.sleep(random.uniform(0, min(0.1, 0.001 * 2**self._tried)))  # noqa: S311 - jitter


class LostCommit(Exception):
    """The connection was cut while it committed: nobody can tell whether the changes are there."""


@contextmanager
def transaction(connection: Connection, begin: str) -> Iterator[None]:
    """Commit, or roll back and let the error pass."""
    connection.execute(begin)
    try:
        yield
        faults.point("db.commit")
    except BaseException:
        if not connection.closed:
            rollback(connection)
        raise
    try:
        connection.execute("COMMIT")
    except psycopg.Error as error:
        if connection.closed:
            raise LostCommit(str(error)) from error
        rollback(connection)
        raise
    faults.point("db.committed")


def rollback(connection: Connection) -> None:
    """Back to before BEGIN; a connection that cannot do that is closed."""
    if connection.info.transaction_status is TransactionStatus.IDLE:
        return
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def is_outage(error: psycopg.Error) -> bool:
    """Whether the server or the way to it failed, not the statement."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(OUTAGES)


def unavailable(error: Exception, kind: type[Unavailable] = Unavailable) -> Unavailable:
    """What a caller sees of an outage."""
    return kind("the database cannot be used now", cause=f"{type(error).__name__}: {error}")


class PostgresStore:
    """A :class:`greatseal.db.migrate.Store`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def versions(self, schemas: Sequence[Schema]) -> dict[str, str | None]:
        """See :class:`greatseal.db.migrate.Store`."""
        try:
            with connect(self._url) as connection:
                return {schema.feature: self._version(connection, version_table(schema.feature)) for schema in schemas}
        except psycopg.Error as error:
            raise store_problem(error) from error

    @staticmethod
    def _version(connection: Connection, table: str) -> str | None:
        if connection.execute("SELECT to_regclass(%s)", [f'"{table}"']).fetchone() == (None,):
            return None
        row = connection.execute(sql.SQL("SELECT version_num FROM {}").format(sql.Identifier(table))).fetchone()
        return None if row is None else str(row[0])

    @contextmanager
    def alone(self) -> Iterator[None]:
        """See :class:`greatseal.db.migrate.Store`."""
        with connect_first(self._url) as connection:
            connection.execute("SET lock_timeout = 0")
            connection.execute("SET statement_timeout = 0")
            connection.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
            yield

    def engine(self) -> "Engine":
        """See :class:`greatseal.db.migrate.Store`."""
        from sqlalchemy import NullPool, create_engine

        return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(self._url, connect_timeout=5), poolclass=NullPool)


def connect_first(url: str) -> Connection:
    """A connection, or the StoreProblem that stops the start."""
    try:
        connection = connect(url)
    except psycopg.Error as error:
        raise store_problem(error) from error
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        connection.close()
        raise StoreProblem(f"the database has the encoding {encoding}: make it with ENCODING 'UTF8'")
    return connection


def store_problem(error: Exception) -> StoreProblem:
    """One line of libpq's several."""
    if isinstance(error, psycopg.ProgrammingError):
        return unreadable(error)
    return StoreProblem(f"the database cannot be reached: {' '.join(str(error).split())}")


@asynccontextmanager
async def open_postgres(
    config: DatabaseConfig, *, node_id: str, clock: Clock, log: structlog.stdlib.BoundLogger, on_changed: OnChanged
) -> AsyncIterator[PostgresDatabase]:
    """Open the database; that it is down now is a :class:`StoreProblem`, later it is Unavailable."""
    first = await asyncio.to_thread(connect_first, config.url)
    database = PostgresDatabase(config, node_id=node_id, clock=clock, delivery=Delivery(on_changed, log))
    database._give_back(first)  # noqa: SLF001 - its own maker
    try:
        yield database
    finally:
        await database.close()
