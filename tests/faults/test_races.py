"""What may happen once happens once, whoever races and whatever the wall clock is set to meanwhile.

One code, one rotation, one pushed request, one consent, one assertion, one DPoP proof, one device code, one CIBA request and one
registration access token are each used by two and by fifty at once; of the answers one is a success, and every other use is noticed with
its consequences. Half of the rounds run on a clock that is set ahead and back by 90 seconds all the time.

``make test`` runs 40 rounds of each on each database, mostly of two; ``make test-faults`` 2,000 of two and 2,000 of fifty
(GREATSEAL_RACE_ROUNDS changes that).
"""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from faults.test_kills import ALL
from security.idp_ciba import Caller, caller_of
from security.idp_desk import Desk, open_desk
from security.idp_device import Device, device_of
from security.idp_places import P256, TOO_OFTEN, Place, assertion_of, present
from security.test_idp_dpop import Key

from greatseal.clock import SystemClock
from greatseal.testing.desk import CALLBACK, Answer, told

TWO, FIFTY = 2, 50
SPREAD = {TWO: 36, FIFTY: 4}
"""How many rounds of each number ``make test`` runs."""
ROUNDS = int(os.environ.get("GREATSEAL_RACE_ROUNDS", "2000"))
STEPS = (90, -90)
INITIAL = "an-initial-access-token"
GRANT = (400, "invalid_grant")
LIVES = {"code_ttl": 600, "par_ttl": 600}
"""Longer than the clock is set ahead: what has expired is refused, and rightly."""


class Swaying(SystemClock):
    """The machine's clock, ``ahead`` of itself by some seconds."""

    ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead * 1_000_000

    @asynccontextmanager
    async def swayed(self) -> AsyncIterator[None]:
        """Set ahead and back at any moment of the block."""
        swaying = asyncio.create_task(self._sway())
        try:
            yield
        finally:
            swaying.cancel()
            with suppress(asyncio.CancelledError):
                await swaying
            self.ahead = 0

    async def _sway(self) -> None:
        moments = random.Random(90)
        for step in cycle((*STEPS, *reversed(STEPS))):
            self.ahead += step
            await asyncio.sleep(moments.uniform(0, 0.01))


