"""Kills around the rotation of signing keys and of the cluster key, and around the other admin writes: I6, I7 and I8 hold.

An administrator rotates, revokes, registers and deletes, and writes down what was acknowledged. The service is killed at every step.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import random
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from faults.identity import Identity, Visitor
from faults.invariants import rows_of
from faults.test_kills import ALL, KILLS

STEPS = (
    "idp.key.rotated",
    "idp.key.succeeded",
    "idp.key.revoked",
    "cluster_key.both_stored",
    "cluster_key.in_force",
    "cluster_key.forgotten",
)
WRITES = ("file.fsync", "db.commit", "db.committed")
"""Every change passes these, and a start does."""
POINTS = (*STEPS, *WRITES)
SPREAD = [(point, hit) for hit in (1, 2) for point in STEPS] + [(point, hit) for hit in (2, 4, 7, 11) for point in WRITES]
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Written:
    """What was acknowledged."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.revoked: set[str] = set()
        self.cluster_keys: list[str] = []
        self.clients: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.doubtful: set[str] = set()
        """Clients and keys whose end was asked for and not answered."""


class Administrator(Visitor):
    """Changes one thing after another; what gets no answer is not done again."""

    def __init__(self, service: Identity, http: aiohttp.ClientSession, written: Written) -> None:
        super().__init__(service, http)
        self.written = written

    async def work(self) -> None:
        """Until it is cancelled."""
        steps: list[Callable[[], Awaitable[None]]] = [
            self.rotate,
            self.register,
            self.rotate_cluster_key,
            self.revoke_retained,
            self.unregister,
            self.revoke_active,
        ]
        for step in cycle(steps):
            await step()

    async def rotate(self) -> None:
        if answer := await self.ask("POST", "/api/admin/keys/rotate", json={}):
            assert answer.status == 201, answer
            self.written.keys.add(answer.json["kid"])

    async def revoke_retained(self) -> None:
        retained = await self.kids("retained")
        if len(retained) > 2:
            await self._end(retained[-1], f"keys/{retained[-1]}", self.written.revoked)

    async def revoke_active(self) -> None:
        """Its successor comes first."""
        for kid in await self.kids("active"):
            await self._end(kid, f"keys/{kid}", self.written.revoked)

    async def kids(self, status: str) -> list[str]:
        """Of the keys that the service signs with by default; none when it did not answer."""
        listed = await self.ask("GET", "/api/admin/keys")
        return [key["kid"] for key in listed.json if key["status"] == status and key["alg"] == "ES256"] if listed else []

    async def rotate_cluster_key(self) -> None:
        if answer := await self.ask("PUT", "/api/admin/keys/cluster", json={}):
            assert answer.status == 200, answer
            self.written.cluster_keys.append(answer.json["key_id"])

    async def register(self) -> None:
        secret = secrets.token_urlsafe(32)
        body = {"token_endpoint_auth_method": "client_secret_jwt", "client_secret": secret, "scopes": ["groups"]}
        if answer := await self.ask("POST", "/api/admin/clients", json=body):
            assert answer.status == 201, answer
            self.written.clients[answer.json["client_id"]] = secret

    async def unregister(self) -> None:
        if len(self.written.clients) > 3:
            client_id = next(iter(self.written.clients))
            del self.written.clients[client_id]
            await self._end(client_id, f"clients/{client_id}", self.written.deleted)

    async def _end(self, id: str, path: str, ended: set[str]) -> None:
        self.written.doubtful.add(id)
        if answer := await self.ask("DELETE", f"/api/admin/{path}"):
            assert answer.status in {204, 404}, answer  # 404: done, and the answer of then was lost
            ended.add(id)

    async def token(self, client_id: str, secret: str) -> int:
        """The status of a request with an assertion under the client's secret, which rests sealed."""
        claims = {"iss": client_id, "sub": client_id, "aud": self.service.url, "jti": secrets.token_hex(8), "exp": int(time.time()) + 60}
        message = ".".join(b64url(json.dumps(part).encode()) for part in ({"alg": "HS256"}, claims))
        signature = b64url(hmac.digest(secret.encode(), message.encode(), hashlib.sha256))
        form = {"grant_type": "client_credentials", "client_assertion_type": ASSERTION, "client_assertion": f"{message}.{signature}"}
        async with self.http.post(f"{self.service.url}/token", data=form) as answer:
            return answer.status


