"""The service is killed while clients register themselves, change and delete that: what was answered is so, and nothing is there by half.

``make test`` runs a spread of kills on each database, ``make test-faults`` 200 at each point (GREATSEAL_FAULT_KILLS changes that).
"""

import asyncio
import hashlib
import random
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from faults.identity import Identity, Visitor
from faults.invariants import rows_of
from faults.test_kills import ALL, KILLS

POINTS = ("db.commit", "db.committed")
SPREAD = [(point, hit) for hit in (1, 2, 3, 5, 8) for _ in range(2) for point in POINTS]
TOKEN = "an-initial-access-token"
BACK = "https://app.example/callback"
PUBLIC = {"redirect_uris": [BACK], "token_endpoint_auth_method": "none"}


class Registrant(Visitor):
    """One client after another: registers, changes its name twice, and every other one deletes itself. What gets no answer is given up."""

    def __init__(self, service: Identity, http: aiohttp.ClientSession) -> None:
        super().__init__(service, http)
        self.known: dict[str, tuple[str, str]] = {}
        """Name and token of each that was answered and is there."""
        self.deleted: set[str] = set()
        self.stop = False
        self.doubtful: set[str] = set()
        """Clients of which a change was asked for and not answered."""

    async def work(self) -> None:
        for number in count():
            if self.stop:
                return
            made = await self.ask("POST", "/register", json={**PUBLIC, "client_name": "0"}, headers=bearer(TOKEN))
            if made is None:
                continue
            assert made.status == 201, made
            client = made.json["client_id"]
            self.known[client] = ("0", made.json["registration_access_token"])
            if await self.rename(client, "1") and await self.rename(client, "2") and number % 2:
                await self.delete(client)

    async def rename(self, client: str, name: str) -> bool:
        body = {**PUBLIC, "client_id": client, "client_name": name}
        answer = await self.own("PUT", client, json=body)
        if answer is None:
            return False
        assert answer.status == 200, answer
        self.known[client] = (name, answer.json["registration_access_token"])
        return True

    async def delete(self, client: str) -> None:
        answer = await self.own("DELETE", client)
        if answer is not None:
            assert answer.status == 204, answer
            del self.known[client]
            self.deleted.add(client)

    async def own(self, method: str, client: str, **more: Any) -> Any:
        answer = await self.ask(method, f"/api/admin/clients/{client}", headers=bearer(self.known[client][1]), **more)
        if answer is None:
            self.doubtful.add(client)
        return answer


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> None:
    server = {"auth_rate_limit": 0, "registration_token": TOKEN, "registration_management": True}
    plugins = {"sets": ["idp"], "enabled": ["registration"]}
    service = Identity(folder, database, server=server, plugins=plugins, registration={"rate_limit": 0, "max_clients": 100_000})
    async with service.warm(), aiohttp.ClientSession() as http:
        http._retry_connection = False  # or aiohttp sends a PUT again whose answer was lost
        assert await service.start()
        registrant = Registrant(service, http)
        async with asyncio.TaskGroup() as group:
            group.create_task(registrant.work())
            assert await service.end() == {"code": 0}
            for point, hit in plan:
                await service.start(f"{point}:kill:{hit}")
                await service.killed()
            assert await service.start()
            registrant.stop = True
        await check_answers(registrant)
        assert await service.end() == {"code": 0}
    check_rows(database, registrant)


async def check_answers(registrant: Registrant) -> None:
    """Who was answered has a token that is good, and the name that it gave last."""
    for client, (name, token) in registrant.known.items():
        if client in registrant.doubtful:
            continue
        answer = await registrant.ask("GET", f"/api/admin/clients/{client}", headers=bearer(token))
        assert answer is not None
        assert (answer.status, answer.json["client_name"]) == (200, name)


def check_rows(database: str, registrant: Registrant) -> None:
    """A client and its row are stored, changed and deleted together, also where nobody heard of it."""
    with rows_of(database) as ask:
        names = dict(ask("SELECT client_id, client_name FROM idp_client WHERE source = 'dynamic'"))
        digests = {client: bytes(digest) for client, digest in ask("SELECT client_id, token_digest FROM registration_client")}
        changed = [client for (client,) in ask("SELECT client_id FROM core_audit WHERE event_type = 'client_updated'")]
    assert registrant.known
    assert names.keys() == digests.keys()
    assert not registrant.deleted & names.keys()
    for client, (name, token) in registrant.known.items():
        was = digests.get(client) == hashlib.sha256(token.encode()).digest()
        assert was or client in registrant.doubtful
        assert names.get(client) == (name if was else names.get(client))
    assert all(changed.count(client) == int(name) for client, name in names.items())


@pytest.mark.timeout(300)
async def test_a_spread_of_kills_and_no_registration_is_there_by_half(database_url: str, tmp_path: Path) -> None:
    await kill(database_url, tmp_path, SPREAD)


@ALL
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", POINTS)
async def test_two_hundred_kills_at_each_point_and_no_registration_is_there_by_half(database_url: str, tmp_path: Path, point: str) -> None:
    chosen = random.Random(point)
    await kill(database_url, tmp_path, [(point, chosen.randint(1, 8)) for _ in range(KILLS)])
