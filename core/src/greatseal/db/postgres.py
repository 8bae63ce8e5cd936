"""PostgreSQL: brief writes one after another in transactions of many, long ones and reads on connections of their own, all in threads."""

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import structlog
from psycopg import sql
from psycopg.types.numeric import IntLoader

from greatseal.api.declarations import Schema
from greatseal.api.problems import Unavailable
from greatseal.db.config import DatabaseConfig, StoreProblem, unreadable
from greatseal.db.database import DatabaseImpl
from greatseal.db.delivery import Delivery, OnChanged, Write
from greatseal.db.migrate import version_table
from greatseal.db.pipeline import Connection
from greatseal.db.serializable import Sessions
from greatseal.host import Clock

if TYPE_CHECKING:
    from sqlalchemy import Engine

GROUP = 50
"""Functions of one transaction: the server has room for 64 savepoints of a transaction at hand, more are slow."""
WAITING = 1000
"""Functions that may wait before callers are refused."""
QUEUE_SECONDS = 5.0
"""How long one of them waits."""
MIGRATION_LOCK = 0x67726561747365  # "greatse", the key of pg_advisory_lock


def connect(url: str) -> Connection:
    """A connection whose transactions are begun by hand and whose statements end in bounded time."""
    connection = psycopg.connect(url, autocommit=True, connect_timeout=5, application_name="greatseal")
    connection.adapters.register_loader("numeric", IntLoader)  # sum() of a bigint is numeric; there are no fractions
    connection.execute("SET statement_timeout = '30s'")
    connection.execute("SET lock_timeout = '10s'")
    connection.execute("SET idle_in_transaction_session_timeout = '60s'")
    # On a table that is still small the planner would read all of it, and a serializable transaction then conflicts with every writer.
    connection.execute("SET enable_seqscan = off")
    # What must read a table all the same has a price now at which every statement would be compiled, which takes a second.
    connection.execute("SET jit = off")
    return connection


class PostgresDatabase(DatabaseImpl):
    """A database that several machines may share."""

    dialect = "postgresql"

    def __init__(self, config: DatabaseConfig, sessions: Sessions, *, node_id: str, delivery: Delivery) -> None:
        super().__init__(config, node_id)
        self._sessions = sessions
        self._delivery = delivery
        self._brief: deque[Write] = deque()
        self._draining = False
        self._free = asyncio.Semaphore(config.max_connections)
        self._waiting = 0
        self._working: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._threads = ThreadPoolExecutor(config.max_connections, thread_name_prefix="postgresql")

    async def _write(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self._check_stopping()
        call = Write(fn, args, kwargs, asyncio.get_running_loop().create_future())
        if call.scan or self._sessions.is_long(call.code):
            self._start(self._work([call]))
            return await call.future
        if len(self._brief) >= WAITING:
            raise _too_many()
        self._brief.append(call)
        if not self._draining:
            self._draining = True
            self._start(self._drain())
        impatience = asyncio.get_running_loop().call_later(QUEUE_SECONDS, self._give_up, call)
        try:
            return await call.future
        finally:
            impatience.cancel()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """For none of the callers in particular: what commits is told, also when its caller has gone away."""
        task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _drain(self) -> None:
        """One group after another: functions of this process are never in each other's way."""
        while group := self._next_group():
            await self._work(group)
        self._draining = False

    def _next_group(self) -> list[Write]:
        group: list[Write] = []
        while self._brief and len(group) < GROUP:
            call = self._brief.popleft()
            if not call.future.done():
                group.append(call)
        return group

    def _give_up(self, call: Write) -> None:
        if call in self._brief and not call.future.done():
            call.future.set_exception(_too_slow())

    async def _work(self, calls: list[Write]) -> None:
        try:
            async with self._slot():
                await self._in_thread(self._sessions.write, calls)
        except Unavailable as problem:
            for call in calls:
                call.fail(problem)
        self._delivery.deliver(calls)

    async def _read(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self._check_stopping()
        async with self._slot():
            return await self._in_thread(self._sessions.read, fn, args, kwargs)

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        from greatseal.db.advisory import give_back, named_hold

        self._check_stopping()
        connection = await asyncio.to_thread(named_hold, self.config.url, name)
        try:
            yield
        finally:
            await asyncio.to_thread(give_back, connection)

    async def settled(self) -> None:
        await super().settled()  # behind all that are brief
        if self._working:
            await asyncio.wait(set(self._working))

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def _check_stopping(self) -> None:
        if self._stopping:
            raise Unavailable("the service stops")

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """One of the connections, in order of arrival, or Unavailable."""
        if self.suspended:
            raise Unavailable("the database cannot be used now", cause="the lock on the database is lost")
        if self._free.locked():
            if self._waiting >= WAITING:
                raise _too_many()
            self._waiting += 1
            try:
                await asyncio.wait_for(self._free.acquire(), QUEUE_SECONDS)
            except TimeoutError:
                raise _too_slow() from None
            finally:
                self._waiting -= 1
        else:
            await self._free.acquire()
        try:
            yield
        finally:
            self._free.release()

    async def close(self) -> None:
        self._stopping = True
        await asyncio.gather(*self._working)
        await asyncio.to_thread(self._threads.shutdown)
        self._sessions.close()


def _too_many() -> Unavailable:
    return Unavailable("too many requests wait for the database", retry_after=1)


def _too_slow() -> Unavailable:
    return Unavailable("no database connection became free in time", retry_after=1)


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
    sessions = Sessions(partial(connect, config.url), clock=clock, node_id=node_id)
    sessions.add(first)
    database = PostgresDatabase(config, sessions, node_id=node_id, delivery=Delivery(on_changed, log))
    try:
        yield database
    finally:
        await database.close()
