"""Kills around the replacement of certificates (RFC 9773): each is replaced by one order, and nobody whose answer was lost is shut out."""

import asyncio
import random
from itertools import pairwise
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from faults.crash import Crashing, Ledger, Subscriber
from faults.invariants import rows_of
from faults.test_kills import ALL, KILLS
from rig.acme import Responder, b64url

POINTS = ("acme.finalize.claimed", "acme.finalize.recorded", "db.commit", "db.committed")
SPREAD = [(point, hit) for hit in range(1, 11, 2) for point in POINTS]


class Renewer(Subscriber):
    """Renews one certificate again and again, always in place of the one before."""

    async def run(self, name: str) -> None:
        """Until it is told to stop; ``names`` are those of its certificates in their order."""
        self.names: list[str] = []
        client = await self.account(name)
        while not self.stop:
            members = {"replaces": self.names[-1]} if self.names else {}
            order = await self.issue(client, f"{name}.localhost", **members)
            self.names.append(name_of(x509.load_pem_x509_certificates(self.ledger.certificates[order])[0]))


def name_of(leaf: x509.Certificate) -> str:
    """RFC 9773 s4.1."""
    key = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    return f"{b64url(key or b'')}.{b64url(leaf.serial_number.to_bytes(leaf.serial_number.bit_length() // 8 + 1))}"


@pytest.mark.timeout(300)
async def test_a_spread_of_kills_around_renewals_replaces_each_certificate_once(database_url, tmp_path, record_property):
    record_property("figures", await kill(database_url, tmp_path, SPREAD))


@ALL
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", POINTS)
async def test_two_hundred_kills_around_renewals_at_each_point(database_url, tmp_path, point, record_property):
    chosen = random.Random(point)
    record_property("figures", await kill(database_url, tmp_path, [(point, chosen.randint(1, 12)) for _ in range(KILLS)]))


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> str:
    """Carry out the plan while accounts renew, and compare what they have with the rows."""
    ledger = Ledger()
    async with Responder().served() as responder, aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        service = Crashing(folder, database, responder)
        async with service.warm():
            renewers = [Renewer(service, responder, ledger, session) for _ in range(3)]
            tasks = [asyncio.create_task(renewer.run(f"renewer-{number}")) for number, renewer in enumerate(renewers)]
            for point, hit in plan:
                await service.start(f"{point}:kill:{hit}")
                await service.killed()
                assert not any(task.done() for task in tasks), tasks
            assert await service.start()
            for renewer in renewers:
                renewer.stop = True
            await asyncio.gather(*tasks)
            assert await service.end() == {"code": 0}
    with rows_of(database) as ask:
        orders = ask("SELECT replaces, status FROM acme_order WHERE replaces IS NOT NULL AND status <> 'invalid'")
    expected = [old for renewer in renewers for old, _ in pairwise(renewer.names)]
    assert sorted(orders) == sorted((name, "valid") for name in expected)
    return f"{len(plan)} kills, {len(expected)} renewals"
