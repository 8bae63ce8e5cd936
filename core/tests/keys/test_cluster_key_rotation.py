import asyncio
import os
import signal
import sys
import uuid

import pytest
from sqlalchemy import Column, MetaData, insert, select

from greatseal.api.problems import Internal
from greatseal.db import core_tables
from greatseal.db.tables import Id, Sealed, State, Text, param, table
from greatseal.keys.cluster import load_cluster_key
from greatseal.keys.rotation import reseal, rotate_cluster_key, sealed_columns
from greatseal.keys.sealed import Sealer, sealed_under
from greatseal.testing.store import make_tables

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


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cluster.key"


async def fill(rings):
    await rings.ring("oidc").make("ec:P-256")
    await rings.ring("ca:default:root").make("ed25519")
    for device in ("a", "b"):
        seed = rings.seal(device.encode() * 20, table="test_secret", row=f"alice/{device}", field="seed")
        await rings.db.write(keep, "alice", device, seed)
    await rings.db.write(keep, "alice", "none", None)


def keep(tx, user, device, seed):
    tx.run(INSERT, user=user, device=device, seed=seed, name="x")


async def envelopes(rings):
    secrets = await rings.db.read(lambda tx: tx.all(SECRETS))
    keys = await rings.db.read(lambda tx: tx.all(KEYS))
    return [bytes(value) for value in (*(row.seed for row in secrets), *(row.private for row in keys)) if value is not None]


def test_every_column_declared_sealed_is_found():
    assert [str(column) for column in sealed_columns(ALL)] == ["core_key.private", "test_secret.seed"]


async def test_a_rotation_seals_everything_again_and_forgets_the_old_key(opened, database_url, path):
    old = load_cluster_key(path, create=True)
    make_tables(database_url, METADATA)
    async with opened(database_url, old) as rings:
        await fill(rings)
        signer = rings.ring("oidc").active

        new = await rotate_cluster_key(rings, path, old, ALL)

        assert load_cluster_key(path, create=False) == new
        assert (new.older, new.key_id != old.key_id, new.secret != old.secret) == ((), True, True)
        assert {sealed_under(one) for one in await envelopes(rings)} == {new.key_id}
        assert rings.ring("oidc").active is signer
        made = await rings.ring("oidc").make("ec:P-256")
    async with opened(database_url, new) as rings:
        assert rings.ring("oidc").active.info == made.info
        assert rings.ring("ca:default:root").active
        row = (await rings.db.read(lambda tx: tx.all(SECRETS)))[0]
        assert rings.open(bytes(row.seed), table="test_secret", row="alice/a", field="seed") == b"a" * 20
        with pytest.raises(Internal):
            Sealer(old).open(bytes(row.seed), table="test_secret", row="alice/a", field="seed")


async def test_a_value_sealed_before_the_switch_still_opens_and_is_sealed_again(opened, database_url, path):
    old = load_cluster_key(path, create=True)
    make_tables(database_url, METADATA)
    async with opened(database_url, old) as rings:
        late = rings.seal(b"late", table="test_secret", row="bob/a", field="seed")
        await rotate_cluster_key(rings, path, old, ALL)
        await rings.db.write(keep, "bob", "a", late)

        assert rings.open(late, table="test_secret", row="bob/a", field="seed") == b"late"
        assert await reseal(rings.db, rings.sealer, ALL) == 1
        assert await reseal(rings.db, rings.sealer, ALL) == 0


async def test_a_value_that_does_not_open_undoes_the_walk(opened, database_url, path):
    old = load_cluster_key(path, create=True)
    make_tables(database_url, METADATA)
    async with opened(database_url, old) as rings:
        await fill(rings)
        misplaced = rings.seal(b"x", table="test_secret", row="elsewhere", field="seed")
        await rings.db.write(keep, "eve", "z", misplaced)

        with pytest.raises(Internal):
            await rotate_cluster_key(rings, path, old, ALL)

        assert {sealed_under(one) for one in await envelopes(rings)} == {old.key_id}
        stored = load_cluster_key(path, create=False)
        assert stored.older == (old,)
        assert stored.key_id == rings.sealer.key_id


ROTATE = """
import asyncio, sys, structlog
from pathlib import Path
from greatseal.clock import SystemClock
from greatseal.db import core_tables
from greatseal.kernel.blocking import BlockingPools
from greatseal.keys.cluster import load_cluster_key
from greatseal.keys.ring import KeyRings
from greatseal.keys.rotation import rotate_cluster_key
from greatseal.testing.store import open_test_database

async def main(url, path):
    key = load_cluster_key(path, create=True)
    async with open_test_database(url) as db:
        rings = KeyRings(db, key, SystemClock(), structlog.get_logger(), blocking=BlockingPools())
        await rings.load()
        await rotate_cluster_key(rings, path, key, [core_tables.metadata])

asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
"""


@pytest.mark.parametrize("point", ["cluster_key.both_stored", "cluster_key.resealed"])
async def test_a_rotation_that_was_killed_opens_everything_and_can_be_done_again(opened, tmp_path, path, point):
    url = f"sqlite:///{tmp_path}/greatseal.db"
    async with opened(url, load_cluster_key(path, create=True)) as rings:
        signer = await rings.ring("oidc").make("ec:P-256")
    environment = os.environ | {"GREATSEAL_FAULTS": "1", "GREATSEAL_FAULT": f"{point}:kill"}

    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ROTATE, url, str(path), env=environment)

    assert await process.wait() == -signal.SIGKILL
    halfway = load_cluster_key(path, create=False)
    assert len(halfway.older) == 1
    async with opened(url, halfway) as rings:
        assert rings.ring("oidc").active.info == signer.info
        new = await rotate_cluster_key(rings, path, halfway, [core_tables.metadata])
    async with opened(url, load_cluster_key(path, create=False)) as rings:
        assert rings.ring("oidc").active.info == signer.info
    assert new.older == ()
    assert isinstance(new.key_id, uuid.UUID)
