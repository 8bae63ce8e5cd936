"""The service is killed while accounts are bound to keys that two clients have each: no key gives two accounts (I1).

``make test`` runs a spread of kills on each database, ``make test-faults`` 200 at each point (GREATSEAL_FAULT_KILLS changes that).
"""

import asyncio
import base64
import json
import os
import random
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
from faults.crash import RETRIED
from faults.forked import Forked
from faults.invariants import rows_of
from rig.acme import AcmeClient, b64url
from rig.eab import binding

POINTS = ("eab.used", "db.commit", "db.committed")
SPREAD = [(point, hit) for hit in (1, 2, 5) for _ in range(2) for point in POINTS]
KILLS = int(os.environ.get("GREATSEAL_FAULT_KILLS", "200"))
ALL = pytest.mark.skipif(not os.environ.get("GREATSEAL_ALL_FAULTS"), reason="make test-faults runs every kill")
HMAC_KEY = bytes(range(32))
FEATURES = ["ca", "acme", "http-01", "resolver", "eab"]
PAIRS = 4


@pytest.mark.timeout(300)
async def test_ca_099_a_spread_of_kills_and_no_key_gives_two_accounts(database_url: str, tmp_path: Path) -> None:
    await kill(database_url, tmp_path, SPREAD)


@ALL
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", POINTS)
async def test_two_hundred_kills_at_each_point_and_no_key_gives_two_accounts(database_url: str, tmp_path: Path, point: str) -> None:
    chosen = random.Random(point)
    await kill(database_url, tmp_path, [(point, chosen.randint(1, 8)) for _ in range(KILLS)])


class Rivals:
    """Clients in pairs, each pair with the same keys, one after the other: whoever is first gets the account."""

    def __init__(self, service: Forked, kids: list[str]) -> None:
        self.service = service
        self.kids = iter(kids)
        self.asked: list[str] = []
        self.won: Counter[str] = Counter()
        self.stop = False

    async def run(self, session: aiohttp.ClientSession) -> None:
        while not self.stop:
            kid = next(self.kids)
            self.asked.append(kid)
            await asyncio.gather(*(self._register(session, kid) for _ in range(2)))

    async def _register(self, session: aiohttp.ClientSession, kid: str) -> None:
        """Ask until there is an answer: a new account, or that of this key, or a refusal."""
        client: AcmeClient | None = None
        while True:
            await self.service.up.wait()
            try:
                client = client or await AcmeClient.connect(session, self.service.url)
                answer = await client.register(**binding(client, kid, HMAC_KEY))
            except RETRIED:
                await asyncio.sleep(0.005)
                if client:
                    client.nonces.clear()
                continue
            if answer.status == 503 or answer.error == "badNonce":
                await asyncio.sleep(0.005)
                continue
            assert answer.status in {200, 201, 401, 409}, answer.body
            self.won[kid] += answer.status in {200, 201}
            return


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> None:
    kids = [f"kid-{number}" for number in range(20 * len(plan))]
    server = {"eab_keys": dict.fromkeys(kids, b64url(HMAC_KEY)), "external_account_required": True}
    service = Forked(folder, database, {"plugins": {"enabled": FEATURES}, "server": server})
    rivals = Rivals(service, kids)
    async with service.warm(), aiohttp.ClientSession() as session:
        assert await service.start()
        async with asyncio.TaskGroup() as group:
            for _ in range(PAIRS):
                group.create_task(rivals.run(session))
            assert await service.end() == {"code": 0}
            for point, hit in plan:
                await service.start(f"{point}:kill:{hit}")
                await service.killed()
            assert await service.start()
            rivals.stop = True
        assert await service.end() == {"code": 0}
    check(database, rivals)


def check(database: str, rivals: Rivals) -> None:
    """Every key that somebody asked with gave one account, to the client that was told so."""
    with rows_of(database) as ask:
        bound = Counter(kid_of(text) for (text,) in ask("SELECT binding FROM acme_account"))
        used = Counter(kid for (kid,) in ask("SELECT kid FROM eab_key WHERE used_at IS NOT NULL"))
        decided = Counter(kid for (kid,) in ask("SELECT kid FROM eab_use"))
        events = Counter(kid for (kid,) in ask("SELECT sub FROM core_audit WHERE event_type = 'eab.use'"))
    assert rivals.asked
    assert bound == used == decided == events == rivals.won == Counter(rivals.asked)


def kid_of(text: str) -> str:
    """The kid in the stored binding of an account."""
    protected = json.loads(text)["externalAccountBinding"]["protected"]
    kid: str = json.loads(base64.urlsafe_b64decode(protected + "=" * (-len(protected) % 4)))["kid"]
    return kid
