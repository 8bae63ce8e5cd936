"""Kills around what an account does for good: it has one key at every moment, and what it revoked is never good again."""

import asyncio
import random
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from faults.crash import RETRIED, Crashing
from faults.invariants import rows_of
from faults.test_kills import ALL, KILLS
from rig.acme import AcmeClient, Answer, Key, Responder, b64url

POINTS = ("acme.key.replaced", "acme.key.changed", "db.commit", "db.committed")
SPREAD = [(point, hit) for hit in range(1, 11, 2) for point in POINTS]


REVOKING = ("acme.revoke.recorded", "db.commit", "db.committed")
REVOCATIONS = [(point, hit) for hit in (1, 2, 3, 5) for point in REVOKING]


class Holder:
    """Changes the key of an account again and again; after a lost answer it finds out which of two keys counts."""

    def __init__(self, service: Crashing, session: aiohttp.ClientSession) -> None:
        self.service = service
        self.session = session
        self.changed: list[str] = []
        self.stop = False

    async def register(self) -> None:
        self.client = await AcmeClient.connect(self.session, self.service.url)
        assert (await self.client.register()).status == 201

    async def work(self) -> None:
        """Until it is told to stop."""
        while not self.stop:
            await self.change()

    async def change(self) -> None:
        old, new = self.client.key, Key()
        await self.service.up.wait()
        try:
            answer = await self.client.change_key(new)
        except RETRIED:
            await self.settle(old, new)
            return
        assert answer.status in {200, 503} or answer.error == "badNonce", answer.body
        if answer.status == 200:
            self.changed.append(f"key {old.thumbprint} to {new.thumbprint}")
        if answer.status == 503:
            await self.settle(old, new)

    async def settle(self, old: Key, new: Key) -> None:
        """Exactly one of the keys is that of the account."""
        answers = {key: await self.ask(key) for key in (new, old)}
        assert sorted(one.status for one in answers.values()) == [200, 400], [one.body for one in answers.values()]
        self.client.key = new if answers[new].status == 200 else old
        if self.client.key is new:
            self.changed.append(f"key {old.thumbprint} to {new.thumbprint}")

    async def ask(self, key: Key) -> Answer:
        """For the account, until an answer comes."""
        self.client.key = key
        while True:
            await self.service.up.wait()
            self.client.nonces.clear()
            try:
                answer = await self.client.post(self.client.kid or "")
            except RETRIED:
                await asyncio.sleep(0.005)
                continue
            if answer.status != 503 and answer.error != "badNonce":
                return answer


@pytest.mark.timeout(300)
async def test_a_spread_of_kills_around_key_changes_leaves_one_key(database_url, tmp_path, record_property):
    record_property("figures", await kill(database_url, tmp_path, SPREAD))


@ALL
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", POINTS)
async def test_two_hundred_kills_around_key_changes_at_each_point(database_url, tmp_path, point, record_property):
    chosen = random.Random(point)
    record_property("figures", await kill(database_url, tmp_path, [(point, chosen.randint(1, 12)) for _ in range(KILLS)]))


class Revoker(Holder):
    """Revokes one certificate after the other until it is told that it is revoked."""

    def __init__(self, service: Crashing, session: aiohttp.ClientSession, responder: Responder) -> None:
        super().__init__(service, session)
        self.responder = responder
        self.certificates: list[x509.Certificate] = []
        self.acknowledged: list[x509.Certificate] = []

    async def issue(self, number: int) -> None:
        self.certificates += [(await self.client.issue(self.responder, f"r{one}.localhost"))[0] for one in range(number)]

    async def work(self) -> None:
        """Until all are revoked, or it is told to stop."""
        for certificate in self.certificates:
            if self.stop:
                return
            await self.revoke(certificate)
            self.acknowledged.append(certificate)

    async def revoke(self, certificate: x509.Certificate) -> None:
        payload = {"certificate": b64url(certificate.public_bytes(Encoding.DER)), "reason": 4}
        while True:
            await self.service.up.wait()
            try:
                answer = await self.client.post(self.client.directory["revokeCert"], payload)
            except RETRIED:
                self.client.nonces.clear()
                await asyncio.sleep(0.005)
                continue
            if answer.status == 200 or answer.error == "alreadyRevoked":
                return
            assert answer.status == 503 or answer.error == "badNonce", answer.body

    async def listed(self) -> set[int]:
        """The serials on the list that the certificates name."""
        (point,) = self.certificates[0].extensions.get_extension_for_class(x509.CRLDistributionPoints).value
        (place,) = point.full_name or []
        return {one.serial_number for one in x509.load_der_x509_crl((await self.client.get(place.value)).body)}


@pytest.mark.timeout(300)
async def test_a_spread_of_kills_around_revocations_leaves_none_good(database_url, tmp_path, record_property):
    async with Responder().served() as responder, aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        service = Crashing(tmp_path, database_url, responder)
        async with service.warm():
            revoker = Revoker(service, session, responder)
            assert await service.start()
            await revoker.register()
            await revoker.issue(4 * len(REVOCATIONS))
            assert await service.end() == {"code": 0}
            task = asyncio.create_task(revoker.work())
            for point, hit in REVOCATIONS:
                before = {one.serial_number for one in revoker.acknowledged}
                await service.start(f"{point}:kill:{hit}")
                await service.killed()
                assert await service.start()
                assert before <= await revoker.listed()
                assert await service.end() == {"code": 0}
            assert await service.start()
            revoker.stop = True
            await task
            assert {one.serial_number for one in revoker.acknowledged} == await revoker.listed()
            assert await service.end() == {"code": 0}
    with rows_of(database_url) as ask:
        assert ask("SELECT count(*) FROM core_audit WHERE event_type = 'cert.revoke'") == [(len(revoker.acknowledged),)]
    record_property("figures", f"{len(REVOCATIONS)} kills, {len(revoker.acknowledged)} revocations")


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> str:
    """Carry out the plan while accounts change their keys, and compare what they know with the rows."""
    async with Responder().served() as responder, aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        service = Crashing(folder, database, responder)
        async with service.warm():
            assert await service.start()
            holders = [Holder(service, session) for _ in range(3)]
            for holder in holders:
                await holder.register()
            assert await service.end() == {"code": 0}
            tasks = [asyncio.create_task(holder.work()) for holder in holders]
            for point, hit in plan:
                await service.start(f"{point}:kill:{hit}")
                await service.killed()
                assert not any(task.done() for task in tasks), tasks
            assert await service.start()
            for holder in holders:
                holder.stop = True
            await asyncio.gather(*tasks)
            assert await service.end() == {"code": 0}
    with rows_of(database) as ask:
        for holder in holders:
            check(ask, holder)
    return f"{len(plan)} kills, {sum(len(holder.changed) for holder in holders)} key changes"


def check(ask, holder: Holder) -> None:
    id = (holder.client.kid or "").rpartition("/")[2]
    changes = f"SELECT detail FROM core_audit WHERE event_type = 'account.key-change' AND sub = '{id}' ORDER BY id"
    told = [detail for (detail,) in ask(changes)]
    assert told == holder.changed
    assert ask(f"SELECT thumbprint FROM acme_account WHERE id = '{id}'") == [(holder.client.key.thumbprint,)]
