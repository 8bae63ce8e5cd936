"""Kills around what a person allows a client by CIBA and the poll that redeems it: I3 and I8 hold.

Clients ask, their person approves or denies, and the clients poll. What got no answer is asked again: a decision is then there or is made,
and an auth_req_id gives its tokens once or a clean ``invalid_grant``.

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
from faults.identity import USER, Identity, Reply, Visitor
from faults.invariants import Ask, rows_of
from faults.test_kills import ALL, KILLS

from greatseal.testing.desk import forgetful

POINTS = ("ciba.approved", "ciba.redeemed", "db.commit", "db.committed")
OFTEN = {point: 4 for point in POINTS if point.startswith("db.")}
SPREAD = [(point, hit * OFTEN.get(point, 1)) for hit in (2, 7) for point in POINTS]
CALLERS = 4
SECRET = "s" * 43
GRANT = "urn:openid:params:grant-type:ciba"


class Ledger:
    """What was acknowledged, by auth_req_id."""

    def __init__(self) -> None:
        self.decided: dict[str, str] = {}
        self.tokens: dict[str, str] = {}
        self.lost: set[str] = set()
        """Redeemed, and the answer never came."""


class Caller(Visitor):
    """One request after the other, each with the person's decision, until told to stop."""

    def __init__(self, visitor: Visitor, ledger: Ledger, client_id: str) -> None:
        super().__init__(visitor.service, visitor.http)
        self.cookie = visitor.cookie
        self.ledger = ledger
        self.proof = {"client_id": client_id, "client_secret": SECRET}
        self.stop = False

    async def work(self) -> None:
        rounds = 0
        while not self.stop:
            rounds += 1
            message = f"{id(self)} {rounds}"
            form = {"scope": "openid offline_access", "login_hint": USER, "binding_message": message}
            asked, _ = await self.repeated("/bc-authorize", data={**self.proof, **form})
            await self.settle(asked.json["auth_req_id"], message, "deny" if rounds % 5 == 0 else "approve")

    async def settle(self, handle: str, message: str, decision: str) -> None:
        while (listed := await self.ask("GET", "/api/auth/ciba")) is None:
            pass
        # Of a message that was sent twice since its answer was lost, the later one is that whose handle is known.
        id = next(one["id"] for one in listed.json if one["binding_message"] == message)
        decided, unanswered = await self.repeated(f"/api/auth/ciba/{id}", json={"decision": decision})
        assert decided.status == 200 or (decided.status == 409 and unanswered), decided
        self.ledger.decided[handle] = decision
        form = {**self.proof, "grant_type": GRANT, "auth_req_id": handle}
        answer, unanswered = await self.repeated("/token", data=form)
        if decision == "deny":
            assert answer.json["error"] in {"access_denied", *(["slow_down"] if unanswered else [])}, answer
        elif answer.status == 200:
            self.ledger.tokens[handle] = answer.json["access_token"]
        else:
            assert unanswered, answer
            assert (answer.status, answer.json["error"]) == (400, "invalid_grant"), answer
            self.ledger.lost.add(handle)

    async def repeated(self, path: str, **options: Any) -> tuple[Reply, int]:
        """The answer, and how many times there was none before."""
        unanswered = 0
        while (answer := await self.ask("POST", path, **options)) is None:
            unanswered += 1
        return answer, unanswered


@pytest.mark.timeout(300)
async def test_f03_a_spread_of_kills_approves_and_redeems_no_ciba_request_twice(database_url, tmp_path, record_property):
    record_property("figures", await kill(database_url, tmp_path, SPREAD))


@ALL
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("point", POINTS)
async def test_f03_two_hundred_kills_around_ciba_at_each_point(database_url, tmp_path, record_property, point):
    chosen = random.Random(point)
    plan = [(point, chosen.randint(1, 20) * OFTEN.get(point, 1)) for _ in range(KILLS)]
    record_property("figures", await kill(database_url, tmp_path, plan))


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> str:
    """Carry out the plan under load, and check the invariants."""
    service, ledger = Identity(folder, database, plugins={"enabled": ["idp", "users-file", "ciba"]}), Ledger()
    async with service.warm(), forgetful() as http:
        visitor = Visitor(service, http)
        assert await service.start()
        await visitor.login()
        body = {
            "token_endpoint_auth_method": "client_secret_post",
            "client_secret": SECRET,
            "scopes": ["openid", "offline_access"],
            "grant_types": [GRANT, "refresh_token"],
            "backchannel_token_delivery_mode": "poll",
        }
        registered = await visitor.ask("POST", "/api/admin/clients", json=body)
        assert registered is not None
        assert await service.end() == {"code": 0}
        async with callers(visitor, ledger, registered.json["client_id"]):
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
async def callers(visitor: Visitor, ledger: Ledger, client_id: str) -> AsyncIterator[None]:
    """Clients at work; at the end of the block each finishes what it is at, and the service must be up then."""
    working = [Caller(visitor, ledger, client_id) for _ in range(CALLERS)]
    async with asyncio.TaskGroup() as group:
        for caller in working:
            group.create_task(caller.work())
        yield
        for caller in working:
            caller.stop = True


def check_rows(ask: Ask, ledger: Ledger) -> None:
    """I3: an approval is one code, used with its request, and opened one family. I8: every decision has one event."""
    status = {bytes(digest): state for digest, state in ask("SELECT digest, status FROM ciba_request")}
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
    assert (events["ciba_approved"], events["consent_granted"]) == (decisions["approve"], decisions["approve"])
    assert events["ciba_denied"] == decisions["deny"]


def digest_of(code: str) -> bytes:
    return sha256(code.encode()).digest()
