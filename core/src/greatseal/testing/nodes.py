"""Several nodes in one process: calls and operations go to the owner of their rows, fields of REPLICATED rows to every node.

Each node has a database file of its own, and only bytes pass between them. Two nodes that change one field at the same time are
beyond this fake.
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import MetaData, select

from greatseal.api.declarations import Schema
from greatseal.api.nodes import Answerer, Forwarded, Forwarding, OwnerUnavailable, packed, unpacked, unpacked_problem
from greatseal.api.problems import Problem
from greatseal.api.store import OPERATION, Database, Operation, Tx
from greatseal.db.database import DatabaseImpl
from greatseal.db.tables import Collection, param
from greatseal.host import Clock, Host
from greatseal.testing.distributions import install
from greatseal.testing.service import Service, document, free_port, serve
from greatseal.testing.store import make_tables, open_test_database

__all__ = ["Nodes", "Wire", "open_nodes", "serve_nodes"]

Fields = dict[str, Any]

WIRES = """
from greatseal import hookimpl
from greatseal.api.services import PEERS
from greatseal.testing.nodes import Nodes


class Plugin:
    @hookimpl
    def services(self, host):
        return {PEERS: lambda: Nodes.current.join(host)}
"""
"""A plugin that brings the way to the other nodes of the test."""


class Nodes:
    """The nodes by label and the wires between them. What is for a label in ``unreachable`` is OwnerUnavailable."""

    current: ClassVar["Nodes"]
    """Those whose services are being started."""

    def __init__(self, collections: Sequence[Collection], labels: Sequence[str] = ()) -> None:
        self.labels = tuple(labels)
        self.unreachable: set[str] = set()
        self.forwarded = 0
        """How many operations went from one node to another."""
        self.calls: list[Forwarded] = []
        """Every try of a call that reached another node."""
        self.replies_to_lose = 0
        """How many answers to calls get lost, from now on."""
        self.held = False
        """Whether changes wait for :meth:`settle`; else a node that has to catch up fetches them."""
        self.catching_up = asyncio.Event()
        """Set when a node waits for changes that are held."""
        self.boots: dict[str, str] = {}
        """The start of each node, as the others know it."""
        self._answerers: dict[str, Answerer] = {}
        self._heard: Counter[str] = Counter()
        self._sent: Counter[str] = Counter()
        self._settling = asyncio.Lock()
        self._settled = asyncio.Condition()
        self._databases: dict[str, Database] = {}
        self._operations: dict[tuple[str, str], Callable[..., Any]] = {}
        self._collections = {collection.name: collection for collection in collections}
        self._rows = {name: select(of.table).where(of.key == param("id")) for name, of in self._collections.items()}
        self._waiting: list[tuple[str, str, str]] = []
        self._known: dict[tuple[str, str, str], Fields | None] = {}

    def __getitem__(self, label: str) -> Database:
        return self._databases[label]

    def add(self, label: str, database: DatabaseImpl) -> None:
        """Connect a node."""
        self._databases[label] = database
        database.forwarder = self

    def join(self, host: Host) -> "Wire":
        """Connect the node of a whole service."""
        self._databases[host.node_id] = host.db
        for kind in self._collections:
            host.changes.subscribe(kind, partial(self._changed, host.node_id, kind))
        return Wire(self, host.node_id)

    def _changed(self, label: str, kind: str, id: str) -> None:
        self.heard(label, [(kind, id)])

    def start(self, label: str, boot: str, answer: Answerer) -> None:
        """``label`` answers calls from now on, and the others know that it has started."""
        self._answerers[label] = answer
        self.boots[label] = boot

    def serve(self, label: str, *operations: Callable[..., Any]) -> None:
        """What ``label`` does for other nodes: functions marked with ``operation``."""
        for fn in operations:
            mark: Operation | None = getattr(fn, OPERATION, None)
            assert mark is not None, f"{fn} is no operation"
            self._operations[label, mark.name] = fn

    async def forward(self, owner: str, operation: Operation, fn: Callable[..., Any], argument: Any) -> Any:
        """See :class:`greatseal.db.database.Forwarder`. A plain function needs no :meth:`serve`: it is the same on every node."""
        database = self._databases.get(owner)
        if database is None or owner in self.unreachable:
            raise OwnerUnavailable("the node that owns this cannot be reached", cause=f"{operation.name}: {owner}")
        self.forwarded += 1
        try:
            return travelled(await database.write(self._operations.get((owner, operation.name), fn), travelled(argument)))
        except Problem as problem:
            raise unpacked_problem(packed(problem)) from None

    async def ask(self, owner: str, forwarded: Forwarded) -> Forwarding:
        """See :meth:`greatseal.api.nodes.Peers.ask`."""
        answer = self._answerers.get(owner)
        if answer is None or owner in self.unreachable:
            raise OwnerUnavailable("the node that owns this cannot be reached", cause=owner)
        self.calls.append(forwarded)
        said = packed(await answer(unpacked(packed(forwarded), Forwarded)))
        if self.replies_to_lose:
            self.replies_to_lose -= 1
            raise TimeoutError
        return unpacked(said, Forwarding)

    def seen(self, label: str) -> int:
        """See :meth:`greatseal.api.nodes.Peers.seen`."""
        return self._heard[label]

    async def caught_up(self, node: str, seen: int) -> None:
        """See :meth:`greatseal.api.nodes.Peers.caught_up`; who waits does not matter, for changes reach all nodes together."""
        if not self.held:
            await self.settle()
        async with self._settled:
            if self._sent[node] < seen:
                self.catching_up.set()
            await self._settled.wait_for(lambda: self._sent[node] >= seen)

    def heard(self, label: str, pairs: Sequence[tuple[str, str]]) -> None:
        """``label`` committed changes."""
        changed = [(label, kind, id) for kind, id in pairs if kind in self._collections]
        self._heard[label] += len(changed)
        self._waiting.extend(changed)

    async def settle(self) -> None:
        """Let every change reach every node; rows travel only now, so a test decides when."""
        async with self._settling:
            while self._waiting:
                label, kind, id = self._waiting.pop(0)
                await self._spread(label, kind, id)
                async with self._settled:
                    self._sent[label] += 1
                    self._settled.notify_all()

    async def _spread(self, label: str, kind: str, id: str) -> None:
        row = await self._databases[label].read(self.row, kind, id)
        before = self._known.get((label, kind, id))
        if row == before:
            return  # what arrived here is not sent on
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


class Wire:
    """The :class:`greatseal.api.nodes.Peers` of one node."""

    def __init__(self, nodes: Nodes, label: str) -> None:
        self._nodes = nodes
        self._label = label
        self.others = tuple(other for other in nodes.labels if other != label)

    def serve(self, boot: str, answer: Answerer, operations: Mapping[str, Callable[..., Any]]) -> None:
        self._nodes.start(self._label, boot, answer)
        self._nodes.serve(self._label, *operations.values())

    def boot(self, node: str) -> str | None:
        return None if node in self._nodes.unreachable else self._nodes.boots.get(node)

    def seen(self) -> int:
        return self._nodes.seen(self._label)

    async def caught_up(self, node: str, seen: int) -> None:
        await self._nodes.caught_up(node, seen)

    async def ask(self, owner: str, forwarded: Forwarded) -> Forwarding:
        return await self._nodes.ask(owner, forwarded)

    async def forward(self, owner: str, operation: Operation, fn: Callable[..., Any], argument: Any) -> Any:
        return await self._nodes.forward(owner, operation, fn, argument)


def travelled(value: Any) -> Any:
    """The value after encoding and decoding. TypeError for one that could not travel: no Struct and not None."""
    return None if value is None else unpacked(packed(value), type(value))


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


@asynccontextmanager
async def serve_nodes(
    folder: Path,
    labels: Sequence[str],
    *features: str,
    collections: Sequence[Collection] = (),
    clock: Clock | None = None,
    **sections: Mapping[str, Any],
) -> AsyncIterator[tuple[Nodes, Mapping[str, Service]]]:
    """Whole services under one base URL, which leads to the first of them. ``folder`` is on ``sys.path``."""
    wires = install(folder, "greatseal-wires", WIRES)
    nodes = Nodes.current = Nodes(collections, labels)
    ports = {label: free_port() for label in labels}
    services: dict[str, Service] = {}
    async with AsyncExitStack() as stack:
        for label, port in ports.items():
            home = folder / label
            home.mkdir()
            server = {**sections.get("server", {}), "base_url": f"http://localhost:{ports[labels[0]]}", "listen": f"127.0.0.1:{port}"}
            own = {**sections, "server": server, "cluster": {"node_id": label}}
            config = document(home, [*features, wires], **own)
            if services:
                shutil.copy(folder / labels[0] / "cluster.key", home)  # all nodes hold it
            services[label] = await stack.enter_async_context(serve(config, clock=clock))
        yield nodes, services
