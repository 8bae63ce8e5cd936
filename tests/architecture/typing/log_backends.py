"""LogBackend on files and on a database, as far as their promises shape them.

Examples of the contract, checked by mypy: no plugin has this code.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec
from sqlalchemy import Executable

from greatseal.api.log import LogBackend, LogCorrupt, LogHead, LogHeld, LogMoved, LogReader, LogWriter
from greatseal.api.problems import Conflict
from greatseal.api.store import Refuse, Tx
from greatseal.host import Host


class FilesReader(LogReader):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def head(self) -> LogHead | None:
        content = await self.read("head")
        return None if content is None else msgspec.json.decode(content, type=LogHead)

    async def read(self, name: str) -> bytes | None:
        path = self.folder / name
        return await asyncio.to_thread(path.read_bytes) if path.exists() else None

    async def published(self, name: str) -> bytes | None:
        return await self.read(name)


class FilesWriter(FilesReader, LogWriter):
    """Stage, replace the head, spread the objects: a cut before the head leaves the old log, a later one is replayed from the stage."""

    async def commit(self, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        if await self.head() != before:
            raise LogMoved("the head is not the one that was known")
        for name, content in objects.items():
            found = await self.read(name)
            if found is not None and found != content:
                raise LogCorrupt(f"{name} exists with other bytes")
        await self.publish("stage", msgspec.msgpack.encode(objects))
        await self.publish("head", msgspec.json.encode(after))
        for name, content in objects.items():
            await self.publish(name, content)

    async def publish(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        await asyncio.to_thread(path.write_bytes, content)

    async def discard(self, names: Iterable[str]) -> None:
        for name in names:
            (self.folder / name).unlink(missing_ok=True)


class FilesBackend(LogBackend):
    name = "files"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def hold(self, log: str) -> AbstractAsyncContextManager[LogWriter]:
        return self._hold(self.folder / log)

    @asynccontextmanager
    async def _hold(self, folder: Path) -> AsyncIterator[LogWriter]:
        descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise LogHeld(f"another process writes {folder}") from None
        try:
            yield FilesWriter(folder)
        finally:
            os.close(descriptor)

    def reader(self, log: str) -> LogReader:
        return FilesReader(self.folder / log)


class SqlReader(LogReader):
    HEAD: Executable
    OBJECT: Executable

    def __init__(self, host: Host, log: str) -> None:
        self.host = host
        self.log = log

    async def head(self) -> LogHead | None:
        return await self.host.db.read(self.select_head)

    def select_head(self, tx: Tx) -> LogHead | None:
        row = tx.one(self.HEAD, log=self.log)
        return None if row is None else LogHead(size=row.size, root=row.root, edge=row.edge)

    async def read(self, name: str) -> bytes | None:
        return await self.host.db.read(self.select_object, name)

    def select_object(self, tx: Tx, name: str) -> bytes | None:
        row = tx.one(self.OBJECT, log=self.log, name=name)
        return None if row is None else row.content

    async def published(self, name: str) -> bytes | None:
        return await self.read(f"published/{name}")


class SqlWriter(SqlReader, LogWriter):
    """One transaction is stage and commit in one; the fence in the guarded UPDATE keeps a writer out that lost its hold."""

    MOVE: Executable
    STORE: Executable
    REPLACE: Executable
    DELETE: Executable

    def __init__(self, host: Host, log: str, fence: int) -> None:
        super().__init__(host, log)
        self.fence = fence

    async def commit(self, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        try:
            await self.host.db.write(self.move, 0 if before is None else before.size, after, objects)
        except Conflict as moved:
            raise LogMoved("the head is not the one that was known") from moved

    def move(self, tx: Tx, size: int, after: LogHead, objects: Mapping[str, bytes]) -> None:
        if not tx.count(self.MOVE, log=self.log, old_size=size, size=after.size, root=after.root, edge=after.edge, fence=self.fence):
            raise Refuse(Conflict("the head moved"))
        for name, content in objects.items():
            if not tx.count(self.STORE, log=self.log, name=name, content=content):
                raise Refuse(LogCorrupt(f"{name} exists"))

    async def publish(self, name: str, content: bytes) -> None:
        await self.host.db.write(self.replace, f"published/{name}", content)

    def replace(self, tx: Tx, name: str, content: bytes) -> None:
        tx.run(self.REPLACE, log=self.log, name=name, content=content)

    async def discard(self, names: Iterable[str]) -> None:
        await self.host.db.write(self.delete, tuple(names))

    def delete(self, tx: Tx, names: tuple[str, ...]) -> None:
        for name in names:
            tx.run(self.DELETE, log=self.log, name=name)


class SqlBackend(LogBackend):
    name = "sql"

    TAKE: Executable

    def __init__(self, host: Host) -> None:
        self.host = host

    def hold(self, log: str) -> AbstractAsyncContextManager[LogWriter]:
        return self._hold(log)

    @asynccontextmanager
    async def _hold(self, log: str) -> AsyncIterator[LogWriter]:
        yield SqlWriter(self.host, log, await self.host.db.write(self.take, log))

    def take(self, tx: Tx, log: str) -> int:
        row = tx.one(self.TAKE, log=log, node=tx.node_id)
        if row is None:
            raise Refuse(LogHeld(f"another process writes {log}"))
        return int(row.fence)

    def reader(self, log: str) -> LogReader:
        return SqlReader(self.host, log)
