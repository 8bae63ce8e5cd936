"""Kills around the redemption of codes and the rotation of refresh tokens: I3, I4, I6, I7 and I8 hold.

Relying parties ask for codes, redeem them, refresh, present what is superseded and give back, and write down what was acknowledged. A
request that got no answer is repeated: it gets its tokens or a clean ``invalid_grant``, and never are there two live ones.

``make test`` runs 24 kills on each database, and as many around keys (:mod:`faults.test_key_rotation`); ``make test-faults`` 200 at each
point.
"""

import asyncio
import random
import re
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from faults.identity import Identity, Reply, Visitor
from faults.invariants import Ask, rows_of
from faults.test_kills import ALL, KILLS

from greatseal.testing.desk import CHALLENGE, VERIFIER, forgetful

POINTS = ("idp.code.redeemed", "idp.refresh.rotated", "db.commit", "db.committed")
OFTEN = {point: 3 for point in POINTS if point.startswith("db.")}
"""Reads pass the points of the database too on PostgreSQL, and a start does: they are counted in threes."""
SPREAD = [(point, hit * OFTEN.get(point, 1)) for hit in (1, 4, 9) for point in POINTS]
"""Once with each grace."""
GRACES = (0, 10)
"""`[tokens] refresh_grace_seconds`: without it a repeated refresh ends the family, within it it gets the very same successor."""
PARTIES = 4
PLUGINS = {"enabled": ["idp", "users-file"]}
CALLBACK = "https://rp.example/callback"


class Grant:
    """A code that was redeemed, and what was acknowledged of it. ``ended`` is the audit event of the end of its refresh family."""

    def __init__(self, party: "RelyingParty", code: str) -> None:
        self.party = party
        self.code = code
        self.access: list[str] = []
        self.refresh: list[str] = []
        self.ended = ""
        self.lost = 0
        """Rotations that were committed and never answered."""

    def take(self, tokens: dict[str, Any]) -> None:
        self.access.append(tokens["access_token"])
        self.refresh.append(tokens["refresh_token"])


class Ledger:
    """What was acknowledged, and how often a request got no answer."""

    def __init__(self) -> None:
        self.grants: list[Grant] = []
        self.unanswered: Counter[str] = Counter()
        self.consents = 0
        self.code_replays = 0


