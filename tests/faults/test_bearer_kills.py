"""Kills around assertions (RFC 7523): each gives one token at most, no token is without its record, and what was not answered tells why.

Programs bring assertions and write down what they got. One that got no answer is brought again: either it is used up, and its record is
there, or it was not, and gives its token now. None gives two.
"""

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from faults.identity import USER, Identity, Visitor
from faults.invariants import rows_of
from faults.test_exchange_kills import SECRET, register

from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import forgetful
from greatseal.testing.trust import signed

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ISSUER = "https://ci.example"
KEY = ec.generate_private_key(ec.SECP256R1())
PLUGINS = {"enabled": ["idp", "users-file", "resolver", "jwt-bearer"]}
TRUSTED = {"issuers": [{"issuer": ISSUER, "jwks": {"keys": [jwk_of(KEY.public_key())]}, "subject": "username"}]}
SPREAD = [(point, hit) for hit in (3, 9, 15) for point in ("db.commit", "db.committed")]
PROGRAMS = 4


class Program(Visitor):
    """``given`` is what each jti gave; ``lost`` are those without an answer that were used up."""

    def __init__(self, visitor: Visitor, client_id: str, number: int) -> None:
        super().__init__(visitor.service, visitor.http)
        self.proof = {"Authorization": "Basic " + b64encode(f"{client_id}:{SECRET}".encode()).decode()}
        self.number = number
        self.given: dict[str, str] = {}
        self.lost: list[str] = []
        self.stop = False

    async def work(self) -> None:
        count = 0
        while not self.stop:
            count += 1
            await self.bring(f"{self.number}-{count}")

    async def bring(self, jti: str) -> None:
        claims = {"iss": ISSUER, "sub": USER, "aud": self.service.url, "exp": int(time.time()) + 600, "jti": jti}
        form = {"grant_type": GRANT, "assertion": signed(KEY, claims)}
        again = False
        while (answer := await self.ask("POST", "/token", data=form, headers=self.proof)) is None:
            again = True
        if answer.status == 200:
            self.given[jti] = answer.json["access_token"]
            again = again or int(jti.partition("-")[2]) % 7 == 0
            repeated = await self.ask("POST", "/token", data=form, headers=self.proof) if again else None
            assert repeated is None or repeated.json["error"] == "invalid_grant", repeated
        else:
            assert (again, answer.json["error"]) == (True, "invalid_grant"), answer
            self.lost.append(jti)

    async def check(self) -> None:
        """What was given is live."""
        for token in [*self.given.values()][:: max(1, len(self.given) - 1)]:
            answer = await self.ask("POST", "/introspect", data={"token": token}, headers=self.proof)
            assert answer is not None
            assert answer.json["active"]


@pytest.mark.timeout(300)
async def test_a_spread_of_kills_gives_each_assertion_one_token_with_its_record(database_url, tmp_path, record_property):
    service = Identity(tmp_path, database_url, plugins=PLUGINS, jwt_bearer=TRUSTED)
    async with service.warm(), forgetful() as http:
        visitor = Visitor(service, http)
        assert await service.start()
        await visitor.login()
        made = [await register(visitor, grant_types=[GRANT], redirect_uris=None) for _ in range(PROGRAMS)]
        programs = [Program(visitor, client_id, number) for number, client_id in enumerate(made)]
        assert await service.end() == {"code": 0}
        async with working(programs):
            for point, hit in SPREAD:
                await service.start(f"{point}:kill:{hit}")
                await service.killed()
            assert await service.start()
        await asyncio.gather(*(one.check() for one in programs))
        assert await service.end() == {"code": 0}
    given = [jti for one in programs for jti in one.given]
    lost = [jti for one in programs for jti in one.lost]
    with rows_of(database_url) as ask:
        recorded = [detail.rpartition("jti=")[2] for (detail,) in ask("SELECT detail FROM core_audit WHERE event_type = 'jwt_bearer'")]
        struck = [key.rpartition(":")[2] for (key,) in ask("SELECT key FROM core_strike WHERE kind = 'jwt_bearer'")]
    assert sorted(recorded) == sorted([*given, *lost]), "one record for each assertion that was used up"
    assert sorted(struck) == sorted(recorded)
    assert len({token for one in programs for token in one.given.values()}) == len(given)
    record_property("figures", f"{len(SPREAD)} kills, {len(given)} tokens, {len(lost)} assertions used up without an answer")


@asynccontextmanager
async def working(programs: list[Program]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        for one in programs:
            group.create_task(one.work())
        yield
        for one in programs:
            one.stop = True