def b64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


@pytest.mark.timeout(300)
async def test_a_spread_of_kills_around_keys_loses_nothing_that_was_acknowledged(database_url, tmp_path, record_property):
    record_property("figures", await kill(database_url, tmp_path, SPREAD))


@ALL
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("point", POINTS)
async def test_two_hundred_kills_around_keys_at_each_point(database_url, tmp_path, record_property, point):
    chosen = random.Random(point)
    deepest = 4 if point in STEPS else 30
    record_property("figures", await kill(database_url, tmp_path, [(point, chosen.randint(1, deepest)) for _ in range(KILLS)]))


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> str:
    """Carry out the plan while the administrator works; after every start the service must be whole."""
    service, written = Identity(folder, database), Written()
    async with service.warm(), aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http:
        administrator = Administrator(service, http, written)
        assert await service.start()
        await administrator.login()
        assert await service.end() == {"code": 0}
        working = asyncio.create_task(administrator.work())
        for point, hit in plan:
            await service.start(f"{point}:kill:{hit}")
            killed = asyncio.create_task(service.killed())
            await asyncio.wait({killed, working}, return_when=asyncio.FIRST_COMPLETED)
            assert not working.done(), working.result()
            await killed
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        assert await service.start()
        await check_answers(administrator, written)
        assert await service.end() == {"code": 0}
    check_rows(service, written)
    return f"{len(plan)} kills, {len(written.keys)} keys, {len(written.cluster_keys)} cluster keys, {len(written.clients)} clients"


async def check_answers(administrator: Administrator, written: Written) -> None:
    """What the service says about what it acknowledged."""

    async def asked(path: str) -> Any:
        answer = await administrator.ask("GET", f"/api/admin/{path}")
        assert answer is not None
        return answer.json

    keys = {key["kid"]: key["status"] for key in await asked("keys") if key["alg"] == "ES256"}
    assert list(keys.values()).count("active") == 1
    assert written.keys - written.doubtful <= keys.keys()  # I7
    assert not written.revoked & keys.keys()  # I6
    clients = {client["client_id"] for client in await asked("clients")}
    assert written.clients.keys() <= clients  # I7
    assert not written.deleted & clients  # I6
    for client_id, secret in written.clients.items():
        assert await administrator.token(client_id, secret) == 200
    for client_id in written.deleted:
        assert await administrator.token(client_id, "x") == 401
    in_force = (await asked("keys/cluster"))["key_id"]
    lines = administrator.service.key_file.read_text().splitlines()
    assert [line.split()[1] for line in lines] == [in_force]


def check_rows(service: Identity, written: Written) -> None:
    """I8: what was acknowledged has its event; and nothing is sealed under a key that is gone."""
    with rows_of(service.document["database"]["url"]) as ask:
        events = ask("SELECT event_type, sub, client_id, detail FROM core_audit WHERE service = 'idp'")
        sealed = ask("SELECT private FROM core_key WHERE private IS NOT NULL")
        sealed += ask("SELECT secret_sealed FROM idp_client WHERE secret_sealed IS NOT NULL")
        ((in_force,),) = ask("SELECT key_id FROM core_cluster_key")
    assert {sub for event_type, sub, *_ in events if event_type != "login_success"} == {events[0][1]}
    told = {event_type: {detail for name, _, _, detail in events if name == event_type} for event_type, *_ in events}
    assert written.keys <= named(told.get("key_rotated", set()), r"kid=(\S+)")
    assert written.revoked <= named(told.get("key_revoked", set()), r"kid=(\S+)")
    assert set(written.cluster_keys) <= named(told.get("cluster_key_rotated", set()), r"key_id=(\S+)")
    of_clients = {(name, client_id) for name, _, client_id, _ in events}
    assert {("client_created", one) for one in (*written.clients, *written.deleted)} <= of_clients
    assert {("client_deleted", one) for one in written.deleted} <= of_clients
    assert {bytes(one)[1:17].hex() for (one,) in sealed} == {in_force.replace("-", "")}


def named(details: set[str], pattern: str) -> set[str]:
    return {found.group(1) for detail in details if (found := re.search(pattern, detail))}
