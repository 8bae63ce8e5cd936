"""The validation queue and the settling of finalizations: nothing is lost, nothing happens twice."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import aiohttp
import pytest
from cryptography import x509
from rig.acme import Responder, Site, acme_site, b64url, csr_for, eventually
from sqlalchemy import select
from system.acme_validators import Gate, installed

from greatseal.api.services import CHALLENGES
from greatseal.clock import FakeClock
from greatseal.testing.service import document, serve
from greatseal_acme import tables as t
from greatseal_acme.finalize import _with_proofs

SECOND = 1_000_000


@pytest.fixture
def feature(tmp_path):
    with installed(tmp_path / "installed") as feature:
        yield feature


@pytest.fixture
async def lab(start_service, feature, database_url) -> AsyncIterator[Site]:
    async with acme_site(start_service, feature, database=database_url) as site:
        yield site


def gate_of(site: Site) -> Gate:
    gate: Gate = site.service.kernel.hooks.instances["test-validators"].gated.gate
    return gate


async def answered(client, *names):
    """Orders whose gate-01 challenges all were answered."""
    made = await client.order(*names)
    for url in made.json["authorizations"]:
        challenge = await client.challenge(url, "gate-01")
        assert (await client.post(challenge["url"], {})).json["status"] == "processing"
    return made.location


async def test_ca_084_orders_whose_challenges_finish_together_all_become_ready(lab):
    clients, gate = [await lab.client() for _ in range(3)], gate_of(lab)

    async def fifty(client):
        return [await answered(client, f"a{number}.localhost", f"b{number}.localhost") for number in range(50)]

    places = await asyncio.gather(*(fifty(client) for client in clients))
    await eventually(lambda: gate.waiting == 256)
    gate.open.set()
    orders = await asyncio.gather(*(client.until(place, "pending") for client, mine in zip(clients, places, strict=True) for place in mine))

    assert len(orders) == 150
    assert {order["status"] for order in orders} == {"ready"}
    assert gate.most == 256
    assert gate.passed >= 300  # more where the database had no room in time: such a validation is done again


async def test_ca_085_decisions_at_the_same_instant_see_each_other(lab):
    client, challenges = await lab.client(), lab.service.kernel.service(CHALLENGES)
    places = [await answered(client, f"a{number}.localhost", f"b{number}.localhost") for number in range(75)]
    ids = await processing(lab)
    db = lab.service.host("acme").db

    decided = await asyncio.gather(*(db.write(challenges.decide, id, None) for id in ids))
    orders = [(await client.post(place)).json["status"] for place in places]

    assert decided == [True] * 150
    assert orders == ["ready"] * 75


async def processing(site):
    rows = select(t.challenge.c.id).where(t.challenge.c.status == "processing").order_by(t.challenge.c.id)
    return [row.id for row in await site.service.host("acme").db.read(lambda tx: tx.all(rows))]


async def test_s135_a_thousand_slow_validations_leave_room_for_others(lab):
    slow, other, gate = await lab.client(), await lab.client(), gate_of(lab)
    for start in range(0, 1000, 100):
        await answered(slow, *(f"n{number}.localhost" for number in range(start, start + 100)))
    await eventually(lambda: gate.waiting == 128)

    leaf = (await other.issue(lab.responder, "quick.localhost"))[0]

    assert leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert gate.most == 128
    assert gate.passed == 0


@asynccontextmanager
async def restarted(config, responder, *, clock=None):
    """The service of a configuration, and a site around it."""
    async with serve(config, clock=clock) as service, aiohttp.ClientSession() as session:
        yield Site(service, responder, session)


@pytest.fixture
async def config(tmp_path, feature, database_url):
    """A configuration that several services may run one after the other."""
    async with Responder().served() as responder:
        server = {"http_validation_port": responder.port, "http_validation_allow_private_ips": True}
        database = {"url": database_url, "migrate": "auto"}
        features = ["ca", "acme", "http-01", "resolver", feature]
        yield document(tmp_path, features, server=server, database=database), responder


async def test_what_was_processing_is_validated_after_a_restart(config):
    async with restarted(*config) as site:
        client = await site.client()
        place = await answered(client, "a.localhost", "b.localhost")
        await eventually(lambda: gate_of(site).waiting == 2)

    async with restarted(*config) as site:
        gate_of(site).open.set()
        again = await site.client(client.key)
        order = await again.until(place, "pending")

    assert order["status"] == "ready"
    assert gate_of(site).passed == 2


async def test_ca_206_a_challenge_type_that_is_not_enabled_any_more_is_an_incorrect_response(config, feature):
    document, responder = config
    async with restarted(*config) as site:
        client = await site.client()
        place = await answered(client, "a.localhost")
        await eventually(lambda: gate_of(site).waiting == 1)

    enabled = [name for name in document["plugins"]["enabled"] if name != feature]
    async with restarted({**document, "plugins": {"enabled": enabled}}, responder) as site:
        again = await site.client(client.key)
        order = await again.until(place, "pending")

    assert order["status"] == "invalid"
    problem = order["error"].get("subproblems", [order["error"]])[0]
    assert problem["type"] == "urn:ietf:params:acme:error:incorrectResponse"
    assert "gate-01 is not enabled" in problem["detail"]


@pytest.mark.parametrize("step", [0, -90])
async def test_a_claimed_order_is_settled_after_a_restart(config, step):
    async with restarted(*config) as site:
        client = await site.client()
        ready = await client.ready(site.responder, "a.localhost")
        await claim(site, client, ready)
        stuck = await client.post(ready.location)
        refused = await client.finalize(ready.json, csr_for("a.localhost"))

    async with restarted(*config, clock=FakeClock((int(time.time()) + step) * SECOND)) as site:
        again = await site.client(client.key)
        settled = await again.until(ready.location, "processing")
        if settled["status"] == "ready":
            settled = (await again.finalize(settled, csr_for("a.localhost"))).json
        chain = x509.load_pem_x509_certificates((await again.post(settled["certificate"])).body)

    assert stuck.json["status"] == "processing"
    assert stuck.headers["Retry-After"]
    assert refused.error == "orderNotReady"
    assert settled["status"] == "valid"
    assert len(chain) == 2


async def claim(site, client, ready):
    """What finalize does up to the claim; the process ends there."""
    acme = site.service.kernel.hooks.instances["acme"].acme(site.service.host("acme"))
    account = await acme.accounts.find(client.kid.rpartition("/")[2])
    order, proven = await site.service.host("acme").db.read(_with_proofs, ready.location.rpartition("/")[2], account.id, "default")
    request = await acme.finalizations._checked(order, proven, {"csr": b64url(csr_for("a.localhost"))}, account)
    await acme.finalizations._claim(order, request, await acme.accounts.get(account.id))


async def test_a_deactivated_authorization_is_not_revived_by_its_validation(lab):
    client, gate = await lab.client(), gate_of(lab)
    place = await answered(client, "a.localhost")
    (url,) = (await client.post(place)).json["authorizations"]
    await eventually(lambda: gate.waiting == 1)

    await client.post(url, {"status": "deactivated"})
    gate.open.set()
    challenge = await client.challenge(url, "gate-01")
    decided = await client.until(challenge["url"], "processing")

    assert decided["status"] == "invalid"
    assert (await client.post(url)).json["status"] == "deactivated"
    assert (await client.post(place)).json["status"] == "invalid"


@pytest.mark.parametrize("move", [lambda clock: clock.advance(301), lambda clock: clock.step(-90)], ids=["its lease ends", "set back"])
async def test_a_validation_whose_task_was_cancelled_makes_room_and_is_taken_up_again(start_service, feature, monkeypatch, move):
    monkeypatch.setattr("greatseal_acme.validation.IN_FLIGHT", 1)
    clock = FakeClock(int(time.time()) * SECOND)
    async with acme_site(start_service, feature, clock=clock) as site:
        client, failing = await site.client(), site.service.kernel.hooks.instances["test-validators"].failing
        quits, problem = await client.order("quits.localhost"), await client.order("problem.localhost")
        for made in (quits, problem):
            challenge = await client.challenge(made.json["authorizations"][0], "fail-01")
            await client.post(challenge["url"], {})
        decided = await client.until(problem.location, "pending")
        waiting = await client.challenge(quits.json["authorizations"][0], "fail-01")

        move(clock)
        await site.service.kernel.hooks.instances["acme"].acme(site.service.host("acme")).challenges.validations.sweep()
        await eventually(lambda: failing.tried >= 3)

    assert decided["status"] == "invalid"
    assert waiting["status"] == "processing"


@pytest.mark.parametrize(("type", "name", "end"), [("gate-01", "a.localhost", "ready"), ("fail-01", "problem.localhost", "invalid")])
async def test_ca_085_ca_087_ca_103_a_cascade_that_fails_is_rolled_back_and_tried_again(
    start_service, feature, tmp_path, monkeypatch, capfd, type, name, end
):
    monkeypatch.setattr("greatseal_acme.validation.RETRY_SECONDS", 0.05)
    path = tmp_path / "shared.db"
    async with acme_site(start_service, feature, database=f"sqlite:///{path}") as site:
        client, plugin = await site.client(), site.service.kernel.hooks.instances["test-validators"]
        plugin.gated.gate.open.set()
        made = await client.order(name)
        (url,) = made.json["authorizations"]
        challenge = await client.challenge(url, type)
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TRIGGER broken BEFORE UPDATE ON acme_order BEGIN SELECT RAISE(ABORT, 'broken disk'); END")
            await client.post(challenge["url"], {})
            await eventually(lambda: max(plugin.gated.gate.passed, plugin.failing.tried) >= 2)
            meanwhile = [(await client.challenge(url, type))["status"], (await client.post(url)).json["status"]]
            other.execute("DROP TRIGGER broken")
        order = await client.until(made.location, "pending")

    assert meanwhile == ["processing", "pending"]
    assert order["status"] == end
    assert "validation could not be recorded and will be tried again" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"contact": "["}, ["serverInternal", "incident"]),
        ({"jwk": "{}"}, ["unauthorized", "the account key is not accepted any more"]),
    ],
)
async def test_ca_202_an_account_that_cannot_be_read_or_used_ends_its_validations(config, broken, said):
    async with restarted(*config) as site:
        client = await site.client()
        await answered(client, "a.localhost")
        await eventually(lambda: gate_of(site).waiting == 1)
        id, db = client.kid.rpartition("/")[2], site.service.host("acme").db
        await db.write(lambda tx: tx.put(t.ACCOUNT, id, **broken))

    async with restarted(*config) as site:
        gate_of(site).open.set()
        rows = select(t.challenge.c.status, t.challenge.c.error).where(t.challenge.c.type == "gate-01")

        async def stored():
            return await site.service.host("acme").db.read(lambda tx: tx.one(rows))

        async def decided():
            return (await stored()).status != "processing"

        await eventually(decided)
        found = await stored()

    assert found.status == "invalid"
    assert all(word in found.error for word in said)
    assert gate_of(site).passed == 0
