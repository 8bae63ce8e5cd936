"""Rotation of the cluster key: every sealed column is sealed again (cluster reference 7)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Column, MetaData, Table, and_, select, update

from greatseal import faults
from greatseal.api.store import Database, Tx
from greatseal.db.tables import Collection, Sealed, State, param
from greatseal.keys.cluster import ClusterKey, store_cluster_key
from greatseal.keys.ring import KeyRings
from greatseal.keys.sealed import Sealer, sealed_under


def sealed_columns(metadata: Sequence[MetaData]) -> list[Column[Any]]:
    """Every column declared :class:`greatseal.db.tables.Sealed`."""
    return [column for one in metadata for table in one.sorted_tables for column in table.columns if isinstance(column.type, Sealed)]


async def rotate_cluster_key(rings: KeyRings, path: Path, old: ClusterKey, metadata: Sequence[MetaData]) -> ClusterKey:
    """Make a new cluster key, seal everything under it, and forget the old one. Returns the new one.

    Killed at any point it leaves a file that opens every row, and calling it again ends the work: the file names both keys before the
    first row changes and only the new one after no row needs another. A row sealed by a plugin has for its ``row`` the text of its
    primary key, of several columns joined by ``/``.
    """
    new = msgspec.structs.replace(ClusterKey.generate(), older=(msgspec.structs.replace(old, older=()), *old.older))
    store_cluster_key(path, new)
    faults.point("cluster_key.both_stored")
    rings.sealer = Sealer(new)
    # What was sealed before the switch may commit after the first walk.
    while await reseal(rings.db, rings.sealer, metadata):
        faults.point("cluster_key.resealed")
    only = msgspec.structs.replace(new, older=())
    store_cluster_key(path, only)
    return only


async def reseal(db: Database, sealer: Sealer, metadata: Sequence[MetaData]) -> int:
    """Seal again, in one transaction, whatever is not under the sealer's key; how many values that were."""
    return await db.write(_reseal, sealer, sealed_columns(metadata))


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
