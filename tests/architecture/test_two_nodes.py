"""Operations and Collections on two nodes: forwarded to the owner, replicated by field. The plugin's code is the same as on one."""

import asyncio
import hmac
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pytest

from greatseal.api.acme import BindingRequest, Unauthorized
from greatseal.api.problems import Unavailable
from greatseal.api.store import Tx
from greatseal.clock import FakeClock
from greatseal.handles import NodeHandles
from greatseal.testing.nodes import Nodes, open_nodes

LABELS = ("n1", "n2")


@pytest.fixture
def plugin() -> SimpleNamespace:
    """The eab, acme and idp of the type-level examples."""
    return SimpleNamespace(**run_path(str(Path(__file__).parent / "typing/bindings.py")))


class Cluster:
    """Two nodes, each with the plugins' objects that would run on it."""

    def __init__(self, nodes: Nodes, clock: FakeClock, plugin: SimpleNamespace) -> None:
        self.nodes = nodes
        self.clock = clock
        self.handles = {label: NodeHandles(label, clock, [other for other in LABELS if other != label]) for label in LABELS}
        self.accounts = {
            label: plugin.AccountCreation(handles, {"externalAccountBinding": plugin.ExternalAccountBinding(handles, required=True)})
            for label, handles in self.handles.items()
        }
        for label, accounts in self.accounts.items():
            nodes.serve(label, accounts.create)


@pytest.fixture
async def cluster(tmp_path: Path, plugin: SimpleNamespace) -> AsyncIterator[Cluster]:
    clock, collections = FakeClock(), [plugin.EAB_KEYS, plugin.ACCOUNTS, plugin.CLIENTS]
    async with open_nodes(tmp_path, LABELS, collections=collections, metadata=[plugin.metadata], clock=clock) as nodes:
        yield Cluster(nodes, clock, plugin)


def binding(kid: str, key: str) -> BindingRequest:
    url = "https://ca.example/acme/new-account"
    value = {"kid": kid, "url": url, "payload": "{}", "signature": hmac.digest(key.encode(), b"{}", sha256)}
    return BindingRequest(url=url, jwk={}, thumbprint="t", value=value)


async def add_key(cluster: Cluster, plugin: SimpleNamespace, kid: str) -> None:
    def add(tx: Tx) -> None:
        tx.put(plugin.EAB_KEYS, kid, hmac_key="k" * 32, profile_grants='["server"]')

    await cluster.nodes["n1"].write(add)
    await cluster.nodes.settle()


async def new_account(cluster: Cluster, label: str, kid: str) -> Any:
    accounts = cluster.accounts[label]
    request = accounts.request(label, f"thumbprint-{kid}", {"externalAccountBinding": binding(kid, "k" * 32)})
    return await cluster.nodes[label].write(accounts.create, request)


async def test_one_kid_used_twenty_times_on_each_node_makes_one_account(cluster, plugin):
    await add_key(cluster, plugin, "kid-1")

    answers = await asyncio.gather(*(new_account(cluster, label, "kid-1") for _ in range(20) for label in LABELS), return_exceptions=True)
    await cluster.nodes.settle()

    made = [answer for answer in answers if not isinstance(answer, Exception)]
    assert len(made) == 1
    assert made[0].profile_grants == ("server",)
    assert {type(answer) for answer in answers if answer is not made[0]} == {Unauthorized}
    assert cluster.nodes.forwarded == 20
    for label in LABELS:
        node = cluster.nodes[label]
        assert (await node.read(cluster.nodes.row, "accounts", made[0].id))["thumbprint"] == "thumbprint-kid-1"
        assert (await node.read(cluster.nodes.row, "eab_keys", "kid-1"))["used_at"] == cluster.clock.now()


async def test_the_account_is_made_by_the_node_that_owns_the_kid(cluster, plugin):
    for kid in ("a", "b", "c", "d"):
        await add_key(cluster, plugin, kid)
        owner = cluster.handles["n1"].owner_of_key(f"eab:{kid}")
        assert owner == cluster.handles["n2"].owner_of_key(f"eab:{kid}")

        made = await new_account(cluster, "n1", kid)

        assert cluster.handles["n1"].owner_of_id(made.id) == owner


async def test_an_owner_out_of_reach_is_unavailable_and_the_kid_is_not_burnt(cluster, plugin):
    await add_key(cluster, plugin, "kid-1")
    owner = cluster.handles["n1"].owner_of_key("eab:kid-1")
    other = next(label for label in LABELS if label != owner)

    cluster.nodes.unreachable.add(owner)
    with pytest.raises(Unavailable):
        await new_account(cluster, other, "kid-1")

    cluster.nodes.unreachable.clear()
    assert (await new_account(cluster, other, "kid-1")).id


async def test_two_edits_of_different_fields_on_two_nodes_both_stay(cluster, plugin):
    n1, n2 = cluster.nodes["n1"], cluster.nodes["n2"]

    def create(tx: Tx) -> None:
        tx.put(plugin.CLIENTS, "c1", client_name="before", redirect_uris="[]")

    await n1.write(create)
    await cluster.nodes.settle()

    await n1.write(plugin.edit_client, "c1", plugin.ClientChange(client_name="after"))
    await n2.write(plugin.edit_client, "c1", plugin.ClientChange(redirect_uris=("https://app.example/cb",)))
    await cluster.nodes.settle()

    for node in (n1, n2):
        row = await node.read(cluster.nodes.row, "clients", "c1")
        assert row == {"client_name": "after", "redirect_uris": '["https://app.example/cb"]'}