class RelyingParty(Visitor):
    """A client with its person. Whatever gets no answer is asked again."""

    def __init__(self, visitor: Visitor, ledger: Ledger, client_id: str, grace: int) -> None:
        super().__init__(visitor.service, visitor.http)
        self.cookie = visitor.cookie
        self.ledger = ledger
        self.client_id = client_id
        self.grace = grace
        self.stop = False

    async def work(self) -> None:
        """A sign-in after the other, each to its end. The first consent is remembered by the other ways to a code."""
        ways = cycle((self.consented, self.pushed, self.plain))
        ends: list[Callable[[Grant], Awaitable[None]]] = [self.replay, keep, self.give_back, self.replay_code, keep]
        for end in cycle(ends):
            grant = await self.redeem(await next(ways)())
            for _ in range(2):
                if not grant.ended:
                    await self.rotate(grant)
            if not grant.ended:
                await end(grant)
            if self.stop:
                return

    async def plain(self) -> str:
        """The code of a request that is new each time: an answer that is lost costs nothing."""
        return code_of((await self.authorize(self.request("plain")))[0].location)

    async def pushed(self) -> str:
        """The code of a pushed request, which gives one alone (RFC 9126 s4)."""
        while True:
            answer, _ = await self.post("/par", **self.request("pushed"))
            place = {"client_id": self.client_id, "request_uri": answer.json["request_uri"]}
            if code := await self.single("/authorize", data=place):
                return code

    async def consented(self) -> str:
        """The code of a request that the person is asked about; one approval gives one alone."""
        while True:
            answer, _ = await self.authorize(self.request("consent", prompt="consent"))
            decision = {**dict(parse_qsl(urlsplit(answer.location).query)), "decision": "approve"}
            if code := await self.single("/api/auth/consent", json=decision):
                self.ledger.consents += 1
                return code

    async def single(self, path: str, **options: Any) -> str | None:
        """The code of something that gives a single one (I3); None when an answer was lost and the code with it."""
        answer, unanswered = await self.repeated("POST", path, **options)
        if answer.status in {400, 404}:
            assert unanswered, answer
            return None
        assert (await self.repeated("POST", path, **options))[0].status in {400, 404}
        return code_of(answer.location or answer.json["redirect_to"])

    async def redeem(self, code: str) -> Grant:
        """Tokens. When they were lost on their way the code is used: asked again, it takes back what it gave (RFC 6749 s4.1.2)."""
        grant = Grant(self, code)
        self.ledger.grants.append(grant)
        answer, unanswered = await self._redemption(grant)
        if answer.status == 200:
            grant.take(answer.json)
        else:
            assert unanswered, answer
            self._code_replayed(grant, answer)
        return grant

    async def rotate(self, grant: Grant) -> None:
        """The next tokens. When they were lost on their way, only a grace gives them again."""
        began = time.monotonic()
        answer, unanswered = await self._refresh(grant.refresh[-1])
        if answer.status == 200:
            grant.take(answer.json)
            return
        assert refused(answer)
        assert unanswered
        assert time.monotonic() - began > self.grace - 1
        grant.ended = "refresh_replay"
        grant.lost += 1

    async def replay(self, grant: Grant) -> None:
        """A superseded token; one that a grace does not cover."""
        answer, _ = await self._refresh(grant.refresh[-3 if self.grace else -2])
        assert refused(answer)
        grant.ended = "refresh_replay"

    async def replay_code(self, grant: Grant) -> None:
        self._code_replayed(grant, (await self._redemption(grant))[0])

    async def give_back(self, grant: Grant) -> None:
        assert (await self.post("/revoke", token=grant.refresh[-1]))[0].status == 200
        grant.ended = "token_revoked"

    def _code_replayed(self, grant: Grant, answer: Reply) -> None:
        assert refused(answer)
        self.ledger.code_replays += 1
        grant.ended = "refresh_family_revoked"

    async def _redemption(self, grant: Grant) -> tuple[Reply, int]:
        form = {"grant_type": "authorization_code", "code": grant.code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
        answer, unanswered = await self.post("/token", **form)
        self.ledger.unanswered["redemptions"] += unanswered
        return answer, unanswered

    async def _refresh(self, token: str) -> tuple[Reply, int]:
        answer, unanswered = await self.post("/token", grant_type="refresh_token", refresh_token=token)
        self.ledger.unanswered["rotations"] += unanswered
        return answer, unanswered

    async def userinfo(self, access_token: str) -> int:
        return (await self.repeated("GET", "/userinfo", headers={"Authorization": f"Bearer {access_token}"}))[0].status

    async def is_refused(self, grant: Grant) -> bool:
        """Whether the newest refresh token is worth nothing."""
        return refused((await self._refresh(grant.refresh[-1]))[0])

    async def authorize(self, parameters: dict[str, str]) -> tuple[Reply, int]:
        """By POST: aiohttp sends a GET once more by itself when the connection breaks."""
        return await self.repeated("POST", "/authorize", data=parameters)

    async def post(self, path: str, **form: str) -> tuple[Reply, int]:
        return await self.repeated("POST", path, data={"client_id": self.client_id, **form})

    async def repeated(self, method: str, path: str, **options: Any) -> tuple[Reply, int]:
        """The answer, and how many times there was none before."""
        unanswered = 0
        while (answer := await self.ask(method, path, **options)) is None:
            unanswered += 1
        return answer, unanswered

    def request(self, way: str, **more: str) -> dict[str, str]:
        """An authorization request; its nonce is found in the row of its code."""
        return {
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid offline_access",
            "nonce": f"{way} {secrets.token_hex(8)}",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **more,
        }


async def keep(_: Grant) -> None:
    """The tokens stay."""


def code_of(location: str) -> str:
    assert location.startswith(CALLBACK), location
    return dict(parse_qsl(urlsplit(location).query))["code"]


def refused(answer: Reply) -> bool:
    return answer.status == 400 and answer.json["error"] == "invalid_grant"


@pytest.mark.timeout(300)
async def test_f03_a_spread_of_kills_gives_no_code_and_no_refresh_token_twice(database_url, tmp_path, record_property):
    record_property("figures", await kill(database_url, tmp_path, SPREAD))


@ALL
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("point", POINTS)
async def test_f03_two_hundred_kills_around_tokens_at_each_point(database_url, tmp_path, record_property, point):
    chosen = random.Random(point)
    plan = [(point, chosen.randint(1, 20) * OFTEN.get(point, 1)) for _ in range(KILLS // len(GRACES))]
    record_property("figures", await kill(database_url, tmp_path, plan))


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> str:
    """Carry out the plan with each grace under load, and check the invariants."""
    service, ledger = Identity(folder, database, plugins=PLUGINS, tokens={"code_ttl": 600, "par_ttl": 600}), Ledger()
    async with service.warm(), forgetful() as http:
        visitor = Visitor(service, http)
        assert await service.start()
        await visitor.login()
        clients = [await register(visitor) for _ in range(PARTIES)]
        for grace in GRACES:
            assert await service.end() == {"code": 0}
            service.document["tokens"]["refresh_grace_seconds"] = grace
            async with parties(visitor, ledger, clients, grace):
                for point, hit in plan:
                    await service.start(f"{point}:kill:{hit}")
                    await service.killed()
                assert await service.start()
        await asyncio.gather(*(check_grant(grant) for grant in ledger.grants))
        assert await service.end() == {"code": 0}
    with rows_of(database) as ask:
        check_codes(ask, ledger)
        check_families(ask, ledger)
        check_audit(ask, ledger)
    ends = Counter(grant.ended or "live" for grant in ledger.grants)
    assert len(ends) == 4
    lost = {name: number for name, number in ledger.unanswered.items() if number}
    return f"{len(plan) * len(GRACES)} kills, {len(ledger.grants)} codes, without an answer {lost}, {dict(ends)}"


async def register(visitor: Visitor) -> str:
    """The id of a new client."""
    body = {"token_endpoint_auth_method": "none", "redirect_uris": [CALLBACK], "scopes": ["openid", "offline_access"]}
    answer = await visitor.ask("POST", "/api/admin/clients", json=body)
    assert answer is not None
    assert answer.status == 201, answer
    return str(answer.json["client_id"])


@asynccontextmanager
async def parties(visitor: Visitor, ledger: Ledger, clients: list[str], grace: int) -> AsyncIterator[None]:
    """Relying parties at work. At the end of the block each finishes what it is at; the service must be up then."""
    working = [RelyingParty(visitor, ledger, client_id, grace) for client_id in clients]
    async with asyncio.TaskGroup() as group:
        for party in working:
            group.create_task(party.work())
        yield
        for party in working:
            party.stop = True


async def check_grant(grant: Grant) -> None:
    """After the last restart: what was acknowledged works, and what was ended stays so (I4, I6)."""
    for token in grant.access:
        assert await grant.party.userinfo(token) == (401 if grant.ended else 200)
    if not grant.ended:
        await grant.party.rotate(grant)
    elif grant.refresh:
        assert await grant.party.is_refused(grant)


def check_codes(ask: Ask, ledger: Ledger) -> None:
    """I3: what was redeemed is used, nothing else is, and what gives a single code gave no second one."""
    used = {bytes(digest) for (digest,) in ask("SELECT digest FROM idp_code WHERE used_at IS NOT NULL")}
    assert used == {digest_of(grant) for grant in ledger.grants}
    given = Counter(nonce for (nonce,) in ask("SELECT nonce FROM idp_code WHERE nonce NOT LIKE 'plain%'"))
    assert set(given.values()) == {1}


def check_families(ask: Ask, ledger: Ledger) -> None:
    """I3: a code opened one family. I4: what was committed and not acknowledged is the one rotation whose answer was lost."""
    rows = [
        (bytes(origin), generation, end is None) for origin, generation, end in ask("SELECT origin, generation, revoked_at FROM idp_family")
    ]
    assert len(rows) == len(ledger.grants)
    families = {origin: (generation, live) for origin, generation, live in rows}
    for grant in ledger.grants:
        generation = max(1, len(grant.refresh)) + grant.lost
        assert families[digest_of(grant)] == (generation, not grant.ended)


def check_audit(ask: Ask, ledger: Ledger) -> None:
    """I8: every end of a family has one event, the one of its cause; so have consents and repeated codes."""
    family_of = {bytes(origin): id for id, origin in ask("SELECT id, origin FROM idp_family")}
    events = ask("SELECT event_type, detail FROM core_audit WHERE service = 'idp'")
    told = Counter((event_type, found[1]) for event_type, detail in events if (found := re.fullmatch("family (.*)", detail or "")))
    assert told == Counter((grant.ended, family_of[digest_of(grant)]) for grant in ledger.grants if grant.ended)
    number = Counter(event_type for event_type, _ in events)
    assert ledger.code_replays <= number["code_replay"] <= ledger.code_replays + ledger.unanswered["redemptions"]
    assert ledger.consents <= number["consent_granted"]
    assert ask("SELECT count(*) FROM idp_authorization WHERE kind = 'pending' AND used_at IS NOT NULL") == [(number["consent_granted"],)]


def digest_of(grant: Grant) -> bytes:
    return sha256(grant.code.encode()).digest()
