"""The store of a node: opened from the configuration, one face for both databases."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import structlog
from sqlalchemy import delete, literal, select

from greatseal.api.declarations import CheckResult
from greatseal.api.problems import Unavailable
from greatseal.api.store import OPERATION, Operation, Refuse, Tx
from greatseal.db.config import DatabaseConfig, Dialect, StoreProblem, dialect_of
from greatseal.db.core_tables import strike
from greatseal.db.delivery import OnChanged
from greatseal.db.tables import insert_new, param
from greatseal.db.transaction import Writing
from greatseal.host import Clock

__all__ = ["DatabaseConfig", "DatabaseImpl", "Forwarder", "Rehearsing", "Store", "StoreProblem", "open_database"]

P = ParamSpec("P")
T = TypeVar("T")

ALIVE = select(literal(1).label("alive"))
_ARRIVE = insert_new(strike)
_LEAVE = delete(strike).where(strike.c.kind == param("kind"), strike.c.key == param("key"))


class Forwarder(Protocol):
    """The way to other nodes, for operations on rows that they own."""

    async def forward(self, owner: str, operation: Operation, fn: Callable[..., Any], argument: Any) -> Any:
        """The operation's result on node ``owner``. Raises its problem, or Unavailable when the node cannot be reached."""


class DatabaseImpl:
    """A :class:`greatseal.api.store.Database`."""

    dialect: Dialect

    def __init__(self, config: DatabaseConfig, node_id: str) -> None:
        self.config = config
        self.node_id = node_id
        self.forwarder: Forwarder | None = None
        """None while there is one node: an operation of another one is Unavailable."""
        self.suspended = False
        """While this process may not be the only one that writes, it does not use the database."""

    async def write(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """See :meth:`greatseal.api.store.Database.write`."""
        mark: Operation | None = getattr(fn, OPERATION, None)
        if mark is not None:
            owner = mark.owner(args[0])
            if owner != self.node_id:
                return await self._forward(owner, mark, fn, args[0])  # type: ignore[no-any-return]
        return await self._write(fn, args, kwargs)  # type: ignore[no-any-return]

    async def read(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """See :meth:`greatseal.api.store.Database.read`."""
        try:
            return await self._read(fn, args, kwargs)  # type: ignore[no-any-return]
        except Refuse as refusal:
            if refusal.audit:
                raise RuntimeError("a read writes no audit events; refuse in a write") from refusal
            raise refusal.problem from refusal

    def hold(self, name: str) -> AbstractAsyncContextManager[None]:
        """See :meth:`greatseal.api.store.Database.hold`."""
        raise NotImplementedError

    async def healthy(self) -> CheckResult:
        """Whether a read and a write that reaches the disk go through, for /readyz."""
        try:
            await self.read(_alive)
            await self.write(_touch)
        except Unavailable as problem:
            return CheckResult(ok=False, detail=f"{self.dialect}: {problem.detail}", cause=problem.cause)
        return CheckResult(ok=True, detail=f"{self.dialect}: reads and writes")

    async def settled(self) -> None:
        """Return when every write that was asked for before has ended."""
        await self.write(_nothing)

    async def _forward(self, owner: str, mark: Operation, fn: Callable[..., Any], argument: Any) -> Any:
        if self.forwarder is None:
            raise Unavailable("the node that owns this is not known here", cause=f"{mark.name}: owner {owner!r}, this is {self.node_id!r}")
        return await self.forwarder.forward(owner, mark, fn, argument)

    # What to run with which arguments and keywords.
    _write: Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Awaitable[Any]]
    _read: Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Awaitable[Any]]


def _alive(tx: Tx) -> None:
    tx.one(ALIVE)


def _touch(tx: Tx) -> None:
    """A row that nobody sees: its commit has to reach the disk, where an empty one does not."""
    tx.count(_ARRIVE, kind="alive", key=tx.node_id, until=0)
    tx.count(_LEAVE, kind="alive", key=tx.node_id)


def _nothing(_tx: Tx) -> None:
    """A commit without a change: it needs the writer, the lock and the connection."""


class Rehearsing(DatabaseImpl):
    """A database beside the process that serves it: every write is tried and undone."""

    def __init__(self, database: DatabaseImpl) -> None:
        super().__init__(database.config, database.node_id)
        self.dialect = database.dialect
        self._database = database

    async def _write(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        def rehearse(tx: Tx) -> None:
            raise _Rehearsed(fn(tx, *args, **kwargs))

        try:
            await self._database.write(rehearse)
        except _Rehearsed as done:
            return done.result

    async def _read(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return await self._database.read(fn, *args, **kwargs)

    def hold(self, name: str) -> AbstractAsyncContextManager[None]:
        return self._database.hold(name)


class _Rehearsed(Exception):
    """What a write would have returned."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


def _without_audit(fn: Callable[Concatenate[Tx, P], T]) -> Callable[Concatenate[Tx, P], T]:
    @wraps(fn)
    def guarded(tx: Tx, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result = fn(tx, *args, **kwargs)
        if isinstance(tx, Writing) and tx.audited:
            raise Refuse(Unavailable("the audit log is full, so nothing is done that it would have to tell", retry_after=60))
        return result

    return guarded


class Store:
    """The database under a name that exists before the database is open: plugins keep ``host.db`` from their first hook on."""

    def __init__(self, observer: Callable[[str], Callable[[float], None]]) -> None:
        self.opened: DatabaseImpl | None = None
        self._committed, self._refused = observer("committed"), observer("refused")
        """Are told of every write with this outcome how many seconds it took, from the call to the commit."""
        self.audit_is_full = False
        """While it is, what writes an audit event is refused."""

    @property
    def dialect(self) -> str:
        return self._database.dialect

    async def write(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        began, observe = time.perf_counter(), self._refused
        try:
            result = await self._database.write(_without_audit(fn) if self.audit_is_full else fn, *args, **kwargs)
            observe = self._committed
            return result
        finally:
            observe(time.perf_counter() - began)

    async def read(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._database.read(fn, *args, **kwargs)

    def hold(self, name: str) -> AbstractAsyncContextManager[None]:
        return self._database.hold(name)

    async def healthy(self) -> CheckResult:
        """Whether it answers."""
        return await self._database.healthy()

    async def settled(self) -> None:
        """Return when every write that was asked for before has ended."""
        await self._database.settled()

    @property
    def _database(self) -> DatabaseImpl:
        if self.opened is None:
            raise RuntimeError("the database is open from the lifespans on, not while components are collected")
        return self.opened


@asynccontextmanager
async def open_database(
    config: DatabaseConfig, *, node_id: str, clock: Clock, log: structlog.stdlib.BoundLogger, on_changed: OnChanged
) -> AsyncIterator[DatabaseImpl]:
    """Open the store of this node; the schema must be right already (:mod:`greatseal.db.migrate`).

    ``on_changed`` gets the (kind, id) pairs of ``tx.changed``, on the event loop, after the commit and before the callers resume.
    Raises :class:`StoreProblem` when the store cannot be opened.
    """
    opening = _opener(dialect_of(config.url))
    async with opening(config, node_id=node_id, clock=clock, log=log, on_changed=on_changed) as database:
        yield database


def _opener(dialect: Dialect) -> Callable[..., AbstractAsyncContextManager[DatabaseImpl]]:
    if dialect == "sqlite":
        from greatseal.db.sqlite import open_sqlite

        return open_sqlite
    from greatseal.db.postgres import open_postgres

    return open_postgres
