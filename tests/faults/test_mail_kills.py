"""The service is killed around the webhook of email-reply-00: a reply that it took counts once, one that it lost comes again.

The mail server tells of each reply until it has its 200, twice at a time; half of the replies come before the client answers the challenge.
``make test`` runs a spread of 20 kills on each database, ``make test-faults`` 200 at each point (GREATSEAL_FAULT_KILLS changes that).
"""

import asyncio
import hmac
import json
import random
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from faults.crash import RETRIED, Ledger, Subscriber
from faults.forked import Forked
from faults.invariants import rows_of
from faults.test_kills import ALL, KILLS
from rig.acme import AcmeClient, b64url

POINTS = ("email.recorded", "email.taken", "acme.challenge.accepted", "db.commit", "db.committed")
SPREAD = [(point, hit * (5 if point.startswith("db.") else 1)) for hit in range(1, 9, 2) for point in POINTS]
SECRET = "the secret of the mail server"
KEY = ec.generate_private_key(ec.SECP256R1())
CORRESPONDENTS = 4
SENDS = """\
#!/bin/sh
printf '%s\\n%s' "$ACME_SUBJECT" "$ACME_MESSAGE_ID" > "{folder}/$ACME_TOKEN_PART2.part"
mv "{folder}/$ACME_TOKEN_PART2.part" "{folder}/$ACME_TOKEN_PART2"
"""


@pytest.mark.timeout(300)
async def test_ca_094_a_spread_of_kills_and_each_reply_that_was_taken_counts_once(database_url, tmp_path, record_property):
    record_property("figures", await kill(database_url, tmp_path, SPREAD))


@ALL
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", POINTS)
async def test_two_hundred_kills_at_each_point_around_the_webhook(database_url, tmp_path, point, record_property):
    chosen = random.Random(point)
    deepest = 12 * (5 if point.startswith("db.") else 1)
    record_property("figures", await kill(database_url, tmp_path, [(point, chosen.randint(1, deepest)) for _ in range(KILLS)]))


class Correspondent(Subscriber):
    """Somebody whose mail server tells of the replies."""

    boxes: Path
    lost = 0
    """Orders whose mail was never sent."""

    async def run(self, name: str) -> None:
        client = await self.account(name)
        told: dict[str, Any] = {}
        self.proven: list[str] = []
        self.refused: list[str] = []
        number = 0
        while not self.stop:
            number += 1
            address, pid = f"{name}-{number}@example.org", self.service.pid
            order, challenge = await self._ordered(client, address)
            mail = await self._mail(challenge["token"], pid)
            if mail is None:
                self.lost += 1
            elif told and number % 5 == 0:  # what proved one order proves no other
                await self._correspond(client, challenge, mail | {"from": address, "body": told["body"]}, early=False)
                await self._until(client, order, "invalid")
                self.refused.append(order)
            else:
                told = {"from": address, **mail, "body": response(client, challenge["token"], mail.pop("part1"))}
                await self._correspond(client, challenge, told, early=bool(number % 2))
                await self._until(client, order, "ready")
                self.proven.append(order)
                await self._certified(client, order, address)
                await self._told(told)

    async def _ordered(self, client: AcmeClient, address: str) -> tuple[str, dict[str, Any]]:
        made = await self._answer(client, client.directory["newOrder"], {"identifiers": [{"type": "email", "value": address}]})
        assert made.status == 201, made.body
        (challenge,) = (await self._answer(client, made.json["authorizations"][0])).json["challenges"]
        return made.location, challenge

    async def _mail(self, token: str, pid: int) -> dict[str, Any] | None:
        """What the mail says; None when it did not go out before the service was killed."""
        box = self.boxes / token
        while not box.exists():
            if self.service.pid != pid:
                return None
            await asyncio.sleep(0.005)
        subject, message_id = box.read_text().split("\n")
        return {"in_reply_to": message_id, "part1": subject.removeprefix("ACME: "), "dkim_domain": "example.org", "dkim_status": "pass"}

    async def _correspond(self, client: AcmeClient, challenge: dict[str, Any], told: dict[str, Any], *, early: bool) -> None:
        if early:
            await asyncio.gather(self._told(told), self._told(told))
        await self._answer(client, challenge["url"], {})
        if not early:
            await asyncio.gather(self._told(told), self._told(told))

    async def _told(self, told: dict[str, Any]) -> None:
        """Until the service answered 200."""
        body = json.dumps(told).encode()
        headers = {"X-Service-Signature": f"sha256={hmac.digest(SECRET.encode(), body, sha256).hex()}"}
        while True:
            await self.service.up.wait()
            try:
                async with self.session.post(f"{self.service.url}/acme/email-webhook", data=body, headers=headers) as answer:
                    status = answer.status
            except RETRIED:
                status = 0
            if status == 200:
                return
            assert status in {0, 503}, status
            await asyncio.sleep(0.005)

    async def _until(self, client: AcmeClient, order: str, status: str) -> None:
        while (found := (await self._answer(client, order)).json)["status"] == "pending":  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.01)
        assert found["status"] == status, found

    async def _certified(self, client: AcmeClient, url: str, address: str) -> None:
        builder = x509.CertificateSigningRequestBuilder(x509.Name([]))
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.RFC822Name(address)]), critical=False)
        csr = builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)
        while (order := (await self._answer(client, url)).json)["status"] != "valid":
            if order["status"] == "ready":
                await self._again(lambda: client.finalize(order, csr), client)
            await asyncio.sleep(0.005)
        self.ledger.certificates[url] = (await self._answer(client, order["certificate"])).body


