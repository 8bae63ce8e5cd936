"""The cluster key in force, and its rotation: every sealed column is sealed again."""

import asyncio
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import msgspec
import structlog
from sqlalchemy import Column, MetaData, Table, and_, select, update

from greatseal import faults
from greatseal.api.keys import ClusterKeyInfo, KeyStore, WithClusterKey
from greatseal.api.problems import BadRequest, StartProblem, Unavailable
from greatseal.api.store import Database, Tx
from greatseal.db.core_tables import CLUSTER_KEY, cluster_key
from greatseal.db.tables import Collection, Sealed, State, param
from greatseal.host import Blocking, Clock
from greatseal.keys.cluster import SIZE, ClusterKey, create_cluster_key, load_cluster_key, store_cluster_key
from greatseal.keys.ring import KeyRings
from greatseal.keys.sealed import Sealer, sealed_under

_IN_FORCE = select(cluster_key)


class NotHeld(StartProblem):
    """The file does not hold the cluster key in force."""


class SettlingDatabase(Database, Protocol):
    """A database that can tell when what was asked of it before is done."""

    async def settled(self) -> None:
        """Return when every write that was asked for before has ended."""


class NodeKeys(KeyRings):
    """The keys of a running node (:class:`greatseal.api.keys.Keys`): the rings, and the cluster key with its file.

    The file and the database cannot change in one step, so the database decides: the row of ``core_cluster_key`` names the key in force,
    and it changes in the transaction that seals every row again. Around it the file holds both keys, the new one alone only when no row
    needs the old. Killed at any point, a node starts with the key that the row names and ends the work.
    """

    def __init__(
        self,
        db: SettlingDatabase,
        key: ClusterKey,
        clock: Clock,
        log: structlog.stdlib.BoundLogger,
        *,
        blocking: Blocking,
        file: Path,
        metadata: Sequence[MetaData],
        stores: Mapping[str, KeyStore] = MappingProxyType({}),
    ) -> None:
        super().__init__(db, key, clock, log, blocking=blocking, stores=stores)
        self._settling_db = db
        self._key = key
        self._file = file
        self._columns = sealed_columns(metadata)
        self._in_force: ClusterKeyInfo | None = None
        self._rotating = asyncio.Lock()

    async def start(self, *, settle: bool = True) -> None:
        """Before the first use: find the key in force, end a rotation that was interrupted unless another process is at it, read the
        rings, and destroy what was revoked.

        Raises StartProblem when the file does not hold the key of this database.
        """
        if await self._find() and settle:
            await self._finish()
        await self.load()
        if settle:
            await self.destroy_revoked()

    def cluster_key(self) -> ClusterKeyInfo:
        """See :meth:`greatseal.api.keys.Keys.cluster_key`."""
        if self._in_force is None:
            raise RuntimeError("the cluster key is known from the lifespans on")
        return self._in_force

    async def rotate_cluster_key(self, secret: bytes | None = None, *, also: WithClusterKey | None = None) -> ClusterKeyInfo:
        """See :meth:`greatseal.api.keys.Keys.rotate_cluster_key`."""
        if secret is not None and len(secret) != SIZE:
            raise BadRequest(f"a cluster key has {SIZE} bytes, this one has {len(secret)}")
        # A caller that goes away does not leave the work half done.
        return await asyncio.shield(self._rotate(secret, also))

    async def _rotate(self, secret: bytes | None, also: WithClusterKey | None) -> ClusterKeyInfo:
        async with self._rotating:
            if self._key.others and await self._find():
                await self._finish()  # an earlier rotation failed, and perhaps only its answer was lost
            if secret == self._key.secret:
                raise BadRequest("this is the cluster key in force; a rotation needs another one")
            old, new = self._key, ClusterKey.generate(secret)
            await self._store(msgspec.structs.replace(old, others=(new,)))
            self.sealer = Sealer(self._key)  # opens the rows of the commit before anybody reads them
            faults.point("cluster_key.both_stored")
            info = await self.db.write(self._put_in_force, msgspec.structs.replace(new, others=(old,)), also)
            faults.point("cluster_key.in_force")
            await self._finish()
            return info

    def _put_in_force(self, tx: Tx, new: ClusterKey, also: WithClusterKey | None) -> ClusterKeyInfo:
        info = ClusterKeyInfo(key_id=str(new.key_id), rotated_at=tx.now)
        _reseal(tx, Sealer(new), self._columns)
        for row in tx.all(_IN_FORCE):
            tx.remove(CLUSTER_KEY, row.key_id)
        tx.put(CLUSTER_KEY, info.key_id, rotated_at=info.rotated_at)
        if also is not None:
            also(tx, info)
        tx.after_commit(lambda: self._use(new, info))
        return info

    def _use(self, key: ClusterKey, info: ClusterKeyInfo) -> None:
        self._key, self._in_force, self.sealer = key, info, Sealer(key)

    async def _find(self) -> bool:
        """Find the key in force; whether the file holds others."""
        held = {str(one.key_id): one for one in (self._key, *self._key.others)}
        info = await self.db.read(_in_force)
        if info is None:
            first = await self.db.read(_sealed_under, self._columns) or str(self._key.key_id)
            self._require(first, held)
            info = await self.db.write(_first_in_force, first)
        self._require(info.key_id, held)
        key = held.pop(info.key_id)
        others = tuple(msgspec.structs.replace(one, others=()) for one in held.values())
        self._use(msgspec.structs.replace(key, others=others), info)
        return bool(others)

    def _require(self, key_id: str, held: Container[str]) -> None:
        if key_id not in held:
            raise NotHeld(
                f"{self._file}: the database is sealed under the cluster key {key_id}, which this file does not hold; "
                "put back the cluster key file of this database"
            )

    async def _finish(self) -> None:
        """Seal again what was sealed under another key and stored since, then forget every other key.

        What cannot be done now is done at the next rotation or start: the key in force does not depend on it.
        """
        try:
            while await reseal(self.db, self.sealer, self._columns):
                faults.point("cluster_key.resealed")
            await self._settling_db.settled()
            while await reseal(self.db, self.sealer, self._columns):
                faults.point("cluster_key.resealed")
            await self._store(msgspec.structs.replace(self._key, others=()))
        except Unavailable as problem:
            self.log.warning("the cluster key before is still in its file; restart when that can be written", cause=problem.cause)
        faults.point("cluster_key.forgotten")

    async def _store(self, key: ClusterKey) -> None:
        try:
            await asyncio.to_thread(store_cluster_key, self._file, key)
        except OSError as error:
            raise Unavailable("the cluster key file cannot be written", cause=f"{self._file}: {error}") from error
        self._key = key


