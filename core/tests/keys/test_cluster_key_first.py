"""The file of the cluster key is made for a database that nothing was sealed in, and never to stand in for a key that is lost."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import structlog

from greatseal.api.problems import StartProblem
from greatseal.db import core_tables
from greatseal.keys.cluster import ClusterKey, create_cluster_key, load_cluster_key, store_cluster_key
from greatseal.keys.files import create_private
from greatseal.keys.rotation import NodeKeys, first_cluster_key
from greatseal.testing.store import open_test_database

METADATA = [core_tables.metadata]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "state").mkdir()
    return tmp_path / "state" / "cluster.key"


@pytest.fixture
def node(blocking, clock):
    """Starts the keys of a node: ``async with node(url, path) as keys``; ``settle=False`` is a start that is killed before."""

    @asynccontextmanager
    async def opened(url, path, *, settle=True):
        async with open_test_database(url, clock=clock) as db:
            async with first_cluster_key(db, path, METADATA) as key:
                keys = NodeKeys(db, key, clock, structlog.get_logger(), blocking=blocking, file=path, metadata=METADATA)
                if settle:
                    await keys.start()
            yield keys

    return opened


async def test_the_first_start_makes_the_file_and_a_later_one_reads_it(node, database_url, path):
    async with node(database_url, path, settle=False):  # killed before the key was put in force
        first = load_cluster_key(path, create=False)
    for _ in range(2):
        async with node(database_url, path) as keys:
            assert keys.cluster_key().key_id == str(first.key_id)
    assert [file.name for file in path.parent.iterdir()] == ["cluster.key"]


@pytest.mark.parametrize("recorded", [True, False])
async def test_a_lost_file_is_named_with_its_key_and_none_is_made_for_it(node, database_url, path, recorded):
    async with node(database_url, path) as keys:
        lost = keys.cluster_key().key_id
        await keys.ring("oidc").make("ec:P-256")
        if not recorded:  # sealed, and no row says under which key
            await keys.db.write(forget, lost)
    path.unlink()

    with pytest.raises(StartProblem) as problem:
        async with node(database_url, path):
            pass

    assert str(problem.value) == (
        f"{path}: there is no cluster key file, and the database is sealed under the cluster key {lost}; "
        "restore it from the backup, or copy it from another node"
    )
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("recorded", [True, False])
async def test_a_file_with_another_key_is_refused_and_left_alone(node, database_url, path, recorded):
    async with node(database_url, path) as keys:
        right = keys.cluster_key().key_id
        await keys.ring("oidc").make("ec:P-256")
        if not recorded:
            await keys.db.write(forget, right)
    store_cluster_key(path, ClusterKey.generate())
    before = path.read_bytes()

    for _ in range(2):
        with pytest.raises(StartProblem, match=f"sealed under the cluster key {right}, which this file does not hold"):
            async with node(database_url, path):
                pass

    assert path.read_bytes() == before


def forget(tx, key_id):
    tx.remove(core_tables.CLUSTER_KEY, key_id)


async def test_nodes_with_files_of_their_own_leave_one_when_they_start_together(database_url, tmp_path, blocking, clock):
    async def start(db, file, *, between=None):
        async with first_cluster_key(db, file, METADATA) as key:
            if between:
                await between
            await NodeKeys(db, key, clock, structlog.get_logger(), blocking=blocking, file=file, metadata=METADATA).start()

    ours, theirs = tmp_path / "ours.key", tmp_path / "theirs.key"
    async with open_test_database(database_url, clock=clock) as db:
        with pytest.raises(StartProblem, match="which this file does not hold"):
            await start(db, ours, between=start(db, theirs))
        await start(db, theirs)

    assert not ours.exists()


async def test_starts_together_agree_on_one_file(node, database_url, path):
    async def start():
        async with node(database_url, path) as keys:
            return keys.cluster_key().key_id

    found = await asyncio.gather(*(start() for _ in range(4)))

    assert set(found) == {str(load_cluster_key(path, create=False).key_id)}


def test_a_file_that_is_there_is_not_made_again(path):
    assert create_cluster_key(path)
    assert not create_cluster_key(path)
    made = path.read_bytes()

    assert not create_private(path, b"of a process that was not quicker")

    assert path.read_bytes() == made


async def test_the_key_in_force_is_not_known_before_the_start(node, database_url, path):
    async with node(database_url, path, settle=False) as keys:
        with pytest.raises(RuntimeError, match="lifespans"):
            keys.cluster_key()
