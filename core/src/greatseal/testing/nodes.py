"""Several nodes in one process: operations go to the owner of their rows, fields of REPLICATED rows to every node.

Each node has a database file of its own, and only bytes pass between them. Two nodes that change one field at the same time are
beyond this fake.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import MetaData, select

from greatseal.api.declarations import Schema
from greatseal.api.problems import Unavailable
from greatseal.api.store import Operation, Tx, operation_of
from greatseal.db.database import DatabaseImpl
from greatseal.db.tables import Collection, param
from greatseal.host import Clock
from greatseal.testing.store import make_tables, open_test_database

__all__ = ["Nodes", "open_nodes"]

Fields = dict[str, Any]


class Nodes:
    """The nodes by label and the wires between them. Operations for a label in ``unreachable`` are Unavailable."""

    def __init__(self, collections: Sequence[Collection]) -> None:
        self.unreachable: set[str] = set()
        self.forwarded = 0
        """How many operations went from one node to another."""
        self._databases: dict[str, DatabaseImpl] = {}
        self._operations: dict[tuple[str, str], Callable[..., Any]] = {}
        self._collections = {collection.name: collection for collection in collections}
        self._rows = {name: select(of.table).where(of.key == param("id")) for name, of in self._collections.items()}
        self._waiting: list[tuple[str, str, str]] = []
        self._known: dict[tuple[str, str, str], Fields | None] = {}

    def __getitem__(self, label: str) -> DatabaseImpl:
        return self._databases[label]

    def add(self, label: str, database: DatabaseImpl) -> None:
        """Connect a node."""
        self._databases[label] = database
        database.forwarder = self

    def serve(self, label: str, *operations: Callable[..., Any]) -> None:
        """What ``label`` does for other nodes: functions marked with ``operation``."""
        for fn in operations:
            mark = operation_of(fn)
            assert mark is not None, f"{fn} is no operation"
            self._operations[label, mark.name] = fn

    async def forward(self, owner: str, operation: Operation, fn: Callable[..., Any], argument: Any) -> Any:
        """See :class:`greatseal.db.database.Forwarder`. A plain function needs no :meth:`serve`: it is the same on every node."""
        database = self._databases.get(owner)
        if database is None or owner in self.unreachable:
            raise Unavailable("the node that owns this cannot be reached", cause=f"{operation.name}: {owner}")
        self.forwarded += 1
        return travelled(await database.write(self._operations.get((owner, operation.name), fn), travelled(argument)))

    def heard(self, label: str, pairs: Sequence[tuple[str, str]]) -> None:
        """``label`` committed changes."""
        self._waiting.extend((label, kind, id) for kind, id in pairs if kind in self._collections)

    async def settle(self) -> None:
        """Let every change reach every node; rows travel only now, so a test decides when."""
        while self._waiting:
            label, kind, id = self._waiting.pop(0)
            row = await self._databases[label].read(self.row, kind, id)
            before = self._known.get((label, kind, id))
            if row == before:
                continue  # what arrived here is not sent on
            fields = row and dict(row.items() - (before or {}).items())
            self._remember(label, kind, id, fields)
            for other, database in self._databases.items():
                if other != label:
                    self._remember(other, kind, id, fields)
                    await database.write(self._arrive, kind, id, fields)

    def _remember(self, label: str, kind: str, id: str, fields: Fields | None) -> None:
        known = self._known.get((label, kind, id))
        self._known[label, kind, id] = None if fields is None else {**(known or {}), **fields}

    def row(self, tx: Tx, kind: str, id: str) -> Fields | None:
        """For ``read``: the fields of a REPLICATED row, None when it is absent."""
        collection, row = self._collections[kind], tx.one(self._rows[kind], id=id)
        names = [column.name for column in collection.table.columns if column is not collection.key]
        return None if row is None else {name: getattr(row, name) for name in names}

    def _arrive(self, tx: Tx, kind: str, id: str, fields: Fields | None) -> None:
        if fields is None:
            tx.remove(self._collections[kind], id)
        else:
            tx.put(self._collections[kind], id, **fields)


def travelled(value: Any) -> Any:
    """The value after encoding and decoding. TypeError for one that could not travel: no Struct and not None."""
    if value is None:
        return None
    if not isinstance(value, msgspec.Struct):
        raise TypeError(f"an operation's argument and result are Structs, not {type(value).__name__}")
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value))


@asynccontextmanager
async def open_nodes(
    folder: Path,
    labels: Sequence[str],
    *,
    collections: Sequence[Collection],
    schemas: Sequence[Schema] = (),
    metadata: Sequence[MetaData] = (),
    clock: Clock | None = None,
) -> AsyncIterator[Nodes]:
    """A node for each label, with the core tables, those of ``schemas`` and, without migrations, those of ``metadata``."""
    nodes = Nodes(collections)
    async with AsyncExitStack() as stack:
        for label in labels:
            url = f"sqlite:///{folder}/{label}.db"
            for tables in metadata:
                make_tables(url, tables)
            heard = partial(nodes.heard, label)
            nodes.add(
                label, await stack.enter_async_context(open_test_database(url, *schemas, node_id=label, clock=clock, on_changed=heard))
            )
        yield nodes
