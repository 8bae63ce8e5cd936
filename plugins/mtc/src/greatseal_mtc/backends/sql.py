"""A log in the database: a commit is one transaction, and its guarded UPDATE is what moves the head.

The named hold of the database keeps other processes out. The number of the holder in the row of the log, one more with each, keeps a
writer out that lost its hold without knowing.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from sqlalchemy import Executable, delete, select, update

from greatseal.api.log import LogBackend, LogCorrupt, LogHead, LogHeld, LogMoved, LogReader, LogWriter
from greatseal.api.store import Database, Held, Refuse, Tx
from greatseal.db.tables import insert_new, param
from greatseal_mtc import tables

__all__ = ["SqlBackend"]

log, content, document = tables.log, tables.object, tables.document
HEAD = select(log.c.size, log.c.root, log.c.edge).where(log.c.log == param("log"))
MAKE = insert_new(log, log.c.log, log.c.fence)
TAKE = update(log).where(log.c.log == param("log")).values(fence=log.c.fence + 1).returning(log.c.fence)
MINE = update(log).where(log.c.log == param("log"), log.c.fence == param("fence"))
MOVE = MINE.values(size=param("size"), root=param("root"), edge=param("edge"))
BEGIN = MOVE.where(log.c.size.is_(None))
GO_ON = MOVE.where(log.c.size == param("old_size"), log.c.root == param("old_root"), log.c.edge == param("old_edge"))
STILL = MINE.values(fence=log.c.fence)
ADD = insert_new(content)
OBJECT = select(content.c.content).where(content.c.log == param("log"), content.c.name == param("name"))
DISCARD = delete(content).where(content.c.log == param("log"), content.c.name == param("name"))
DOCUMENT = select(document.c.content).where(document.c.log == param("log"), document.c.name == param("name"))
REPLACE = update(document).where(document.c.log == param("log"), document.c.name == param("name")).values(content=param("content"))
PUBLISH = insert_new(document)


def head_of(tx: Tx, name: str) -> LogHead | None:
    """How far the log is."""
    row = tx.one(HEAD, log=name)
    return None if row is None or row.size is None else LogHead(size=row.size, root=row.root, edge=row.edge)


def take(tx: Tx, name: str) -> int:
    """The number of a new holder, above those before it."""
    tx.count(MAKE, log=name, fence=0)
    row = tx.one(TAKE, log=name)
    assert row is not None
    return int(row.fence)


class SqlReader(LogReader):
    """The rows of a log."""

    def __init__(self, db: Database, name: str) -> None:
        self._db = db
        self._log = name

    async def head(self) -> LogHead | None:
        return await self._db.read(head_of, self._log)

    async def read(self, name: str) -> bytes | None:
        return await self._db.read(self._content, OBJECT, name)

    async def published(self, name: str) -> bytes | None:
        return await self._db.read(self._content, DOCUMENT, name)

    def _content(self, tx: Tx, of: Executable, name: str) -> bytes | None:
        row = tx.one(of, log=self._log, name=name)
        return None if row is None else bytes(row.content)


class SqlWriter(SqlReader, LogWriter):
    """The rows of a log, for the holder with the number ``fence``."""

    def __init__(self, db: Database, name: str, fence: int) -> None:
        super().__init__(db, name)
        self._fence = fence

    async def commit(self, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        await self._db.write(self._commit, before, after, dict(objects))

    async def publish(self, name: str, content: bytes) -> None:
        await self._db.write(self._publish, name, content)

    async def discard(self, names: Iterable[str]) -> None:
        await self._db.write(self._discard, tuple(names))

    def _commit(self, tx: Tx, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        values = {"log": self._log, "fence": self._fence, "size": after.size, "root": after.root, "edge": after.edge}
        if before is None:
            moved = tx.count(BEGIN, **values)
        else:
            moved = tx.count(GO_ON, **values, old_size=before.size, old_root=before.root, old_edge=before.edge)
        if not moved:
            raise Refuse(LogMoved("the head of the log is not the one that its writer knew, or another holder came after it"))
        for name, content in objects.items():
            if not tx.count(ADD, log=self._log, name=name, content=content) and self._content(tx, OBJECT, name) != content:
                raise Refuse(LogCorrupt(f"{name} exists with other bytes"))

    def _publish(self, tx: Tx, name: str, content: bytes) -> None:
        self._check(tx)
        if not tx.count(REPLACE, log=self._log, name=name, content=content):
            tx.count(PUBLISH, log=self._log, name=name, content=content)

    def _discard(self, tx: Tx, names: tuple[str, ...]) -> None:
        self._check(tx)
        for name in names:
            tx.run(DISCARD, log=self._log, name=name)

    def _check(self, tx: Tx) -> None:
        """Still the holder; the row stays as it is until this commits."""
        if not tx.count(STILL, log=self._log, fence=self._fence):
            raise Refuse(LogMoved("another holder of the log came after this one"))


class SqlBackend(LogBackend):
    """The tables of this plugin in the database of the service."""

    name = "sql"

    def __init__(self, db: Database) -> None:
        self._db = db

    def hold(self, log: str) -> AbstractAsyncContextManager[LogWriter]:
        return self._hold(log)

    @asynccontextmanager
    async def _hold(self, name: str) -> AsyncIterator[LogWriter]:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._db.hold(f"mtc.{name}"))
            except Held as held:
                raise LogHeld(held.detail) from held
            yield SqlWriter(self._db, name, await self._db.write(take, name))

    def reader(self, log: str) -> LogReader:
        return SqlReader(self._db, log)
