"""Operations and Collections on two nodes: forwarded to the owner, replicated by field. The plugin's code is the same as on one."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from hashlib import sha256
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import structlog
from sqlalchemy import create_engine, select

from greatseal.api.acme import BindingRequest, Unauthorized
from greatseal.api.problems import Problem, Unavailable
from greatseal.api.store import Operation, Tx
from greatseal.clock import FakeClock
from greatseal.db import core_tables
from greatseal.db.database import DatabaseConfig, DatabaseImpl, open_database
from greatseal.db.tables import Collection, param
from greatseal.handles import NodeHandles

LABELS = ("n1", "n2")


@pytest.fixture
def plugin() -> SimpleNamespace:
    """The eab, acme and idp of the type-level examples."""
    return SimpleNamespace(**run_path(str(Path(__file__).parent / "typing/bindings.py")))


class Node:
    """A node with a database of its own. ``operations`` is what another node may ask of it."""

    def __init__(self, label: str, cluster: "Cluster", plugin: SimpleNamespace) -> None:
        self.handles = NodeHandles(label, cluster.clock, [other for other in LABELS if other != label])
        self.label = label
        self.cluster = cluster
        self.accounts = plugin.AccountCreation(
            self.handles, {"externalAccountBinding": plugin.ExternalAccountBinding(self.handles, required=True)}
        )
        self.operations: dict[str, Callable[..., Any]] = {"acme.create-account": self.accounts.create}
        self.db: DatabaseImpl

    async def forward(self, owner: str, operation: Operation, _fn: Callable[..., Any], argument: Any) -> Any:
        """Over the wire and back: only bytes pass."""
        if owner in self.cluster.unreachable:
            raise Unavailable(f"node {owner} cannot be reached")
        target = self.cluster.nodes[owner]
        self.cluster.forwarded += 1
        arrived = msgspec.msgpack.decode(msgspec.msgpack.encode(argument), type=type(argument))
        try:
            result = await target.db.write(target.operations[operation.name], arrived)
        except Problem as problem:
            raise type(problem)(problem.detail) from None
        return msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=type(result))


class Cluster:
    """Two nodes; what changed in a Collection travels when a test lets it, field by field."""

    def __init__(self, collections: Sequence[Collection]) -> None:
        self.clock = FakeClock()
        self.collections = {collection.name: collection for collection in collections}
        self.rows = {name: select(of.table).where(of.key == param("id")) for name, of in self.collections.items()}
        self.nodes: dict[str, Node] = {}
        self.unreachable: set[str] = set()
        self.forwarded = 0
        self._waiting: list[tuple[Node, str, str]] = []
        self._known: dict[tuple[str, str, str], dict[str, Any]] = {}

    def heard(self, node: Node) -> Callable[[Sequence[tuple[str, str]]], None]:
        return lambda pairs: self._waiting.extend((node, kind, id) for kind, id in pairs)

    async def settle(self) -> None:
        """Let every change reach the other node."""
        while self._waiting:
            source, kind, id = self._waiting.pop(0)
            row = await source.db.read(self._row, kind, id)
            fields = {name: value for name, value in row.items() if value != self._known.get((source.label, kind, id), {}).get(name)}
            for node in self.nodes.values():
                self._known.setdefault((node.label, kind, id), {}).update(fields)
                if node is not source and fields:
                    await node.db.write(self._put, kind, id, fields)

    def _row(self, tx: Tx, kind: str, id: str) -> dict[str, Any]:
        collection = self.collections[kind]
        row = tx.one(self.rows[kind], id=id)
        return {column.name: getattr(row, column.name) for column in collection.table.columns if column is not collection.key}

    def _put(self, tx: Tx, kind: str, id: str, fields: dict[str, Any]) -> None:
        tx.put(self.collections[kind], id, **fields)


@pytest.fixture
async def cluster(tmp_path: Path, plugin: SimpleNamespace) -> AsyncIterator[Cluster]:
    made = Cluster([plugin.EAB_KEYS, plugin.ACCOUNTS, plugin.CLIENTS])
    async with AsyncExitStack() as stack:
        for label in LABELS:
            engine = create_engine(f"sqlite:///{tmp_path}/{label}.db")
            core_tables.metadata.create_all(engine)
            plugin.metadata.create_all(engine)
            engine.dispose()
            node = made.nodes[label] = Node(label, made, plugin)
            node.db = await stack.enter_async_context(
                open_database(
                    DatabaseConfig(url=f"sqlite:///{tmp_path}/{label}.db"),
                    node_id=label,
                    clock=made.clock,
                    log=structlog.get_logger(),
                    on_changed=made.heard(node),
                )
            )
            node.db.forwarder = node
        yield made


def binding(kid: str, key: str) -> BindingRequest:
    url = "https://ca.example/acme/new-account"
    value = {"kid": kid, "url": url, "payload": "{}", "signature": hmac.digest(key.encode(), b"{}", sha256)}
    return BindingRequest(url=url, jwk={}, thumbprint="t", value=value)


async def add_key(cluster: Cluster, plugin: SimpleNamespace, kid: str) -> None:
    def add(tx: Tx) -> None:
        tx.put(plugin.EAB_KEYS, kid, hmac_key="k" * 32, profile_grants='["server"]')

    await cluster.nodes["n1"].db.write(add)
    await cluster.settle()


async def new_account(node: Node, kid: str) -> Any:
    request = node.accounts.request(node.label, f"thumbprint-{kid}", {"externalAccountBinding": binding(kid, "k" * 32)})
    return await node.db.write(node.accounts.create, request)


async def test_one_kid_used_twenty_times_on_each_node_makes_one_account(cluster, plugin):
    await add_key(cluster, plugin, "kid-1")

    answers = await asyncio.gather(
        *(new_account(node, "kid-1") for _ in range(20) for node in cluster.nodes.values()), return_exceptions=True
    )
    await cluster.settle()

    made = [answer for answer in answers if not isinstance(answer, Exception)]
    assert len(made) == 1
    assert made[0].profile_grants == ("server",)
    assert {type(answer) for answer in answers if answer is not made[0]} == {Unauthorized}
    assert cluster.forwarded == 20
    for node in cluster.nodes.values():
        assert (await node.db.read(cluster._row, "accounts", made[0].id))["thumbprint"] == "thumbprint-kid-1"
        assert (await node.db.read(cluster._row, "eab_keys", "kid-1"))["used_at"] == cluster.clock.now()


async def test_the_account_is_made_by_the_node_that_owns_the_kid(cluster, plugin):
    for kid in ("a", "b", "c", "d"):
        await add_key(cluster, plugin, kid)
        owner = cluster.nodes["n1"].handles.owner_of_key(f"eab:{kid}")
        assert owner == cluster.nodes["n2"].handles.owner_of_key(f"eab:{kid}")

        made = await new_account(cluster.nodes["n1"], kid)

        assert cluster.nodes["n1"].handles.owner_of_id(made.id) == owner


async def test_an_owner_out_of_reach_is_unavailable_and_the_kid_is_not_burnt(cluster, plugin):
    await add_key(cluster, plugin, "kid-1")
    owner = cluster.nodes["n1"].handles.owner_of_key("eab:kid-1")
    other = next(node for label, node in cluster.nodes.items() if label != owner)

    cluster.unreachable.add(owner)
    with pytest.raises(Unavailable):
        await new_account(other, "kid-1")

    cluster.unreachable.clear()
    assert (await new_account(other, "kid-1")).id


async def test_two_edits_of_different_fields_on_two_nodes_both_stay(cluster, plugin):
    n1, n2 = cluster.nodes["n1"], cluster.nodes["n2"]

    def create(tx: Tx) -> None:
        tx.put(plugin.CLIENTS, "c1", client_name="before", redirect_uris="[]")

    await n1.db.write(create)
    await cluster.settle()

    await n1.db.write(plugin.edit_client, "c1", plugin.ClientChange(client_name="after"))
    await n2.db.write(plugin.edit_client, "c1", plugin.ClientChange(redirect_uris=("https://app.example/cb",)))
    await cluster.settle()

    for node in (n1, n2):
        row = await node.db.read(cluster._row, "clients", "c1")
        assert row == {"client_name": "after", "redirect_uris": '["https://app.example/cb"]'}
