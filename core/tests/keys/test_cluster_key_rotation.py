import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager

import pytest
import structlog
from sqlalchemy import Column, MetaData, insert, select

from greatseal.api.problems import BadRequest, Internal, StartProblem, Unavailable
from greatseal.db import core_tables
from greatseal.db.tables import Id, Sealed, State, Text, param, table
from greatseal.kernel.changes import ChangesHub
from greatseal.keys.cluster import ClusterKey, load_cluster_key, store_cluster_key
from greatseal.keys.rotation import NodeKeys, reseal, sealed_columns
from greatseal.keys.sealed import Sealer, sealed_under
from greatseal.testing.store import make_tables, open_test_database

METADATA = MetaData()
SECRET = table(
    "test_secret",
    METADATA,
    State.OWNED,
    Column("user", Id, primary_key=True),
    Column("device", Id, primary_key=True),
    Column("seed", Sealed),
    Column("name", Text),
)
INSERT = insert(SECRET).values({name: param(name) for name in ("user", "device", "seed", "name")})
SECRETS = select(SECRET).order_by(SECRET.c.device)
KEYS = select(core_tables.key)
ALL = (core_tables.metadata, METADATA)
COLUMNS = sealed_columns(ALL)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cluster.key"


@pytest.fixture
def node(path, blocking, clock):
    """Opens a database and the keys of a node: ``async with node(url) as keys``."""

    @asynccontextmanager
    async def opened(url, metadata=ALL):
        told = []
        async with open_test_database(url, clock=clock, on_changed=lambda pairs: [tell(pairs) for tell in told]) as db:
            changes = ChangesHub(db)
            told.append(changes.notify)
            key = load_cluster_key(path, create=True)
            keys = NodeKeys(db, key, clock, structlog.get_logger(), blocking=blocking, file=path, metadata=metadata)
            keys.follow(changes)
            await keys.start()
            yield keys

    return opened


async def fill(keys):
    await keys.ring("oidc").make("ec:P-256")
    await keys.ring("ca:default:root").make("ed25519")
    for device in ("a", "b"):
        seed = keys.seal(device.encode() * 20, table="test_secret", row=f"alice/{device}", field="seed")
        await keys.db.write(keep, "alice", device, seed)
    await keys.db.write(keep, "alice", "none", None)


def keep(tx, user, device, seed):
    tx.run(INSERT, user=user, device=device, seed=seed, name="x")


async def envelopes(keys):
    secrets = await keys.db.read(lambda tx: tx.all(SECRETS))
    rings = await keys.db.read(lambda tx: tx.all(KEYS))
    return [bytes(value) for value in (*(row.seed for row in secrets), *(row.private for row in rings)) if value is not None]


def test_every_column_declared_sealed_is_found():
    assert [str(column) for column in COLUMNS] == ["core_envelope_key.value", "core_key.private", "test_secret.seed"]


async def test_a_rotation_seals_everything_again_and_forgets_the_old_key(node, database_url, path, clock):
    make_tables(database_url, METADATA)
    async with node(database_url) as keys:
        old = load_cluster_key(path, create=False)
        assert keys.cluster_key().key_id == str(old.key_id)
        await fill(keys)
        signer = keys.ring("oidc").active
        clock.advance(5)

        info = await keys.rotate_cluster_key()

        new = load_cluster_key(path, create=False)
        assert (info.key_id, info.rotated_at, keys.cluster_key()) == (str(new.key_id), clock.now(), info)
        assert (new.others, new.key_id != old.key_id, new.secret != old.secret) == ((), True, True)
        assert {sealed_under(one) for one in await envelopes(keys)} == {new.key_id}
        assert keys.ring("oidc").active is signer
        made = await keys.ring("oidc").make("ec:P-256")
    async with node(database_url) as keys:
        assert keys.cluster_key() == info
        assert keys.ring("oidc").active.info == made.info
        assert keys.ring("ca:default:root").active
        row = (await keys.db.read(lambda tx: tx.all(SECRETS)))[0]
        assert keys.open(bytes(row.seed), table="test_secret", row="alice/a", field="seed") == b"a" * 20
        with pytest.raises(Internal):
            Sealer(old).open(bytes(row.seed), table="test_secret", row="alice/a", field="seed")


async def test_a_key_that_was_brought_is_used_and_nothing_but_32_bytes_is_taken(node, database_url, path):
    make_tables(database_url, METADATA)
    async with node(database_url) as keys:
        for wrong in (b"", b"k" * 31, b"k" * 33):
            with pytest.raises(BadRequest, match="32 bytes"):
                await keys.rotate_cluster_key(wrong)

        await keys.rotate_cluster_key(b"k" * 32)

        assert load_cluster_key(path, create=False).secret == b"k" * 32
        with pytest.raises(BadRequest, match="in force"):
            await keys.rotate_cluster_key(b"k" * 32)


async def test_what_goes_with_a_rotation_commits_with_it_or_not_at_all(node, database_url, path):
    make_tables(database_url, METADATA)
    async with node(database_url) as keys:
        before = keys.cluster_key()
        told = []
        after = await keys.rotate_cluster_key(also=lambda _, info: told.append(info))
        assert set(map(repr, told)) == {repr(after)}

        def refuse(tx, info):
            raise Unavailable("not now")

        with pytest.raises(Unavailable):
            await keys.rotate_cluster_key(also=refuse)

        assert keys.cluster_key() == after != before
        third = await keys.rotate_cluster_key()
        assert load_cluster_key(path, create=False).others == ()
    async with node(database_url) as keys:
        assert keys.cluster_key() == third


