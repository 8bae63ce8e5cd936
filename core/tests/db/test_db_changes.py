"""Memory that follows the database: negatives, single flight, and never anything older than the last change."""

import asyncio
import threading

import pytest
from sqlalchemy import Column, MetaData, select

from greatseal.api.problems import Unavailable
from greatseal.api.store import scan
from greatseal.db.tables import Collection, Id, State, Text, param, table
from greatseal.kernel.changes import ChangesHub
from greatseal.testing.store import make_tables, open_test_database

metadata = MetaData()
client = table("t_client", metadata, State.REPLICATED, Column("id", Id, primary_key=True), Column("name", Text, nullable=False))
CLIENTS = Collection("client", client)
NAME = select(client.c.name).where(client.c.id == param("id"))
NAMES = select(client.c.name).order_by(client.c.id)


class Late:
    """The hub is made before the database is open, as in the kernel."""

    opened = None

    async def read(self, fn, /, *args):
        return await self.opened.read(fn, *args)


@pytest.fixture
async def hub(database_url):
    make_tables(database_url, metadata)
    late = Late()
    made = ChangesHub(late)
    async with open_test_database(database_url, on_changed=made.notify) as database:
        late.opened = database
        made.database = database
        yield made


class Loads:
    """Loads names and counts how often; a load can be held after it has read."""

    def __init__(self):
        self.keys = []
        self.read, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    @scan
    def load(self, tx, key):
        self.keys.append(key)
        row = tx.one(NAME, id=key)
        self.read.set()
        assert self.go_on.wait(30)
        return row and row.name


async def test_a_value_is_loaded_once_and_again_after_a_change(hub):
    loads = Loads()
    cache = hub.cache("client", loads.load)
    await hub.database.write(lambda tx: tx.put(CLIENTS, "c1", name="first"))

    assert [await cache.get("c1") for _ in range(3)] == ["first"] * 3
    assert cache.peek("c1") == "first"
    await hub.database.write(lambda tx: tx.put(CLIENTS, "c1", name="second"))
    assert cache.peek("c1") is None
    assert await cache.get("c1") == "second"

    assert loads.keys == ["c1", "c1"]


async def test_that_there_is_no_such_thing_is_remembered_until_there_is(hub):
    loads = Loads()
    cache = hub.cache("client", loads.load)

    assert [await cache.get("c1") for _ in range(3)] == [None] * 3
    await hub.database.write(lambda tx: tx.put(CLIENTS, "c1", name="now"))
    assert await cache.get("c1") == "now"

    assert loads.keys == ["c1", "c1"]


async def test_what_is_used_least_is_forgotten_first(hub):
    loads = Loads()
    cache = hub.cache("client", loads.load, size=2)
    for key in ("a", "b", "a", "c", "a", "b"):
        await cache.get(key)

    assert loads.keys == ["a", "b", "c", "b"]


async def test_concurrent_misses_load_once(hub):
    loads = Loads()
    cache = hub.cache("client", loads.load)

    await asyncio.gather(*(cache.get("c1") for _ in range(20)))

    assert loads.keys == ["c1"]


async def test_a_load_that_a_change_overtook_is_not_kept(hub):
    """It read before the commit: keeping it would bring the old back for ever."""
    loads = Loads()
    cache = hub.cache("client", loads.load)
    await hub.database.write(lambda tx: tx.put(CLIENTS, "c1", name="old"))
    loads.go_on.clear()
    early = asyncio.ensure_future(cache.get("c1"))
    await asyncio.to_thread(loads.read.wait, 30)

    await hub.database.write(lambda tx: tx.put(CLIENTS, "c1", name="new"))
    later = asyncio.ensure_future(cache.get("c1"))
    await asyncio.sleep(0)
    loads.go_on.set()

    assert await later == "new"
    assert await early == "old"
    assert await cache.get("c1") == "new"


async def test_those_who_wait_outlive_the_one_who_loads(hub):
    loads = Loads()
    cache = hub.cache("client", loads.load)
    loads.go_on.clear()
    first = asyncio.ensure_future(cache.get("c1"))
    await asyncio.to_thread(loads.read.wait, 30)
    second = asyncio.ensure_future(cache.get("c1"))
    await asyncio.sleep(0)

    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    loads.go_on.set()

    assert await second is None


async def test_a_failed_load_reaches_all_who_waited_and_is_not_remembered(hub):
    attempts = []

    def load(_tx, _key):
        attempts.append(1)
        if len(attempts) == 1:
            raise Unavailable("down")
        return "up"

    cache = hub.cache("client", scan(load))

    answers = await asyncio.gather(*(cache.get("c1") for _ in range(5)), return_exceptions=True)
    assert {type(answer) for answer in answers} == {Unavailable}
    assert await cache.get("c1") == "up"


async def test_a_snapshot_is_whole_and_made_again_after_any_change_of_its_kinds(hub):
    made = []

    def load(tx):
        made.append(1)
        return tuple(row.name for row in tx.all(NAMES))

    snapshot = hub.snapshot(["client", "scope"], load)

    assert [await snapshot.get() for _ in range(3)] == [()] * 3
    await hub.database.write(lambda tx: tx.put(CLIENTS, "c1", name="one"))
    assert await snapshot.get() == ("one",)
    await hub.database.write(lambda tx: tx.changed("scope", "s1"))
    await hub.database.write(lambda tx: tx.changed("other", "o1"))
    assert await snapshot.get() == ("one",)

    assert len(made) == 3


async def test_a_subscriber_hears_each_change_once_and_finds_memory_already_forgotten(hub):
    heard = []
    hub.subscribe("client", lambda _: 1 / 0)
    hub.subscribe("client", lambda key: heard.append((key, cache.peek(key))))
    cache = hub.cache("client", Loads().load)
    await hub.database.write(lambda tx: tx.put(CLIENTS, "c1", name="old"))
    await cache.get("c1")
    heard.clear()

    def twice(tx):
        tx.put(CLIENTS, "c1", name="new")
        tx.put(CLIENTS, "c1", name="newer")

    await hub.database.write(twice)

    assert heard == [("c1", None)]


async def test_a_change_that_was_undone_is_not_told(hub):
    heard = []
    hub.subscribe("client", heard.append)

    def fail(tx):
        tx.put(CLIENTS, "c1", name="undone")
        raise KeyError("no")

    with pytest.raises(KeyError):
        await hub.database.write(fail)

    assert heard == []
