from contextlib import asynccontextmanager

import pytest
import structlog

from greatseal.clock import FakeClock
from greatseal.kernel.blocking import BlockingPools
from greatseal.kernel.changes import ChangesHub
from greatseal.keys.cluster import ClusterKey
from greatseal.keys.ring import KeyRings
from greatseal.testing.store import open_test_database


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def blocking():
    pools = BlockingPools(threads=2)
    yield pools
    pools.close()


@pytest.fixture
def cluster_key():
    return ClusterKey.generate()


@pytest.fixture
def opened(blocking, clock):
    """Opens a database and the key rings in it: ``async with opened(url, key) as rings``."""

    @asynccontextmanager
    async def open_rings(url, key):
        told = []
        async with open_test_database(url, clock=clock, on_changed=lambda pairs: [tell(pairs) for tell in told]) as db:
            changes = ChangesHub(db)
            told.append(changes.notify)
            rings = KeyRings(db, key, clock, structlog.get_logger(), blocking=blocking)
            rings.follow(changes)
            await rings.load()
            yield rings

    return open_rings


@pytest.fixture
async def rings(opened, database_url, cluster_key):
    async with opened(database_url, cluster_key) as rings:
        yield rings
