"""Whole services on two nodes: who owns what, what travels between them, and what a plugin can do wrong about it."""

import asyncio

import aiohttp
import pytest

from greatseal.api.nodes import OwnerUnavailable
from greatseal.api.problems import BadRequest, StartProblem
from greatseal.api.services import ServiceKey
from greatseal.kernel.kernel import Kernel
from greatseal.testing.distributions import install

THINGS = """
from greatseal import hookimpl
from greatseal.api.http import Reply, Route
from greatseal.api.nodes import owner_of_path
from greatseal.api.problems import BadRequest
from greatseal.api.services import ServiceKey
from greatseal.api.store import Refuse, operation
import msgspec


class Count(msgspec.Struct):
    of: str
    by: int


class Plugin:
    def _count(self, tx, asked):
        if asked.by < 0:
            raise Refuse(BadRequest("nothing can be taken away"))
        self.counted += asked.by
        return Count(tx.node_id, self.counted)

    @hookimpl
    def services(self, host):
        return {ServiceKey("things"): lambda: self}

    @hookimpl
    def operations(self, host):
        self.counted = 0
        self.count = operation("things.count", lambda asked: asked.of)(self._count)
        return [self.count]

    @hookimpl
    def routes(self, host):
        async def answer(call):
            return Reply.json({"node": host.node_id, "id": call.path["id"]})

        return [Route("GET", "/things/{id}", answer, owner=owner_of_path(host, "id"))]
"""
KEY = ServiceKey("things")
NEVER = 2**62


@pytest.fixture
def things(tmp_path, start_nodes):
    return install(tmp_path / "nodes", "greatseal-things", THINGS)


async def test_a_thing_is_asked_for_at_any_node_and_answered_by_its_own(things, start_nodes):
    _, services = await start_nodes(things)

    async with aiohttp.ClientSession() as http:
        for asked in services.values():
            for label, owner in services.items():
                id = owner.host(things).handles.new_id()
                async with http.get(f"http://{asked.addresses['main']}/things/{id}") as answer:
                    assert await answer.json() == {"node": label, "id": id}


async def test_an_operation_of_a_plugin_runs_where_its_rows_are_and_its_refusal_comes_back(things, start_nodes):
    nodes, services = await start_nodes(things)
    at_n1, count = services["n1"].host(things).db, services["n1"].kernel.service(KEY).count
    kind = type(await at_n1.write(count, services["n1"].kernel.service(KEY)._count.__globals__["Count"]("n1", 1)))

    assert await at_n1.write(count, kind("n2", 5)) == kind("n2", 5)
    assert await at_n1.write(count, kind("n2", 5)) == kind("n2", 10)
    with pytest.raises(BadRequest, match="taken away"):
        await at_n1.write(count, kind("n2", -1))
    nodes.unreachable.add("n2")
    with pytest.raises(OwnerUnavailable):
        await at_n1.write(count, kind("n2", 1))


async def test_a_key_from_outside_is_taken_once_on_all_nodes_and_never_without_its_owner(start_nodes):
    nodes, services = await start_nodes()
    strikes = [service.kernel.strikes for service in services.values()]

    answers = await asyncio.gather(*(one.take("jti", "a", NEVER) for _ in range(20) for one in strikes))

    assert sum(answers) == 1
    owner = services["n1"].kernel.handles.owner_of_key("jti:b")
    other = next(service for label, service in services.items() if label != owner)
    nodes.unreachable.add(owner)
    with pytest.raises(OwnerUnavailable):
        await other.kernel.strikes.take("jti", "b", NEVER)
    nodes.unreachable.clear()
    assert await other.kernel.strikes.take("jti", "b", NEVER)


async def test_every_node_knows_the_configured_ones(things, start_nodes):
    _, services = await start_nodes(things, labels=("n1", "n2", "n3"))

    handles = [service.host(things).handles for service in services.values()]
    assert {one.members for one in handles} == {("n1", "n2", "n3")}
    assert len({one.owner_of_key("k") for one in handles}) == 1


async def test_nodes_of_one_database_ask_nobody(tmp_path, start_nodes, start_service, postgres_url):
    body = THINGS.replace('owner_of_path(host, "id")', "never")
    body = body.replace("class Plugin", "async def never(call): raise AssertionError\n\nclass Plugin")
    alike = install(tmp_path / "nodes", "greatseal-alike", body)
    await start_nodes(labels=("n1", "n2"))
    service = await start_service(alike, "wires", database={"url": postgres_url, "migrate": "auto"})

    async with aiohttp.ClientSession() as http, http.get(f"{service.url}/things/1") as answer:
        assert (await answer.json())["id"] == "1"


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("[len]", "is not marked with operation"),
        ("[operation('x.y', len)(len), operation('x.y', len)(len)]", "the operation 'x.y' is there twice"),
    ],
)
def test_what_is_no_operation_stops_the_start(tmp_path, monkeypatch, returned, said):
    monkeypatch.syspath_prepend(tmp_path)
    body = "from greatseal import hookimpl\nfrom greatseal.api.store import operation\nclass Plugin:\n    @hookimpl\n"
    feature = install(tmp_path, "greatseal-odd", f"{body}    def operations(self, host):\n        return {returned}\n")

    with pytest.raises(StartProblem, match=said):
        kernel_with(feature)


@pytest.mark.parametrize(("others", "said"), [("('n128',)", "same node number"), ("None.x", "AttributeError")])
def test_peers_that_cannot_be_told_apart_stop_the_start(tmp_path, monkeypatch, others, said):
    monkeypatch.syspath_prepend(tmp_path)
    body = "from greatseal import hookimpl\nfrom greatseal.api.services import PEERS\n"
    body += "class Peers:\n    boot = seen = caught_up = forward = ask = serve = None\n    @property\n    def others(self): return "
    hook = "\nclass Plugin:\n    @hookimpl\n    def services(self, host): return {PEERS: Peers}\n"
    feature = install(tmp_path, "greatseal-odd", body + others + hook)

    with pytest.raises(StartProblem, match=f"'odd'.*{said}"):
        kernel_with(feature, cluster={"node_id": "n9"})


def kernel_with(feature, **sections):
    return Kernel({"server": {"base_url": "http://localhost:8080"}, "plugins": {"enabled": [feature]}, **sections})
