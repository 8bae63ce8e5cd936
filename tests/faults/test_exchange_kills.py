"""Kills around the exchange of tokens (RFC 8693): no token without its record, none that was given is lost, and none is used up.

Services exchange the token of a person and write down what they got. A request that got no answer is repeated and succeeds, for nothing
is consumed; every token that was answered has an audit event, and what has an event and no answer is a request that was cut off.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from faults.identity import Identity, Visitor
from faults.invariants import rows_of
from faults.test_tokens import CALLBACK, code_of

from greatseal.testing.desk import CHALLENGE, VERIFIER, forgetful

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
SECRET = "s" * 43
PLUGINS = {"enabled": ["idp", "users-file", "token-exchange"]}
SPREAD = [(point, hit) for hit in (3, 9, 15) for point in ("db.commit", "db.committed")]
SERVICES = 4


class Service(Visitor):
    """Exchanges one token again and again; ``given`` are those that it got, ``unanswered`` counts requests without an answer."""

    def __init__(self, visitor: Visitor, client_id: str, subject_token: str) -> None:
        super().__init__(visitor.service, visitor.http)
        basic = b64encode(f"{client_id}:{SECRET}".encode()).decode()
        self.proof = {"Authorization": f"Basic {basic}"}
        self.form = {"grant_type": GRANT, "subject_token": subject_token, "subject_token_type": ACCESS_TOKEN}
        self.given: list[str] = []
        self.unanswered = 0
        self.stop = False

    async def work(self) -> None:
        while not self.stop:
            answer = await self.ask("POST", "/token", data=self.form, headers=self.proof)
            if answer is None:
                self.unanswered += 1
                continue
            assert answer.status == 200, answer
            self.given.append(answer.json["access_token"])

    async def check(self) -> None:
        """What was given is live."""
        for token in (self.given[0], self.given[-1]):
            answer = await self.ask("POST", "/introspect", data={"token": token}, headers=self.proof)
            assert answer is not None
            assert answer.json["active"]


@pytest.mark.timeout(300)
async def test_a_spread_of_kills_gives_no_token_without_its_record(database_url, tmp_path, record_property):
    service = Identity(tmp_path, database_url, plugins=PLUGINS)
    async with service.warm(), forgetful() as http:
        visitor = Visitor(service, http)
        assert await service.start()
        await visitor.login()
        subject = await token_of(visitor)
        made = [await register(visitor, grant_types=[GRANT], redirect_uris=None) for _ in range(SERVICES)]
        services = [Service(visitor, client_id, subject) for client_id in made]
        assert await service.end() == {"code": 0}
        async with working(services):
            for point, hit in SPREAD:
                await service.start(f"{point}:kill:{hit}")
                await service.killed()
            assert await service.start()
        await asyncio.gather(*(one.check() for one in services))
        assert await service.end() == {"code": 0}
    given, unanswered = sum(len(one.given) for one in services), sum(one.unanswered for one in services)
    with rows_of(database_url) as ask:
        ((recorded,),) = ask("SELECT count(*) FROM core_audit WHERE event_type = 'token_exchange'")
    assert given <= recorded <= given + unanswered
    assert len({token for one in services for token in one.given}) == given
    record_property("figures", f"{len(SPREAD)} kills, {given} tokens, {unanswered} requests without an answer, {recorded} records")


@asynccontextmanager
async def working(services: list[Service]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        for one in services:
            group.create_task(one.work())
        yield
        for one in services:
            one.stop = True


async def register(visitor: Visitor, **fields: object) -> str:
    body = {
        "token_endpoint_auth_method": "client_secret_basic",
        "client_secret": SECRET,
        "redirect_uris": [CALLBACK],
        "scopes": ["openid"],
        "consent": "implicit",
        **fields,
    }
    answer = await visitor.ask("POST", "/api/admin/clients", json=body)
    assert answer is not None
    assert answer.status == 201, answer
    return str(answer.json["client_id"])


async def token_of(visitor: Visitor) -> str:
    """An access token of the person."""
    client_id = await register(visitor)
    asked = {
        "client_id": client_id,
        "redirect_uri": CALLBACK,
        "response_type": "code",
        "scope": "openid",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    shown = await visitor.ask("POST", "/authorize", data=asked)
    assert shown is not None
    form = {"grant_type": "authorization_code", "code": code_of(shown.location), "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    basic = b64encode(f"{client_id}:{SECRET}".encode()).decode()
    answer = await visitor.ask("POST", "/token", data=form, headers={"Authorization": f"Basic {basic}"})
    assert answer is not None
    assert answer.status == 200, answer
    return str(answer.json["access_token"])