@asynccontextmanager
async def first_cluster_key(db: Database, file: Path, metadata: Sequence[MetaData]) -> AsyncIterator[ClusterKey]:
    """The key of the file, which is made when the database has not been sealed yet: a new one would only hide that the right one is lost.

    Inside of it the key is put in force (:meth:`NodeKeys.start`). Where another node with a file of its own is quicker, nothing was ever
    sealed under the one that was made here, and it goes.
    """
    # Asked before the file is looked for: whoever puts the first key in force has made its file before.
    needed = await db.read(needed_key, sealed_columns(metadata))
    made = needed is None and await asyncio.to_thread(create_cluster_key, file)
    key = await asyncio.to_thread(load_cluster_key, file, create=False, needed=needed)
    try:
        yield key
    except NotHeld:
        if made:
            await asyncio.to_thread(file.unlink, missing_ok=True)
        raise


def needed_key(tx: Tx, columns: Sequence[Column[Any]]) -> str | None:
    """The id of the cluster key without which this database is of no use; None while nothing is sealed."""
    info = _in_force(tx)
    return info.key_id if info else _sealed_under(tx, columns)


def sealed_columns(metadata: Sequence[MetaData]) -> list[Column[Any]]:
    """Every column declared :class:`greatseal.db.tables.Sealed`."""
    return [column for one in metadata for table in one.sorted_tables for column in table.columns if isinstance(column.type, Sealed)]


async def reseal(db: Database, sealer: Sealer, columns: Sequence[Column[Any]]) -> int:
    """Seal again, in one transaction, whatever is not under the sealer's key; how many values that were."""
    return await db.write(_reseal, sealer, columns)


def _in_force(tx: Tx) -> ClusterKeyInfo | None:
    row = tx.one(_IN_FORCE)
    return None if row is None else ClusterKeyInfo(key_id=row.key_id, rotated_at=row.rotated_at)


def _sealed_under(tx: Tx, columns: Sequence[Column[Any]]) -> str | None:
    """The id of a cluster key that something is sealed under: one that a release without ``core_cluster_key`` put in force."""
    for column in columns:
        row = tx.one(select(column).where(column.is_not(None)).limit(1))
        if row is not None and (found := sealed_under(bytes(getattr(row, column.name)))):
            return str(found)
    return None


def _first_in_force(tx: Tx, key_id: str) -> ClusterKeyInfo:
    """The key of a new database, unless another process was quicker."""
    found = _in_force(tx)
    if found is None:
        tx.put(CLUSTER_KEY, key_id, rotated_at=tx.now)
        found = ClusterKeyInfo(key_id=key_id, rotated_at=tx.now)
    return found


def _reseal(tx: Tx, sealer: Sealer, columns: Sequence[Column[Any]]) -> int:
    return sum(_reseal_column(tx, sealer, column) for column in columns)


def _reseal_column(tx: Tx, sealer: Sealer, column: Column[Any]) -> int:
    table = column.table
    assert isinstance(table, Table)
    keys = list(table.primary_key.columns)
    change = (
        update(table).where(and_(*(one == param(f"key_{one.name}") for one in keys))).values({column.name: param("sealed_again")})
        if table.info["state"] is not State.REPLICATED
        else None
    )
    changed = 0
    for row in tx.all(select(*keys, column).where(column.is_not(None))):
        sealed = bytes(getattr(row, column.name))
        if sealed_under(sealed) == sealer.key_id:
            continue
        values = [getattr(row, one.name) for one in keys]
        place = {"table": table.name, "row": "/".join(map(str, values)), "field": column.name}
        again = sealer.seal(sealer.open(sealed, **place), **place)
        if change is None:
            tx.put(Collection(table.name, table), str(values[0]), **{column.name: again})
        else:
            tx.run(change, sealed_again=again, **{f"key_{one.name}": value for one, value in zip(keys, values, strict=True)})
        changed += 1
    return changed
