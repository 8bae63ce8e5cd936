"""Kills around tokens and recovery codes: I3 and I8 hold.

A person makes a token, gives its first code, makes recovery codes, signs in with them and deletes the token, over and over. What got no
answer is asked again: a code is then good for the first time, or was used up by the answer that was lost.

``make test`` runs 8 kills on each database, ``make test-faults`` 200 at each point.
"""

import asyncio
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyotp
import pytest
from faults.identity import PASSWORD, USER, Identity, Reply, Visitor
from faults.invariants import Ask, rows_of
from faults.test_kills import ALL, KILLS

from greatseal.testing.desk import forgetful
from greatseal_otp.recovery import digest_of

POINTS = ("otp.used", "otp.recovered", "db.commit", "db.committed")
OFTEN = {point: 4 for point in POINTS if point.startswith("db.")}
SPREAD = [(point, hit * OFTEN.get(point, 1)) for hit in (1, 3) for point in POINTS]
STEP = 30
SUBJECT = f"{USER}@LOCALHOST"
EACH = 4
"""Recovery codes of a round that are used; five failures in a row would be too many."""


class Ledger:
    """What was acknowledged."""

    def __init__(self) -> None:
        self.confirmed: set[str] = set()
        self.used: set[str] = set()
        self.lost: set[str] = set()
        """Used up, and the answer never came."""
        self.rounds = 0


class Person(Visitor):
    """Goes round until told to stop."""

    def __init__(self, visitor: Visitor, ledger: Ledger) -> None:
        super().__init__(visitor.service, visitor.http)
        self.cookie = visitor.cookie
        self.ledger = ledger
        self.stop = False

    async def work(self) -> None:
        while not self.stop:
            await self.round()
            self.ledger.rounds += 1

    async def round(self) -> None:
        made, _ = await self.repeated("POST", "/api/me/otp-tokens", json={"label": "phone"})
        assert made.status == 201, made
        totp = pyotp.parse_uri(made.json["otpauth_uri"])
        assert isinstance(totp, pyotp.TOTP)
        path = f"/api/me/otp-tokens/{made.json['token_id']}"
        step = int(time.time()) // STEP
        confirmed, unanswered = await self.repeated("POST", f"{path}/confirm", json={"otp_code": totp.generate_otp(step)})
        # Confirmed is not told twice; nor is the cookie under which the session went on.
        assert confirmed.status == 204 or (confirmed.status in {400, 401} and unanswered), confirmed
        self.ledger.confirmed.add(made.json["token_id"])
        self.cookie = confirmed.cookie or await self.by_code(totp, step + 1)
        codes, _ = await self.repeated("POST", "/api/me/recovery-codes")
        for one in codes.json["codes"][:EACH]:
            await self.sign_in(one)
        listed, _ = await self.repeated("GET", "/api/me/otp-tokens")
        for token in listed.json:  # with those whose making was not answered
            deleted, _ = await self.repeated("DELETE", f"/api/me/otp-tokens/{token['token_id']}")
            # 404 after a lost answer: aiohttp itself repeats what may be repeated, and counts nothing.
            assert deleted.status in {204, 404}, deleted

    async def by_code(self, totp: pyotp.TOTP, step: int) -> str:
        """The cookie of a sign-in with the first code, from that of ``step`` on, whose answer comes."""
        while True:
            await asyncio.sleep((step - 1) * STEP - time.time())
            body = {"username": USER, "password": PASSWORD, "otp_code": totp.generate_otp(step)}
            answer = await self.ask("POST", "/api/auth/otp", json=body, headers={"Cookie": ""})
            if answer is not None and answer.status == 200:
                return answer.cookie
            step += 1

    async def sign_in(self, code: str) -> None:
        body = {"username": USER, "password": PASSWORD, "otp_code": code}
        answer, unanswered = await self.repeated("POST", "/api/auth/otp", json=body, headers={"Cookie": ""})
        if answer.status == 200:
            self.ledger.used.add(code)
        else:
            assert (answer.status, unanswered > 0) == (401, True), answer
            self.ledger.lost.add(code)

    async def repeated(self, method: str, path: str, **options: Any) -> tuple[Reply, int]:
        """The answer, and how many times there was none before."""
        unanswered = 0
        while (answer := await self.ask(method, path, **options)) is None:
            unanswered += 1
        return answer, unanswered


@pytest.mark.timeout(300)
async def test_f03_i3_a_spread_of_kills_takes_no_code_twice(database_url, tmp_path, record_property):
    record_property("figures", await kill(database_url, tmp_path, SPREAD))


@ALL
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("point", POINTS)
async def test_f03_i3_two_hundred_kills_around_codes_at_each_point(database_url, tmp_path, record_property, point):
    chosen = random.Random(point)
    plan = [(point, chosen.randint(1, 6) * OFTEN.get(point, 1)) for _ in range(KILLS)]
    record_property("figures", await kill(database_url, tmp_path, plan))


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> str:
    """Carry out the plan under load, and check the invariants."""
    service, ledger = Identity(folder, database, plugins={"enabled": ["idp", "users-file", "otp"]}), Ledger()
    async with service.warm(), forgetful() as http:
        visitor = Visitor(service, http)
        assert await service.start()
        await visitor.login()
        assert await service.end() == {"code": 0}
        async with asyncio.TaskGroup() as group:
            person = Person(visitor, ledger)
            group.create_task(person.work())
            for point, hit in plan:
                await service.start(f"{point}:kill:{hit}")
                await service.killed()
            assert await service.start()
            person.stop = True
        assert await service.end() == {"code": 0}
    with rows_of(database) as ask:
        check_rows(ask, ledger)
    return f"{len(plan)} kills, {ledger.rounds} rounds, {len(ledger.used)} codes used, {len(ledger.lost)} whose answer was lost"


def check_rows(ask: Ask, ledger: Ledger) -> None:
    """I3: what was used is gone. I8: each use, and each first code, has one event."""
    assert not ledger.used & ledger.lost
    left = {bytes(digest) for (digest,) in ask("SELECT digest FROM otp_recovery_code")}
    taken = {digest_of(SUBJECT, code.replace("-", "")) for code in ledger.used | ledger.lost}
    assert not left & taken
    assert [remaining for (remaining,) in ask("SELECT remaining FROM otp_recovery")] == ([len(left)] if left else [])
    events = Counter(kind for (kind,) in ask("SELECT event_type FROM core_audit WHERE service = 'idp'"))
    assert events["otp_recovery_code_used"] == len(ledger.used) + len(ledger.lost)
    assert events["otp_token_confirmed"] == len(ledger.confirmed)
    assert events["otp_token_created"] - events["otp_token_deleted"] == len(ask("SELECT token_id FROM otp_token"))
    assert {step for (step,) in ask("SELECT token_id FROM otp_step")} == {token for (token,) in ask("SELECT token_id FROM otp_token")}
