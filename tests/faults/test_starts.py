"""Kills while the service starts: at a first start, while the CA is made, while a schema is migrated, and while a crash is settled."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from faults.crash import Crashing, Ledger, Subscriber, subscribers
from faults.invariants import check, check_answers, rows_of, settled
from faults.test_kills import ALL
from rig.acme import AcmeClient, Responder, csr_for, eventually

STARTING = (
    "migration.statement",
    "migration.commit",
    "file.fsync",
    "db.begun",
    "db.commit",
    "db.committed",
    "ca.root.key_made",
    "ca.root.signing",
    "ca.root.signed",
    "ca.root.recorded",
    "ca.issuing.key_made",
    "ca.issuing.recorded",
)
SETTLING = ("db.commit", "db.committed", "ca.issue.signing", "ca.issue.signed", "ca.record.stored", "acme.validation.probed")
STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 45, 70, 100, 150)
"""Which hit of a point kills, until a start comes through."""
RECOVERY_SECONDS = 20.0
ORDERS = 12


async def root_of(service: Crashing) -> x509.Certificate:
    async with aiohttp.ClientSession() as session, session.get(f"{service.url}/ca/root.pem") as answer:
        return x509.load_pem_x509_certificate(await answer.read())


async def check_first_start(service: Crashing, responder: Responder) -> None:
    """It is up now: one CA, which issues and is the same after another start."""
    ledger = Ledger()
    async with subscribers(service, responder, ledger, 1):
        pass
    root = await root_of(service)
    assert await service.end() == {"code": 0}
    assert await service.start()
    assert await root_of(service) == root
    await check_answers(ledger)
    assert await service.end() == {"code": 0}
    assert ledger.orders
    check(service, ledger)


@pytest.mark.timeout(300)
async def test_f01_first_starts_that_are_killed_one_after_the_other_are_completed(database_url, tmp_path):
    """Each start is killed at one more of its steps, on one database, until one comes through."""
    async with Responder().served() as responder:
        service = Crashing(tmp_path, database_url, responder)
        kills = 0
        async with service.warm():
            for point in STARTING:
                for hit in (1, 2, 5, 9):
                    if await service.start(f"{point}:kill:{hit}"):
                        await service.end()
                        break
                    await service.killed()
                    kills += 1
            assert await service.start()
            await check_first_start(service, responder)
    assert kills >= 6
    assert not list(tmp_path.glob(".cluster.key.*"))


@ALL
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("point", STARTING)
async def test_f01_a_first_start_killed_at_many_steps(postgres_cluster, tmp_path, point):
    async with Responder().served() as responder:
        for database in ("sqlite", "postgresql"):
            for hit in STEPS:
                folder = tmp_path / f"{database}{hit}"
                folder.mkdir()
                url = f"sqlite:///{folder}/greatseal.db" if database == "sqlite" else postgres_cluster.make()
                service = Crashing(folder, url, responder)
                async with service.warm():
                    if await service.start(f"{point}:kill:{hit}"):
                        await service.end()
                        break
                    await service.killed()
                    assert await service.start(), service.log.read_text()
                    await check_first_start(service, responder)


async def interrupted(
    service: Crashing, responder: Responder, session: aiohttp.ClientSession
) -> tuple[AcmeClient, dict[str, str], list[str], Ledger]:
    """Orders whose finalization, and others whose validation, a kill interrupted: the orders' URLs and names, and the challenges whose
    response was not acknowledged."""
    ledger = Ledger()
    assert await service.start(f"ca.issue.signed:kill:{ORDERS // 2}")
    client = await Subscriber(service, responder, ledger, session).account("settle")
    orders: dict[str, str] = {}
    ready = []
    for number in range(ORDERS):
        name = f"settle{number}.localhost"
        ready.append(await client.ready(responder, name))
        orders[ready[-1].location] = name
    challenges = []
    for number in range(4):
        name = f"validate{number}.localhost"
        made = await client.order(name)
        orders[made.location] = name
        challenge = await client.challenge(made.json["authorizations"][0])
        responder[challenge["token"]] = f"{challenge['token']}.{client.key.thumbprint}"
        challenges.append(challenge["url"])
    finalizing = [client.finalize(order.json, csr_for(orders[order.location])) for order in ready]
    answers = await asyncio.gather(*finalizing, *(client.post(url, {}) for url in challenges), return_exceptions=True)
    unanswered = [url for url, answer in zip(challenges, answers[len(ready) :], strict=True) if isinstance(answer, BaseException)]
    await service.killed()
    ledger.orders = list(orders)
    return client, orders, unanswered, ledger


@pytest.mark.timeout(300)
async def test_f01_kills_while_a_crash_is_settled(database_url, tmp_path):
    async with Responder().served() as responder, aiohttp.ClientSession() as session:
        service = Crashing(tmp_path, database_url, responder)
        async with service.warm():
            client, orders, unanswered, ledger = await interrupted(service, responder, session)
            with rows_of(database_url) as ask:
                assert ask("SELECT count(*) FROM acme_order WHERE status = 'processing'") != [(0,)]
            for point in SETTLING:
                for hit in (1, 2):
                    await service.start(f"{point}:kill:{hit}")
                    async with asyncio.timeout(RECOVERY_SECONDS):
                        # A point that is not reached any more: what it belongs to is settled.
                        ended = await killed_or_settled(service)
                    if not ended:
                        assert await service.end() == {"code": 0}
            assert await service.start()
            async with asyncio.timeout(RECOVERY_SECONDS):  # I10, without any client's help
                await eventually(lambda: settled(service))
            client.nonces.clear()
            for url in unanswered:
                assert (await client.post(url, {})).status == 200
            for url, name in orders.items():
                order = await client.until(url, "processing", "pending")
                if order["status"] == "ready":
                    order = (await client.finalize(order, csr_for(name))).json
                ledger.certificates[url] = (await client.post(order["certificate"])).body
            await check_answers(ledger)
            assert await service.end() == {"code": 0}
    check(service, ledger)


async def killed_or_settled(service: Crashing) -> bool:
    while not settled(service):
        if not alive(service.pid):
            await service.killed()
            return True
        await asyncio.sleep(0.005)
    if alive(service.pid):
        return False
    await service.killed()
    return True


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


async def test_f01_a_finalization_of_a_ca_that_is_gone_does_not_hold_up_the_others(tmp_path):
    ledger = Ledger()
    async with Responder().served() as responder, aiohttp.ClientSession() as session:
        service = Crashing(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", responder)
        stuck = []
        async with service.warm():
            for ca in ("old", "new"):
                service.document["ca"] = [{"id": ca}]
                assert await service.start("ca.issue.signing:kill:1")
                client = await Subscriber(service, responder, ledger, session).account(ca)
                ready = await client.ready(responder, f"{ca}.localhost")
                await asyncio.gather(client.finalize(ready.json, csr_for(f"{ca}.localhost")), return_exceptions=True)
                await service.killed()
                stuck.append((client, ready.location))
            assert await service.start()
            states = []
            for client, place in stuck:
                client.nonces.clear()
                async with asyncio.timeout(RECOVERY_SECONDS):
                    states.append((await client.until(place, "processing"))["status"])
            assert await service.end() == {"code": 0}
    assert states == [401, "valid"]  # nobody serves the paths of the first CA now
    with rows_of(service.document["database"]["url"]) as ask:
        assert sorted(ask("SELECT ca_id, status FROM acme_order")) == [("new", "valid"), ("old", "ready")]  # RFC 8555 s7.4
        assert sorted(ask("SELECT ca_id, status FROM ca_certificate")) == [("new", "issued"), ("old", "unknown")]