async def test_rotations_at_the_same_time_follow_one_another(node, database_url, path):
    make_tables(database_url, METADATA)
    async with node(database_url) as keys:
        await fill(keys)

        await asyncio.gather(*(keys.rotate_cluster_key() for _ in range(3)), *(keys.ring("oidc").make("ec:P-256") for _ in range(10)))

        key = load_cluster_key(path, create=False)
        assert (keys.cluster_key().key_id, key.others) == (str(key.key_id), ())
        assert {sealed_under(one) for one in await envelopes(keys)} == {key.key_id}
    async with node(database_url) as keys:
        assert len(keys.ring("oidc").all()) == 11


async def test_a_caller_that_goes_away_does_not_leave_a_rotation_half_done(node, database_url, path):
    make_tables(database_url, METADATA)
    async with node(database_url) as keys:
        before = keys.cluster_key()
        caller = asyncio.create_task(keys.rotate_cluster_key())
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller

        after = await keys.rotate_cluster_key()

        key = load_cluster_key(path, create=False)
        assert (str(key.key_id), key.others) == (after.key_id, ())
        assert after.key_id != before.key_id


async def test_a_value_sealed_before_a_rotation_still_opens_after_it(node, database_url):
    make_tables(database_url, METADATA)
    async with node(database_url) as keys:
        late = keys.seal(b"late", table="test_secret", row="bob/a", field="seed")
        await keys.rotate_cluster_key()
        await keys.db.write(keep, "bob", "a", late)

        assert keys.open(late, table="test_secret", row="bob/a", field="seed") == b"late"
        assert await reseal(keys.db, keys.sealer, COLUMNS) == 1
        assert await reseal(keys.db, keys.sealer, COLUMNS) == 0


async def test_a_value_that_does_not_open_undoes_the_rotation(node, database_url, path):
    make_tables(database_url, METADATA)
    async with node(database_url) as keys:
        await fill(keys)
        before = keys.cluster_key()
        misplaced = keys.seal(b"x", table="test_secret", row="elsewhere", field="seed")
        await keys.db.write(keep, "eve", "z", misplaced)

        with pytest.raises(Internal):
            await keys.rotate_cluster_key()

        assert keys.cluster_key() == before
        assert {str(sealed_under(one)) for one in await envelopes(keys)} == {before.key_id}
    async with node(database_url) as keys:
        assert keys.cluster_key() == before
        assert load_cluster_key(path, create=False).others == ()


async def test_a_file_that_cannot_be_written_leaves_everything_as_it_was(node, database_url, path):
    make_tables(database_url, METADATA)
    async with node(database_url) as keys:
        before = keys.cluster_key()
        keys._file = path.parent / "absent" / "cluster.key"

        with pytest.raises(Unavailable) as problem:
            await keys.rotate_cluster_key()

        assert (keys.cluster_key(), str(keys._file) in problem.value.cause) == (before, True)
        keys._file = path
        assert (await keys.rotate_cluster_key()).key_id != before.key_id


async def test_the_key_file_of_another_database_stops_the_start_with_one_line(node, database_url, path):
    make_tables(database_url, METADATA)
    async with node(database_url) as keys:
        wanted = keys.cluster_key().key_id
    path.unlink()

    with pytest.raises(StartProblem, match=f"{wanted}.*put back the cluster key file") as problem:
        async with node(database_url):
            pass
    assert len(problem.value.messages) == 1


ROTATE = """
import asyncio, sys, structlog
from pathlib import Path
from greatseal.clock import SystemClock
from greatseal.db import core_tables
from greatseal.kernel.blocking import BlockingPools
from greatseal.keys.cluster import load_cluster_key
from greatseal.keys.rotation import NodeKeys
from greatseal.testing.store import open_test_database

async def main(url, path):
    async with open_test_database(url) as db:
        key = load_cluster_key(path, create=True)
        pools = BlockingPools()
        keys = NodeKeys(db, key, SystemClock(), structlog.get_logger(), blocking=pools, file=path, metadata=[core_tables.metadata])
        await keys.start()
        await keys.rotate_cluster_key()

asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
"""


@pytest.mark.parametrize(
    ("point", "done"),
    [
        ("cluster_key.both_stored:kill", False),
        ("db.commit:kill:1", False),
        ("db.committed:kill:1", True),
        ("cluster_key.in_force:kill", True),
        ("cluster_key.forgotten:kill", True),
    ],
)
async def test_a_rotation_that_was_killed_is_done_or_undone_as_a_whole(node, tmp_path, path, point, done):
    url = f"sqlite:///{tmp_path}/greatseal.db"
    async with node(url, [core_tables.metadata]) as keys:
        signer = await keys.ring("oidc").make("ec:P-256")
        before = keys.cluster_key()
    environment = os.environ | {"GREATSEAL_FAULTS": "1", "GREATSEAL_FAULT": point}

    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ROTATE, url, str(path), env=environment)

    assert await process.wait() == -signal.SIGKILL
    async with node(url, [core_tables.metadata]) as keys:
        assert keys.ring("oidc").active.info == signer.info
        assert (keys.cluster_key() != before) is done
        key = load_cluster_key(path, create=False)
        assert (str(key.key_id), key.others) == (keys.cluster_key().key_id, ())
        rows = await keys.db.read(lambda tx: tx.all(KEYS))
        assert {sealed_under(bytes(row.private)) for row in rows} == {key.key_id}


async def test_the_row_of_the_database_decides_where_the_file_holds_two_keys(node, database_url, path):
    make_tables(database_url, METADATA)
    async with node(database_url) as keys:
        await fill(keys)
        old, before = load_cluster_key(path, create=False), keys.cluster_key()
    store_cluster_key(path, ClusterKey(ClusterKey.generate().key_id, b"n" * 32, (old,)))

    async with node(database_url) as keys:
        assert keys.cluster_key() == before
        assert load_cluster_key(path, create=False) == old
