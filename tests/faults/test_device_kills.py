"""Kills around the approval of a device and the poll that redeems it: I3 and I8 hold.

Devices ask, their person approves or denies, and the devices poll. What got no answer is asked again: a decision is then there or is made,
and a device code gives its tokens once or a clean ``invalid_grant``.

``make test`` runs 8 kills on each database, ``make test-faults`` 200 at each point.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from faults.identity import Identity, Reply, Visitor
from faults.invariants import Ask, rows_of
from faults.test_kills import ALL, KILLS

from greatseal.testing.desk import forgetful

POINTS = ("device.approved", "device.redeemed", "db.commit", "db.committed")
OFTEN = {point: 4 for point in POINTS if point.startswith("db.")}
SPREAD = [(point, hit * OFTEN.get(point, 1)) for hit in (2, 7) for point in POINTS]
DEVICES = 4
GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class Ledger:
    """What was acknowledged, by device code."""

    def __init__(self) -> None:
        self.decided: dict[str, str] = {}
        self.tokens: dict[str, str] = {}
        self.lost: set[str] = set()
        """Redeemed, and the answer never came."""


class Device(Visitor):
    """One device after the other, each with the person's decision, until told to stop."""

    def __init__(self, visitor: Visitor, ledger: Ledger, client_id: str) -> None:
        super().__init__(visitor.service, visitor.http)
        self.cookie = visitor.cookie
        self.ledger = ledger
        self.client_id = client_id
        self.stop = False

    async def work(self) -> None:
        rounds = 0
        while not self.stop:
            rounds += 1
            asked, _ = await self.repeated("/device_authorization", data={"client_id": self.client_id, "scope": "openid offline_access"})
            await self.connect(asked.json, "deny" if rounds % 5 == 0 else "approve")

    async def connect(self, asked: dict[str, Any], decision: str) -> None:
        code = asked["device_code"]
        decided, unanswered = await self.repeated("/api/auth/device", json={"user_code": asked["user_code"], "decision": decision})
        assert decided.status == 200 or (decided.status == 409 and unanswered), decided
        self.ledger.decided[code] = decision
        form = {"client_id": self.client_id, "grant_type": GRANT, "device_code": code}
        answer, unanswered = await self.repeated("/token", data=form)
        if decision == "deny":
            assert (answer.status, answer.json["error"]) == (400, "access_denied"), answer
        elif answer.status == 200:
            self.ledger.tokens[code] = answer.json["access_token"]
        else:
            assert unanswered, answer
            assert (answer.status, answer.json["error"]) == (400, "invalid_grant"), answer
            self.ledger.lost.add(code)

    async def repeated(self, path: str, **options: Any) -> tuple[Reply, int]:
        """The answer, and how many times there was none before."""
        unanswered = 0
        while (answer := await self.ask("POST", path, **options)) is None:
            unanswered += 1
        return answer, unanswered


@pytest.mark.timeout(300)
async def test_f03_a_spread_of_kills_approves_and_redeems_no_device_twice(database_url, tmp_path, record_property):
    record_property("figures", await kill(database_url, tmp_path, SPREAD))


@ALL
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("point", POINTS)
async def test_f03_two_hundred_kills_around_devices_at_each_point(database_url, tmp_path, record_property, point):
    chosen = random.Random(point)
    plan = [(point, chosen.randint(1, 20) * OFTEN.get(point, 1)) for _ in range(KILLS)]
    record_property("figures", await kill(database_url, tmp_path, plan))


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> str:
    """Carry out the plan under load, and check the invariants."""
    service, ledger = Identity(folder, database, plugins={"enabled": ["idp", "users-file", "device-flow"]}), Ledger()
    async with service.warm(), forgetful() as http:
        visitor = Visitor(service, http)
        assert await service.start()
        await visitor.login()
        body = {"token_endpoint_auth_method": "none", "scopes": ["openid", "offline_access"], "grant_types": [GRANT, "refresh_token"]}
        registered = await visitor.ask("POST", "/api/admin/clients", json=body)
        assert registered is not None
        assert await service.end() == {"code": 0}
        async with devices(visitor, ledger, registered.json["client_id"]):
            for point, hit in plan:
                await service.start(f"{point}:kill:{hit}")
                await service.killed()
            assert await service.start()
        for token in ledger.tokens.values():
            answer = await visitor.ask("GET", "/userinfo", headers={"Authorization": f"Bearer {token}"})
            assert answer is not None
            assert answer.status == 200
        assert await service.end() == {"code": 0}
    with rows_of(database) as ask:
        check_rows(ask, ledger)
    decisions = Counter(ledger.decided.values())
    return f"{len(plan)} kills, {dict(decisions)}, {len(ledger.tokens)} redeemed, {len(ledger.lost)} whose answer was lost"


@asynccontextmanager
async def devices(visitor: Visitor, ledger: Ledger, client_id: str) -> AsyncIterator[None]:
    """Devices at work; at the end of the block each finishes what it is at, and the service must be up then."""
    working = [Device(visitor, ledger, client_id) for _ in range(DEVICES)]
    async with asyncio.TaskGroup() as group:
        for device in working:
            group.create_task(device.work())
        yield
        for device in working:
            device.stop = True


def check_rows(ask: Ask, ledger: Ledger) -> None:
    """I3: an approval is one code, used with its request, and opened one family. I8: every decision has one event."""
    status = {bytes(digest): state for digest, state in ask("SELECT digest, status FROM device_flow_request")}
    used = {digest_of(code) for code in (*ledger.tokens, *ledger.lost)}
    assert {digest for digest, state in status.items() if state == "used"} == used
    assert {digest for digest, state in status.items() if state == "denied"} == {
        digest_of(code) for code, decision in ledger.decided.items() if decision == "deny"
    }
    assert "approved" not in status.values()
    codes = {bytes(digest): at for digest, at in ask("SELECT digest, used_at FROM idp_code")}
    assert codes.keys() == used
    assert None not in codes.values()
    assert Counter(bytes(origin) for (origin,) in ask("SELECT origin FROM idp_family")) == Counter(used)
    events = Counter(kind for (kind,) in ask("SELECT event_type FROM core_audit WHERE service = 'idp'"))
    decisions = Counter(ledger.decided.values())
    assert (events["device_approved"], events["consent_granted"]) == (decisions["approve"], decisions["approve"])
    assert events["device_denied"] == decisions["deny"]


def digest_of(code: str) -> bytes:
    return sha256(code.encode()).digest()
