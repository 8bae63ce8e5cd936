"""The service is killed around authority tokens: one that proved an order proves it again after the crash, and never another order.

``make test`` runs a spread of kills on each database, ``make test-faults`` 200 at each point (GREATSEAL_FAULT_KILLS changes that).
"""

import asyncio
import random
import time
from base64 import urlsafe_b64decode
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from faults.crash import Ledger, Subscriber
from faults.forked import Forked
from faults.invariants import rows_of
from faults.test_kills import ALL, KILLS
from joserfc import jwk, jwt
from rig.acme import AcmeClient

POINTS = ("acme.challenge.accepted", "acme.validation.probed", "acme.validation.decided", "db.commit", "db.committed")
SPREAD = [(point, hit * (5 if point.startswith("db.") else 1)) for hit in range(1, 5) for point in POINTS]
TYPE, ISSUER = "JWTClaimConstraints", "https://authority.example"
VALUE = "ME-gBzAFFgNzdWKhRDBCMBwWA3N1YjAVDBNhbGljZUBDSEFOQ0VSWS5URVNUMCIWA2lzczAbDBlodHRwczovL2lkcC5jaGFuY2VyeS50ZXN0"
EXTENSION = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.33")
KEY, AUTHORITY = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
HOLDERS = 4


@pytest.mark.timeout(300)
async def test_a_spread_of_kills_and_each_authority_token_proves_one_order(database_url, tmp_path, record_property):
    record_property("figures", await kill(database_url, tmp_path, SPREAD))


@ALL
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", POINTS)
async def test_two_hundred_kills_at_each_point_around_authority_tokens(database_url, tmp_path, point, record_property):
    chosen = random.Random(point)
    deepest = 12 * (5 if point.startswith("db.") else 1)
    record_property("figures", await kill(database_url, tmp_path, [(point, chosen.randint(1, deepest)) for _ in range(KILLS)]))


class Holder(Subscriber):
    """Somebody with an authority, who tries each fifth token twice."""

    async def run(self, name: str) -> None:
        client = await self.account(name)
        self.proven: list[str] = []
        self.refused: list[str] = []
        number, used = 0, ""
        while not self.stop:
            number += 1
            order, challenge = await self._ordered(client)
            again = bool(used) and number % 5 == 0
            text = used if again else token(client, f"{name}/{number}")
            await self._answer(client, challenge["url"], {"tkauth": text})
            await self._until(client, order, "invalid" if again else "ready")
            if again:
                self.refused.append(order)
                continue
            used = text
            self.proven.append(order)
            await self._certified(client, order)

    async def _ordered(self, client: AcmeClient) -> tuple[str, dict[str, Any]]:
        made = await self._answer(client, client.directory["newOrder"], {"identifiers": [{"type": TYPE, "value": VALUE}]})
        assert made.status == 201, made.body
        (challenge,) = (await self._answer(client, made.json["authorizations"][0])).json["challenges"]
        return made.location, challenge

    async def _until(self, client: AcmeClient, order: str, status: str) -> None:
        while (found := (await self._answer(client, order)).json)["status"] == "pending":  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.01)
        assert found["status"] == status, found

    async def _certified(self, client: AcmeClient, url: str) -> None:
        extension = x509.UnrecognizedExtension(EXTENSION, urlsafe_b64decode(f"{VALUE}=="))
        builder = x509.CertificateSigningRequestBuilder(x509.Name([])).add_extension(extension, critical=False)
        csr = builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)
        while (order := (await self._answer(client, url)).json)["status"] != "valid":
            if order["status"] == "ready":
                await self._again(lambda: client.finalize(order, csr), client)
            await asyncio.sleep(0.005)
        self.ledger.certificates[url] = (await self._answer(client, order["certificate"])).body


def token(client: AcmeClient, jti: str) -> str:
    digest = urlsafe_b64decode(client.key.thumbprint + "=")
    atc = {"tktype": TYPE, "tkvalue": VALUE, "fingerprint": "SHA256 " + ":".join(f"{octet:02X}" for octet in digest)}
    claims = {"iss": ISSUER, "exp": int(time.time()) + 3000, "jti": jti, "atc": atc}
    return jwt.encode({"alg": "ES256", "typ": "JWT"}, claims, jwk.ECKey.import_key(AUTHORITY))


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> str:
    """Carry out the plan while the holders order, let all come to their end, and compare what they have with the rows."""
    jwks = {"keys": [jwk.ECKey.import_key(AUTHORITY.public_key()).as_dict(private=False)]}
    document = {
        "plugins": {"sets": ["ca"], "enabled": ["tkauth-01"]},
        "tkauth": {"authorities": [{"issuer": ISSUER, "jwks": jwks}]},
    }
    service, ledger = Forked(folder, database, document), Ledger()
    async with service.warm(), aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        holders = [Holder(service, {}, ledger, session) for _ in range(HOLDERS)]
        tasks = [asyncio.create_task(one.run(f"ann-{number}")) for number, one in enumerate(holders)]
        for point, hit in plan:
            await service.start(f"{point}:kill:{hit}")
            await service.killed()
            assert not any(task.done() for task in tasks), tasks
        assert await service.start()
        for one in holders:
            one.stop = True
        await asyncio.gather(*tasks)
        assert await service.end() == {"code": 0}
    check(database, holders)
    proven, refused = (sum(len(getattr(one, name)) for one in holders) for name in ("proven", "refused"))
    assert proven >= len(plan) // 20
    return f"{len(plan)} kills, {proven} orders proven, {refused} refused"


def check(database: str, holders: list[Holder]) -> None:
    """Each proven order used one token, was decided once and has one certificate; nothing else was proven."""
    proven = sorted(order.rpartition("/")[2] for one in holders for order in one.proven)
    refused = sum(len(one.refused) for one in holders)
    with rows_of(database) as ask:
        assert sorted(id for (id,) in ask("SELECT id FROM acme_order WHERE status = 'valid'")) == proven
        assert sorted(id for (id,) in ask("SELECT order_id FROM ca_certificate WHERE status = 'issued'")) == proven
        decided = Counter(dict(ask("SELECT status, count(*) FROM acme_challenge WHERE status <> 'pending' GROUP BY status")))
        used = Counter(dict(ask("SELECT kind, count(*) FROM core_strike WHERE kind LIKE 'tkauth%' GROUP BY kind")))
    assert decided == Counter(valid=len(proven), invalid=refused)
    assert used == Counter(tkauth=len(proven), tkauth_by=len(proven))
