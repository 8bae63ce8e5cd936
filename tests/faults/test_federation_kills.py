"""The service is killed while its federation keys change and while clients sign their requests: there is always a key that superiors know,
and no request object is good twice.

``make test`` runs a spread of kills on each database, ``make test-faults`` 200 at each point (GREATSEAL_FAULT_KILLS changes that).
"""

import asyncio
import json
import random
import time
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from faults.identity import Identity, Visitor
from faults.invariants import rows_of
from faults.test_kills import ALL, KILLS
from rig.federation import CALLBACK, Program

from greatseal.jose.compact import b64url_decode, parse_compact
from greatseal.testing.desk import CHALLENGE

POINTS = ("db.commit", "db.committed")
SPREAD = [(point, hit) for hit in (1, 2, 3, 5, 8) for _ in range(2) for point in POINTS]
WELL_KNOWN = "/.well-known/openid-federation"
KEYS = "/api/admin/entity-keys"


class Operator(Visitor):
    """Makes a key, revokes the one before, and signs requests as a client that may send each once."""

    def __init__(self, service: Identity, http: aiohttp.ClientSession) -> None:
        super().__init__(service, http)
        self.stop = False
        self.client = ""
        self.program = Program("https://rp.example")
        self.revoked: set[str] = set()
        self.replayed = 0

    async def register(self) -> None:
        body = {
            "client_name": "Signs",
            "redirect_uris": [CALLBACK],
            "scopes": ["openid"],
            "token_endpoint_auth_method": "private_key_jwt",
            "jwks": self.program.metadata["openid_relying_party"]["jwks"],
            "consent": "implicit",
            "single_use_request_object": True,
        }
        made = await self.ask("POST", "/api/admin/clients", json=body)
        assert made is not None
        assert made.status == 201, made.json
        self.client = made.json["client_id"]

    async def keys(self) -> None:
        while not self.stop:
            await self.check()
            listed = await self.ask("GET", KEYS)
            if listed is None:
                continue
            kids = [one["kid"] for one in listed.json]
            assert not self.revoked.intersection(kids), "a key that was revoked is back"
            if len(kids) < 2:
                await self.ask("POST", KEYS)
            elif (answer := await self.ask("DELETE", f"{KEYS}/{kids[0]}")) is not None:
                assert answer.status == 204, answer
                self.revoked.add(kids[0])

    async def check(self) -> None:
        """What the service says of itself is signed by a key that it names, and by none that was revoked."""
        async with self.http.get(self.service.url + WELL_KNOWN) as answer:
            text = await answer.text()
        if answer.status == 200:
            kid, claims = parse_compact(text).header["kid"], json.loads(b64url_decode(text.split(".")[1]))
            assert kid in [key["kid"] for key in claims["jwks"]["keys"]]

    async def requests(self) -> None:
        for number in count():
            if self.stop:
                return
            claims = {
                "aud": self.service.url, "iss": self.client, "client_id": self.client, "jti": str(number), "exp": int(time.time()) + 600,
                "redirect_uri": CALLBACK, "response_type": "code", "scope": "openid", "code_challenge": CHALLENGE,
                "code_challenge_method": "S256",
            }  # fmt: skip
            path = f"/authorize?client_id={self.client}&request={self.program.proof(claims)}"
            first = await self.ask("GET", path)
            if first is None:
                continue
            assert first.status in {302, 303}, first
            again = await self.ask("GET", path)
            if again is not None:
                assert again.status == 400, again
                self.replayed += 1


async def guarded(operator: Operator) -> None:
    """The checks of an anonymous reader may meet a service that is down."""
    while not operator.stop:
        try:
            await operator.keys()
        except aiohttp.ClientError:
            await asyncio.sleep(0.005)


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> None:
    plugins: dict[str, Any] = {"sets": ["idp"], "enabled": ["jar", "openid-federation"]}
    service = Identity(folder, database, plugins=plugins)
    async with service.warm(), aiohttp.ClientSession() as http:
        http._retry_connection = False  # or aiohttp sends a DELETE again whose answer was lost
        assert await service.start()
        operator = Operator(service, http)
        await operator.login()
        await operator.register()
        async with asyncio.TaskGroup() as group:
            group.create_task(guarded(operator))
            group.create_task(operator.requests())
            assert await service.end() == {"code": 0}
            for point, hit in plan:
                await service.start(f"{point}:kill:{hit}")
                await service.killed()
            assert await service.start()
            operator.stop = True
        await operator.check()
        assert await service.end() == {"code": 0}
    assert operator.replayed
    with rows_of(database) as ask:
        made, revoked = (
            ask(f"SELECT count(*) FROM core_audit WHERE event_type = 'entity_key_{what}'")[0][0]  # words of this test
            for what in ("made", "revoked")
        )
    assert 1 <= made - revoked <= 2, "each key has its event, and one is always there"


@pytest.mark.timeout(300)
async def test_a_spread_of_kills_and_there_is_a_key_and_no_request_is_good_twice(database_url: str, tmp_path: Path) -> None:
    await kill(database_url, tmp_path, SPREAD)


@ALL
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", POINTS)
async def test_two_hundred_kills_at_each_point_and_no_request_is_good_twice(database_url: str, tmp_path: Path, point: str) -> None:
    chosen = random.Random(point)
    await kill(database_url, tmp_path, [(point, chosen.randint(1, 8)) for _ in range(KILLS)])