class Races:
    """The rounds: each makes something that may be used once, has it used by ``many`` at once, and looks at what came of it."""

    def __init__(
        self, desk: Desk, ann: str, asking: dict[str, Any], place: Place, program: dict[str, Any], tv: Device, bank: Caller
    ) -> None:
        self.desk = desk
        self.ann = ann
        self.asking = asking
        self.place = place
        self.program = program
        self.tv = tv
        self.bank = bank
        self.played = dict.fromkeys(("refresh", "code", "pushed", "consent", "assertion", "proof", "device", "registration", "ciba"), 0)
        self.registered: dict[str, Any] = {}

    async def play(self, kind: str, many: int) -> None:
        self.played[kind] += 1
        await getattr(self, kind)(many)

    async def refresh(self, many: int) -> None:
        """RFC 9700 s4.14.2: one gets the successor, the others end the family."""
        first = await self.desk.tokens(self.ann)

        won = one_of(await at_once(many, lambda: self.desk.refresh(first["refresh_token"])), lambda lost: lost.outcome == GRANT)

        assert (await self.desk.refresh(won.json["refresh_token"])).outcome == GRANT
        for tokens in (first, won.json):
            assert (await self.desk.userinfo(tokens["access_token"])).status == 401

    async def code(self, many: int) -> None:
        """RFC 6749 s4.1.2: one gets tokens, the others take them back."""
        code = await self.desk.code(self.ann, scope="openid offline_access")

        won = one_of(await at_once(many, lambda: self.desk.redeem(code)), lambda lost: lost.outcome == GRANT)

        assert (await self.desk.refresh(won.json["refresh_token"])).outcome == GRANT
        assert (await self.desk.userinfo(won.json["access_token"])).status == 401

    async def pushed(self, many: int) -> None:
        """RFC 9126 s4: a request_uri gives one code."""
        place = (await self.desk.push()).json["request_uri"]
        query = f"/authorize?client_id={self.desk.client['client_id']}&request_uri={place}"

        won = one_of(
            await at_once(many, lambda: self.desk.ask("GET", query, cookie=self.ann)),
            lambda lost: lost.outcome == (400, "invalid_request_uri"),
        )

        assert (await self.desk.redeem(told(won)["code"])).status == 200

    async def consent(self, many: int) -> None:
        """An approval gives one code."""
        changes = {"client_id": self.asking["client_id"], "prompt": "consent"}
        _, fields = await self.desk.consent(self.ann, **changes)

        won = one_of(await at_once(many, lambda: self.desk.approve(self.ann, fields)), lambda lost: lost.status == 404)

        assert (await self.desk.redeem(told(won)["code"], by=self.asking)).status == 200

    async def assertion(self, many: int) -> None:
        """RFC 7523 s3: a jti proves the client once. The assertion is good on the clock ahead and on the clock behind."""
        token = self.place.token(claims={"iat": None, "exp": int(time.time()) + 300})

        won = one_of(await at_once(many, lambda: present(self.desk, token)), lambda lost: lost.status in {401, TOO_OFTEN})

        assert won.json["access_token"]
        assert (await present(self.desk, token)).status in {401, TOO_OFTEN}

    async def proof(self, many: int) -> None:
        """RFC 9449 s11.1: a proof is for one request. On the clock ahead and on the clock behind it is too far from the time."""
        proof = Key(self.desk).proof("POST", "/token", iat=int(time.time()))
        answers: list[Answer] = []

        while not any(answer.status == 200 for answer in answers):
            answers += await at_once(
                many, lambda: self.desk.form("/token", {"grant_type": "client_credentials"}, by=self.program, headers=proof)
            )

        assert one_of(answers, lambda lost: lost.outcome == (400, "invalid_dpop_proof")).json["token_type"] == "DPoP"

    async def device(self, many: int) -> None:
        """RFC 8628 s3.5: one poll gets tokens, and they stay good: asking twice is no attack."""
        await self.tv.begin()
        assert (await self.tv.decide(self.ann)).status == 200

        won = one_of(await at_once(many, self.tv.poll), lambda lost: lost.outcome == GRANT)

        assert (await self.desk.userinfo(won.json["access_token"])).status == 200

    async def registration(self, many: int) -> None:
        """RFC 7592 s2.2: a registration access token is good for one change, whose answer has the next one."""
        if not self.registered:
            body = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
            self.registered = (await self.desk.post("/register", json=body, headers={"Authorization": f"Bearer {INITIAL}"})).json
        path = f"/api/admin/clients/{self.registered['client_id']}"
        sent = {"Authorization": f"Bearer {self.registered['registration_access_token']}"}
        names = iter(range(many))

        async def change() -> Answer:
            whole = {"client_id": self.registered["client_id"], "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
            return await self.desk.ask("PUT", path, headers=sent, json={**whole, "client_name": f"number {next(names, 'more')}"})

        won = one_of(await at_once(many, change), lambda lost: lost.status in {401, 409})

        self.registered = won.json
        assert (await self.desk.get(path, headers=sent)).status == 401
        sent = {"Authorization": f"Bearer {self.registered['registration_access_token']}"}
        assert (await self.desk.get(path, headers=sent)).json["client_name"] == won.json["client_name"]

    async def ciba(self, many: int) -> None:
        """CIBA Core s11: as with devices."""
        await self.bank.begin()
        assert (await self.bank.decide(self.ann)).status == 200

        won = one_of(await at_once(many, self.bank.poll), lambda lost: lost.outcome == GRANT)

        assert (await self.desk.userinfo(won.json["access_token"])).status == 200


async def at_once(many: int, ask: Callable[[], Awaitable[Answer]]) -> list[Answer]:
    """The answers. Where others kept the database busy for too long nothing was done, and it is asked again."""

    async def answered() -> Answer:
        while (answer := await ask()).status == 503:
            continue
        return answer

    return await asyncio.gather(*(answered() for _ in range(many)))


def one_of(answers: list[Answer], is_lost: Callable[[Answer], bool]) -> Answer:
    """The one success; every other answer is the refusal that says so."""
    won = [answer for answer in answers if answer.status < 400]
    assert len(won) == 1, [(answer.status, answer.text[:200]) for answer in answers]
    assert all(is_lost(answer) for answer in answers if answer is not won[0])
    return won[0]


@asynccontextmanager
async def races(folder: Path, database: str, clock: Swaying, **tokens: int) -> AsyncIterator[Races]:
    """A service for all rounds."""
    sections: dict[str, Any] = {"database": {"url": database}, "tokens": {**LIVES, **tokens}}
    sections["server"] = {"registration_token": INITIAL, "registration_management": True}
    features = ("client-auth-jwt", "resolver", "dpop", "device-flow", "ciba", "registration")
    async with open_desk(folder, *features, clock=clock, **sections) as desk:
        asking = await desk.registered(consent="explicit")
        place = await assertion_of(desk, "ES256", P256)
        program = await desk.registered(grant_types=["client_credentials"], redirect_uris=None, scopes=["groups"])
        yield Races(desk, await desk.cookie("ann"), asking, place, program, await device_of(desk), await caller_of(desk))


async def compete(folder: Path, database: str, rounds: dict[int, int]) -> str:
    """Half of the rounds on a steady clock, half on one that is set ahead and back."""
    clock = Swaying()
    began = time.monotonic()
    async with races(folder, database, clock, refresh_grace_seconds=0) as played:
        for kind in played.played:
            for many, number in rounds.items():
                for _ in range(number // 2):
                    await played.play(kind, many)
                async with clock.swayed():
                    for _ in range(number - number // 2):
                        await played.play(kind, many)
        await check_events(played)
    total = sum(rounds.values())
    uses = sum(many * number for many, number in rounds.items())
    return f"{total} rounds of {len(played.played)} kinds, {uses * len(played.played)} uses in {time.monotonic() - began:.0f} s"


async def check_events(races: Races) -> None:
    """Every replay is in the audit log, and what it ended is ended once."""
    from sqlalchemy import func, select

    from greatseal.testing.store import audit

    counted = select(audit.c.event_type, func.count().label("many")).group_by(audit.c.event_type)
    rows = await races.desk.service.host("idp").db.read(lambda tx: tx.all(counted))
    number = {row.event_type: row.many for row in rows}
    assert number["refresh_replay"] == races.played["refresh"]
    assert number["refresh_family_revoked"] == races.played["code"]
    assert number["code_replay"] >= races.played["code"]
    assert number["consent_granted"] == sum(races.played[kind] for kind in ("consent", "device", "ciba"))
    assert number["device_approved"] == races.played["device"]
    assert number["ciba_approved"] == races.played["ciba"]


@pytest.mark.timeout(300)
async def test_s022_s027_of_many_at_once_one_succeeds_and_every_replay_is_noticed(database_url, tmp_path, record_property):
    record_property("figures", await compete(tmp_path, database_url, SPREAD))


@ALL
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("many", [TWO, FIFTY])
async def test_s022_s027_two_thousand_rounds_of_each(database_url, tmp_path, record_property, many):
    record_property("figures", await compete(tmp_path, database_url, {many: ROUNDS}))


@pytest.mark.timeout(300)
async def test_r50_retries_that_race_get_the_very_same_successor(database_url, tmp_path):
    async with races(tmp_path, database_url, Swaying(), refresh_grace_seconds=10) as played:
        for many in (TWO,) * 10 + (FIFTY,):
            first = (await played.desk.tokens(played.ann))["refresh_token"]

            answers = await at_once(many, lambda: played.desk.refresh(first))  # noqa: B023  # awaited here

            assert {answer.status for answer in answers} == {200}
            (second,) = {answer.json["refresh_token"] for answer in answers}
            assert (await played.desk.refresh(second)).status == 200
