"""The service is killed while a person registers passkeys, signs in with them and deletes them: what was answered is so, nothing is there
by half, and no challenge is good twice.

``make test`` runs a spread of kills on each database, ``make test-faults`` 200 at each point (GREATSEAL_FAULT_KILLS changes that).
"""

import asyncio
import random
from itertools import count
from pathlib import Path

import aiohttp
import pytest
from faults.identity import Identity, Visitor
from faults.invariants import rows_of
from faults.test_kills import ALL, KILLS
from rig.softkeys import SoftKey

from greatseal.jose.compact import b64url_encode

POINTS = ("db.commit", "db.committed", "passkey.registered", "passkey.used")
SPREAD = [(point, hit) for hit in (1, 2, 4, 7) for point in POINTS]
API = "/api/auth/passkey"


class Holder(Visitor):
    """One passkey after another: registers it, signs in with it, sends that once more, and deletes every other one."""

    def __init__(self, service: Identity, http: aiohttp.ClientSession) -> None:
        super().__init__(service, http)
        self.held: dict[str, SoftKey] = {}
        """Those that were answered and are there."""
        self.deleted: set[str] = set()
        self.doubtful: set[str] = set()
        self.signed_in = 0
        self.stop = False

    async def work(self) -> None:
        for number in count():
            if self.stop:
                return
            key = SoftKey()
            key.counter = 1
            id = b64url_encode(key.id)
            if not await self.register(key, id):
                continue
            await self.use(key)
            if number % 4 or len(self.held) > 5:
                await self.delete(id)

    async def register(self, key: SoftKey, id: str) -> bool:
        begun = await self.ask("POST", f"{API}/register/begin", json={})
        if begun is None:
            return False
        answer = await self.ask("POST", f"{API}/register/complete", json=key.make(begun.json, self.service.url))
        if answer is None:
            self.doubtful.add(id)
            await self.delete(id)
            return False
        assert answer.status == 201, answer
        self.held[id] = key
        return True

    async def use(self, key: SoftKey) -> None:
        begun = await self.ask("POST", f"{API}/begin", json={})
        if begun is None:
            return
        answered = key.answer(begun.json, self.service.url)
        body = {"json": answered, "headers": {"Cookie": ""}}
        first, second = await self.ask("POST", f"{API}/complete", **body), await self.ask("POST", f"{API}/complete", **body)
        won = [one for one in (first, second) if one is not None and one.status == 200]
        assert len(won) <= 1, "a challenge is good once"
        self.signed_in += len(won)
        assert all(one is None or one.status in {200, 401} for one in (first, second))

    async def delete(self, id: str) -> None:
        """Until it is answered: a person may have 20 passkeys at most."""
        while (answer := await self.ask("DELETE", f"/api/auth/passkeys/{id}")) is None:
            self.doubtful.add(id)
        assert answer.status == 204 or (answer.status == 404 and id in self.doubtful), answer
        self.held.pop(id, None)
        self.deleted.add(id)


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> None:
    service = Identity(folder, database, plugins={"sets": ["idp"], "enabled": ["passkey"]})
    async with service.warm(), aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        http._retry_connection = False  # or aiohttp sends a DELETE again whose answer was lost
        assert await service.start()
        holder = Holder(service, http)
        await holder.login()
        async with asyncio.TaskGroup() as group:
            group.create_task(holder.work())
            assert await service.end() == {"code": 0}
            for point, hit in plan:
                await service.start(f"{point}:kill:{hit}")
                await service.killed()
            assert await service.start()
            holder.stop = True
        await check_answers(holder)
        assert await service.end() == {"code": 0}
    check_rows(database, holder)


async def check_answers(holder: Holder) -> None:
    """What was registered signs in, what was deleted does not."""
    for id, key in holder.held.items():
        if id in holder.doubtful:
            continue
        begun = await holder.ask("POST", f"{API}/begin", json={})
        assert begun is not None
        answer = await holder.ask("POST", f"{API}/complete", json=key.answer(begun.json, holder.service.url), headers={"Cookie": ""})
        assert answer is not None
        assert answer.status == 200, answer


def check_rows(database: str, holder: Holder) -> None:
    """A passkey, what is known of it, and its events are stored and deleted together, also where nobody heard of it."""
    with rows_of(database) as ask:
        credentials = {id for (id,) in ask("SELECT id FROM passkey_credential")}
        records = {id for (id,) in ask("SELECT id FROM passkey_record")}
        events = ask("SELECT event_type, detail FROM core_audit WHERE event_type LIKE 'passkey_%'")
    registered = [detail.removeprefix("id=") for kind, detail in events if kind == "passkey_registered"]
    deleted = [detail.removeprefix("id=") for kind, detail in events if kind == "passkey_deleted"]
    assert holder.signed_in
    assert credentials == records
    assert len(set(registered)) == len(registered)
    assert len(set(deleted)) == len(deleted)
    assert credentials == set(registered) - set(deleted)
    assert holder.held.keys() - holder.doubtful <= credentials
    assert not holder.deleted & credentials


@pytest.mark.timeout(300)
async def test_a_spread_of_kills_and_no_passkey_is_there_by_half(database_url: str, tmp_path: Path) -> None:
    await kill(database_url, tmp_path, SPREAD)


@ALL
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", POINTS)
async def test_two_hundred_kills_at_each_point_and_no_passkey_is_there_by_half(database_url: str, tmp_path: Path, point: str) -> None:
    chosen = random.Random(point)
    await kill(database_url, tmp_path, [(point, chosen.randint(1, 7)) for _ in range(KILLS)])