def response(client: AcmeClient, token: str, part1: str) -> str:
    digest = sha256(f"{part1}{token}.{client.key.thumbprint}".encode()).digest()
    return f"-----BEGIN ACME RESPONSE-----\r\n{b64url(digest)}\r\n-----END ACME RESPONSE-----"


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> str:
    """Carry out the plan while people correspond, let all come to their end, and compare what they have with the rows."""
    script = folder / "send"
    script.write_text(SENDS.format(folder=folder))
    script.chmod(0o755)
    mail = {"enabled": True, "from_address": "acme@ca.example", "send_script": str(script), "webhook_hmac_secret": SECRET}
    profiles = {"default": {"eku": ["emailProtection"]}}
    document = {"plugins": {"sets": ["ca"]}, "email_challenge": {**mail, "send_on": "authorization"}, "profiles": profiles}
    service, ledger = Forked(folder, database, document), Ledger()
    async with service.warm(), aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        people = [Correspondent(service, {}, ledger, session) for _ in range(CORRESPONDENTS)]
        Correspondent.boxes = folder
        tasks = [asyncio.create_task(one.run(f"ann-{number}")) for number, one in enumerate(people)]
        for point, hit in plan:
            await service.start(f"{point}:kill:{hit}")
            await service.killed()
            assert not any(task.done() for task in tasks), tasks
        assert await service.start()
        for one in people:
            one.stop = True
        await asyncio.gather(*tasks)
        assert await service.end() == {"code": 0}
    check(database, people)
    proven, refused, lost = (sum(counts) for counts in zip(*((len(one.proven), len(one.refused), one.lost) for one in people), strict=True))
    assert proven >= len(plan) // 20
    return f"{len(plan)} kills, {proven} addresses proven, {refused} refused, {lost} mails not sent"


def check(database: str, people: list[Correspondent]) -> None:
    """Each proven order has one challenge that was decided once, and one certificate; nothing else was proven."""
    proven = sorted(order.rpartition("/")[2] for one in people for order in one.proven)
    refused = sum(len(one.refused) for one in people)
    with rows_of(database) as ask:
        assert sorted(id for (id,) in ask("SELECT id FROM acme_order WHERE status = 'valid'")) == proven
        assert sorted(id for (id,) in ask("SELECT order_id FROM ca_certificate WHERE status = 'issued'")) == proven
        decided = Counter(dict(ask("SELECT status, count(*) FROM acme_challenge WHERE status <> 'pending' GROUP BY status")))
        tokens = ask("SELECT count(DISTINCT token) FROM acme_challenge WHERE status = 'valid'")
        told = Counter(kind for (kind,) in ask("SELECT event_type FROM core_audit WHERE event_type LIKE 'challenge.%'"))
    assert decided == Counter(valid=len(proven), invalid=refused)
    assert tokens == [(len(proven),)]
    assert told == Counter({"challenge.valid": len(proven), "challenge.invalid": refused})
