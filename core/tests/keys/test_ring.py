import asyncio

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_der_public_key
from sqlalchemy import select

from greatseal.api.problems import StartProblem
from greatseal.db.core_tables import KEYS, key
from greatseal.keys.cluster import ClusterKey
from greatseal.keys.ring import KeyRings

ROWS = select(key).order_by(key.c.created_at)


async def rows_of(rings):
    return await rings.db.read(lambda tx: tx.all(ROWS))


async def test_a_ring_is_empty_until_a_key_is_made(rings):
    ring = rings.ring("ca:default:root")

    assert ring.active is None
    assert ring.all() == ()
    assert rings.ring("ca:default:root") is ring


async def test_a_made_key_is_active_and_signs(rings):
    signer = await rings.ring("oidc").make("ec:P-256")

    assert rings.ring("oidc").active is signer
    assert signer.info.state == "active"
    assert signer.info.purpose == "oidc"
    load_der_public_key(signer.info.spki).verify(await signer.sign(b"x"), b"x", ec.ECDSA(SHA256()))


async def test_a_private_key_rests_sealed(rings):
    signer = await rings.ring("oidc").make("ec:P-256")

    (row,) = await rows_of(rings)
    der = rings.open(bytes(row.private), table="core_key", row=signer.info.kid, field="private")
    assert load_der_private_key(der, None).public_key() == signer.public_key
    assert der[-32:] not in bytes(row.private)


async def test_the_key_before_is_retained(rings, clock):
    ring = rings.ring("oidc")
    first = await ring.make("ec:P-256")
    clock.advance(1)
    second = await ring.make("ed25519")

    assert [(signer.info.kid, signer.info.state) for signer in ring.all()] == [
        (second.info.kid, "active"),
        (first.info.kid, "retained"),
    ]
    assert ring.active is second


async def test_rings_of_other_purposes_are_left_alone(rings):
    root = await rings.ring("ca:default:root").make("ec:P-256")
    await rings.ring("ca:default:issuing").make("ec:P-256")

    assert rings.ring("ca:default:root").active is root
    assert rings.ring("ca:default:root").all() == (root,)


async def test_s043_a_revoked_key_is_gone_for_ever(rings):
    ring = rings.ring("oidc")
    signer = await ring.make("ec:P-256")

    assert await ring.revoke(signer.info.kid)

    assert ring.active is None
    assert ring.all() == ()
    (row,) = await rows_of(rings)
    assert (row.state, row.private) == ("revoked", None)
    assert await ring.revoke(signer.info.kid)


async def test_a_key_is_revoked_in_its_own_ring_alone(rings):
    signer = await rings.ring("oidc").make("ec:P-256")

    assert not await rings.ring("other").revoke(signer.info.kid)
    assert not await rings.ring("oidc").revoke("../../dev/null' OR 1=1 --")
    assert rings.ring("oidc").active is signer


async def test_keys_survive_a_restart(opened, database_url, cluster_key):
    async with opened(database_url, cluster_key) as rings:
        signer = await rings.ring("oidc").make("ec:P-256")
        signature = await signer.sign(b"x")
    async with opened(database_url, cluster_key) as rings:
        again = rings.ring("oidc").active

        assert again.info == signer.info
        assert await again.sign(b"x") == signature


async def test_another_cluster_key_stops_the_start_with_one_line(opened, database_url, cluster_key):
    async with opened(database_url, cluster_key) as rings:
        await rings.ring("oidc").make("ec:P-256")

    with pytest.raises(StartProblem, match="put back the cluster key file") as problem:
        async with opened(database_url, ClusterKey.generate()):
            pass
    assert len(problem.value.messages) == 1


async def test_an_unknown_key_store_is_a_mistake(rings):
    with pytest.raises(ValueError, match="the key store 'hsm' is unknown; known: none"):
        await rings.ring("oidc").make("ec:P-256", store="hsm")
    assert await rows_of(rings) == []


async def test_a_setting_names_a_file_or_a_key_of_a_store(rings, tmp_path):
    with pytest.raises(StartProblem, match=r"absent\.pem: the key file cannot be read"):
        await rings.signer(f"{tmp_path}/absent.pem", purpose="ca")
    with pytest.raises(StartProblem, match="hsm:x: no enabled plugin provides the key store 'hsm'; known: none"):
        await rings.signer("hsm:x", purpose="ca")
    with pytest.raises(StartProblem, match="asks for no password here"):
        await rings.signer("hsm:x", purpose="ca", password=b"secret")


async def test_makers_at_the_same_time_leave_one_active_key(rings):
    made = await asyncio.gather(*(rings.ring("oidc").make("ec:P-256") for _ in range(10)))

    states = [signer.info.state for signer in rings.ring("oidc").all()]
    assert (states.count("active"), states.count("retained")) == (1, 9)
    assert {signer.info.kid for signer in made} == {signer.info.kid for signer in rings.ring("oidc").all()}


async def test_a_change_by_others_reaches_the_snapshot(rings):
    signer = await rings.ring("oidc").make("ec:P-256")

    await rings.db.write(lambda tx: tx.put(KEYS, signer.info.kid, state="revoked"))
    await rings._catching_up

    assert rings.ring("oidc").all() == ()


async def test_an_unknown_key_type_is_a_mistake(rings):
    with pytest.raises(ValueError, match="none of ec:P-256"):
        await rings.ring("oidc").make("rsa:1024")
    assert await rows_of(rings) == []


async def test_two_kernels_share_no_ring(opened, tmp_path, cluster_key):
    async with opened(f"sqlite:///{tmp_path}/a.db", cluster_key) as one, opened(f"sqlite:///{tmp_path}/b.db", cluster_key) as other:
        await one.ring("oidc").make("ec:P-256")

        assert isinstance(other, KeyRings)
        assert other.ring("oidc").active is None
