"""The service is killed at every durable step of validation, cascade and finalization; invariants hold by a ledger outside of it.

``make test`` runs a spread of 40 kills on each database, ``make test-faults`` 200 at each point.
"""

import asyncio
import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from acme_client import Responder
from crash import Crashing, Ledger, Subscriber
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

POINTS = (
    "acme.challenge.accepted",
    "acme.validation.probed",
    "acme.validation.decided",
    "ca.reserve.recorded",
    "acme.finalize.claimed",
    "ca.issue.signing",
    "ca.issue.signed",
    "acme.finalize.issued",
    "ca.record.stored",
    "acme.finalize.recorded",
    "db.commit",
    "db.committed",
)
SPREAD = [(point, hit) for hit in (1, 2, 4, 7) for point in POINTS][:40]
SUBSCRIBERS = 4
ALL = pytest.mark.skipif(not os.environ.get("GREATSEAL_ALL_FAULTS"), reason="make test-faults runs every kill")


@pytest.mark.timeout(300)
async def test_f01_a_spread_of_kills_loses_and_doubles_nothing(database_url, tmp_path):
    await kill(database_url, tmp_path, SPREAD)


@ALL
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", POINTS)
async def test_f01_two_hundred_kills_at_each_point(database_url, tmp_path, point):
    random.seed(point)
    await kill(database_url, tmp_path, [(point, random.randint(1, 12)) for _ in range(200)])


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> None:
    """Carry out the plan under load, let every client come to its end, and check the invariants."""
    ledger = Ledger()
    async with Responder().served() as responder, aiohttp.ClientSession() as session:
        service = Crashing(folder, database, responder)
        subscribers = [Subscriber(service, responder, ledger, session) for _ in range(SUBSCRIBERS)]
        async with service.warm(), asyncio.TaskGroup() as clients:
            running = [clients.create_task(subscriber.run(f"s{number}")) for number, subscriber in enumerate(subscribers)]
            for point, hit in plan:
                await service.start(f"{point}:kill:{hit}")
                await service.killed()
            assert await service.start()
            for subscriber in subscribers:
                subscriber.stop = True
            await asyncio.wait(running)
            await deactivated_accounts_stay_so(ledger)
            assert await service.end() == {"code": 0}
    assert len(ledger.certificates) >= len(plan) // 8
    with rows_of(database) as ask:
        check(ask, ledger, folder)


async def deactivated_accounts_stay_so(ledger: Ledger) -> None:
    """I6: what was acknowledged stays effective."""
    for client in ledger.deactivated:
        client.nonces.clear()
        answer = await client.post(client.kid or "")
        assert (answer.status, answer.error) == (401, "unauthorized")


@contextmanager
def rows_of(database: str) -> Iterator[Any]:
    """Rows by a query, from outside the service."""
    if database.startswith("sqlite"):
        with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as store:
            yield lambda query: store.execute(query).fetchall()
    else:
        import psycopg

        with psycopg.connect(database, autocommit=True) as connection:
            yield lambda query: connection.execute(query.encode()).fetchall()


def check(ask: Any, ledger: Ledger, folder: Path) -> None:
    """The invariants, in the state of the database and the ledger."""
    rows = ask("SELECT id, status, serial, order_id, tbs, der FROM ca_certificate")
    issued = {bytes(der): order for _, status, _, order, _, der in rows if status == "issued"}
    acknowledged = {order.rsplit("/", 1)[1]: leaf(pem) for order, pem in ledger.certificates.items()}

    for order, der in acknowledged.items():  # I1: every acknowledged certificate is stored
        assert issued[der] == order
    recorded = {sha256(bytes(tbs) if der is None else tbs_of(der)).hexdigest() for *_, tbs, der in rows}
    ca = {sha256(tbs_of(der)).hexdigest() for (der,) in ask("SELECT der FROM ca_authority")}
    signed = set((folder / "signatures").read_text().split())
    assert signed - ca <= recorded  # I1: nothing was signed that was not recorded
    orders = list(issued.values())
    assert len(orders) == len(set(orders))  # I2: an order has one certificate at most
    serials = [serial for _, _, serial, *_ in rows]
    assert len(serials) == len(set(serials))  # I9
    assert set(ledger.certificates) == set(ledger.orders)  # every acknowledged order came to its end
    audited = {row[0] for row in ask("SELECT detail FROM core_audit WHERE event_type = 'cert.issue'")}
    assert len(audited) >= len(acknowledged)  # I8
    for table in ("acme_order", "acme_challenge"):  # I10
        assert ask(f"SELECT count(*) FROM {table} WHERE status = 'processing'") == [(0,)]
    assert ask("SELECT count(*) FROM ca_certificate WHERE status = 'signing'") == [(0,)]
    assert ask("SELECT count(*) FROM acme_order WHERE status = 'ready'") == [(0,)]


def tbs_of(der: bytes) -> bytes:
    return x509.load_der_x509_certificate(bytes(der)).tbs_certificate_bytes


def leaf(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificates(pem)[0].public_bytes(Encoding.DER)
