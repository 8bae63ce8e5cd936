"""Orders, authorizations and challenges against a model of RFC 8555 s7.1.6, on a real database."""

import uuid
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from greatseal.api.acme import VALID, AccountView, Attempt, ChallengeValidator, Identifier, RejectedIdentifier, Unauthorized, Verdict
from greatseal.api.issuance import IdentifierType, Profile
from greatseal.api.problems import IncorrectResponse, Problem
from greatseal.jose.jwk import thumbprint
from greatseal.testing import FakeClock
from greatseal.testing.store import open_test_database
from greatseal_acme import tables as t
from greatseal_acme.accounts import Accounts
from greatseal_acme.authorizations import Authorizations
from greatseal_acme.challenges import Answer, Challenges
from greatseal_acme.finalize import CLAIM, FINISH, REOPEN
from greatseal_acme.limits import OrderLimits
from greatseal_acme.new_authz import GivenDomain, GivenIdentifier, NewAuthorizations, NewAuthz
from greatseal_acme.orders import LAPSE, NewOrder, Orders
from greatseal_acme.protocol.objects import encode
from greatseal_acme.protocol.urls import Paths
from greatseal_acme.settings import Acme, AcmeServer

HOUR = 3600
CA = "default"
JWK = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}


class Word(ChallengeValidator):
    type = "word-01"
    identifier_types = frozenset({"dns"})

    async def validate(self, attempt: Attempt) -> Verdict:
        return VALID


class Names(IdentifierType):
    type = "dns"

    def canonical(self, value: str) -> str:
        return value

    def general_name(self, value: str) -> x509.GeneralName:
        return x509.DNSName(value)

    def of(self, name: x509.GeneralName) -> str | None:
        return str(name.value)


class Profiles:
    def profile(self, requested: str | None, ca_id: str | None = None) -> Profile:
        return Profile(id="default", description="", issue_as="x509", ca_id="default", validity_days=90, eku=("serverAuth",))

    def check_validity(self, profile: Profile, not_before: int | None, not_after: int | None) -> None:
        """Grants every wish."""

    def check_identifier(self, profile: Profile, identifier: Identifier) -> None:
        """Certifies every name but one."""
        if identifier.value == "barred.example":
            raise RejectedIdentifier("the name is none of the CA's")


class Bench:
    """The parts of the service over a database, without HTTP, CA and queue."""

    def __init__(self, host: Any, account: AccountView) -> None:
        paths = Paths("http://localhost", ["default"], "default", scoped=False)
        self.clock: FakeClock = host.clock
        self.db = host.db
        self.account = account
        limits = OrderLimits(host)
        self.authorizations = Authorizations(host, paths)
        self.new = NewAuthorizations(host, Profiles(), self.authorizations, limits)
        self.orders = Orders(host, Profiles(), self.new, limits, profiles={})
        self.challenges = Challenges(host, paths, Accounts(host, paths), self.authorizations)


@pytest.fixture
async def bench(tmp_path) -> AsyncIterator[Bench]:
    clock = FakeClock(1_800_000_000_000_000)
    async with open_test_database(f"sqlite:///{tmp_path}/states.db", t.SCHEMA, clock=clock) as db:
        structs: Mapping[type, Any] = {AcmeServer: AcmeServer(order_expiry_secs=3 * HOUR, authz_expiry_secs=2 * HOUR), Acme: Acme()}
        handles = SimpleNamespace(new_id=lambda: str(uuid.uuid4()))
        host = SimpleNamespace(
            db=db,
            clock=clock,
            node_id="n1",
            handles=handles,
            changes=SimpleNamespace(cache=lambda kind, load: SimpleNamespace(get=None)),  # nothing here reads an account
            settings=structs.__getitem__,
            limits=SimpleNamespace(hit=lambda *_: None),
            components=lambda contract: {ChallengeValidator: {"word-01": Word()}, IdentifierType: {"dns": Names()}}.get(contract, {}),
        )
        id = handles.new_id()
        fields = {"status": "valid", "thumbprint": thumbprint(JWK), "jwk": encode(JWK), "contact": "[]", "terms_agreed": 0}
        await db.write(lambda tx: tx.put(t.ACCOUNT, id, **fields, created_at=tx.now))
        yield Bench(host, AccountView(id=id, url="http://localhost/acme/account/1", status="valid", thumbprint=fields["thumbprint"]))


class Model:
    """What RFC 8555 s7.1.6 says about one order of two names."""

    def __init__(self) -> None:
        self.order = "pending"
        self.authorizations = ["pending", "pending"]
        self.challenges = ["pending", "pending"]
        self.hours = 0

    def seen(self) -> tuple[str, list[str]]:
        """Statuses as they are shown: with what time did."""
        expired = self.hours >= 2
        order = "invalid" if expired and self.order in {"pending", "ready"} else self.order
        return order, ["expired" if expired and one in {"pending", "valid"} else one for one in self.authorizations]

    def accept(self, at: int) -> bool:
        if self.seen()[1][at] != "pending" or self.challenges[at] != "pending":
            return False
        self.challenges[at] = "processing"
        return True

    def decide(self, at: int, *, good: bool) -> bool:
        if self.challenges[at] != "processing":
            return False
        good = good and self.seen()[1][at] in {"pending", "valid"}
        self.challenges[at] = "valid" if good else "invalid"
        if self.authorizations[at] == "pending":
            self.authorizations[at] = self.challenges[at]
            if good and self.order == "pending" and self.authorizations == ["valid", "valid"]:
                self.order = "ready"
            if not good and self.order in {"pending", "ready"}:
                self.order = "invalid"
        return True

    def deactivate(self, at: int) -> bool:
        if self.authorizations[at] == "deactivated":
            return True
        if self.seen()[1][at] not in {"pending", "valid"}:
            return False
        self.authorizations[at] = "deactivated"
        if self.order in {"pending", "ready"}:
            self.order = "invalid"
        return True

    def claim(self) -> bool:
        if self.seen()[0] != "ready":
            return False
        self.order = "processing"
        return True

    def end(self, status: str) -> bool:
        if self.order != "processing":
            return False
        self.order = status
        return True


PLACES = st.integers(0, 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            PLACES, st.sampled_from([("accept",), ("valid",), ("invalid",), ("accept", "valid"), ("accept", "invalid"), ("deactivate",)])
        ),
        st.tuples(
            PLACES, st.sampled_from([("hour",), ("hour", "hour", "claim"), ("hour", "hour", "valid"), ("claim",), ("claim", "finish")])
        ),
        st.tuples(PLACES, st.sampled_from([("reopen",), ("finish",)])),
    ),
    min_size=2,
    max_size=8,
)
PROVEN = [(0, ("accept", "valid")), (1, ("accept", "valid"))]
"""What most interesting cases begin with."""


class Driver:
    """Takes the steps on the database."""

    def __init__(self, bench: Bench, order_id: str, authorizations: tuple[str, ...], challenges: list[str]) -> None:
        self.bench = bench
        self.order_id = order_id
        self.authorizations = authorizations
        self.challenges = challenges

    async def step(self, name: str, at: int) -> bool | None:
        db = self.bench.db
        match name:
            case "accept":
                answer = Answer(
                    authorization_id=self.authorizations[at], type="word-01", account_id=self.bench.account.id, ca_id=CA, payload={}
                )
                return (await db.write(self.bench.challenges._accept, answer))[1]
            case "valid" | "invalid":
                problem = None if name == "valid" else IncorrectResponse("wrong word")
                return await db.write(self.bench.challenges.decide, self.challenges[at], problem)
            case "deactivate":
                try:
                    await self.bench.authorizations.deactivate(self.authorizations[at], self.bench.account, CA)
                except Problem:
                    return False
                return True
            case "hour":
                self.bench.clock.advance(HOUR)
                return None
        values = {"order_id": self.order_id}
        if name == "claim":
            return await db.write(lambda tx: tx.count(CLAIM, **values, now=tx.now, new_certificate="c")) == 1
        statement = FINISH if name == "finish" else REOPEN
        return await db.write(lambda tx: tx.count(statement, **values, certificate="c")) == 1

    async def seen(self) -> tuple[str, list[str], list[str]]:
        order = await self.bench.orders.get(self.order_id, self.bench.account, CA)
        found = [await self.bench.authorizations.get(id, self.bench.account, CA) for id in self.authorizations]
        return order.status, [one.status for one in found], [one.challenges[0].challenge.status for one in found]


def expected(model: Model, name: str, at: int) -> bool | None:
    match name:
        case "accept":
            return model.accept(at)
        case "valid" | "invalid":
            return model.decide(at, good=name == "valid")
        case "deactivate":
            return model.deactivate(at)
        case "claim":
            return model.claim()
        case "finish" | "reopen":
            return model.end("valid" if name == "finish" else "ready")
    model.hours += 1
    return None


@given(st.sampled_from([[], [(0, ("accept",))], PROVEN]), STEPS)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_ca_084_every_step_does_what_the_rfc_says(bench, first, then):
    names = (GivenIdentifier("dns", "a.example"), GivenIdentifier("dns", "b.example"))
    made = await bench.orders.make(NewOrder(identifiers=names), bench.account, CA)
    found = [await bench.authorizations.get(id, bench.account, CA) for id in made.authorizations]
    driver = Driver(bench, made.id, made.authorizations, [one.challenges[0].challenge.id for one in found])
    model = Model()
    for at, name in ((at, name) for at, names in [*first, *then] for name in names):
        assert await driver.step(name, at) == expected(model, name, at), (name, at)
        assert await driver.seen() == (*model.seen(), model.challenges), (name, at)


@pytest.fixture
async def ready(bench) -> Driver:
    """An order that may be claimed."""
    made = await bench.orders.make(NewOrder(identifiers=(GivenIdentifier("dns", "a.example"),)), bench.account, CA)
    (authorization,) = [await bench.authorizations.get(id, bench.account, CA) for id in made.authorizations]
    driver = Driver(bench, made.id, made.authorizations, [authorization.challenges[0].challenge.id])
    assert await driver.step("accept", 0)
    assert await driver.step("valid", 0)
    return driver


@pytest.mark.parametrize(
    "change",
    {
        "the order is pending": lambda tx, bench: tx.run(update(t.order).values(status="pending")),
        "the order is too old": lambda tx, bench: tx.run(update(t.order).values(expires_at=bench.clock.now())),
        "its authorization is not valid": lambda tx, bench: tx.run(update(t.authorization).values(status="deactivated")),
        "its authorization is too old": lambda tx, bench: tx.run(update(t.authorization).values(expires_at=bench.clock.now())),
        "its account is not valid": lambda tx, bench: tx.put(t.ACCOUNT, bench.account.id, status="deactivated"),
        "it was claimed": lambda tx, bench: tx.run(CLAIM, order_id=tx.one(select(t.order)).id, now=tx.now, new_certificate="other"),
    }.items(),
    ids=lambda change: change[0],
)
async def test_a_claim_takes_nothing_else_than_a_live_ready_order(bench, ready, change):
    await bench.db.write(change[1], bench)

    assert not await ready.step("claim", 0)


async def test_a_claim_is_ended_once_and_by_whoever_has_it(bench, ready):
    assert await ready.step("claim", 0)

    for statement in (FINISH, REOPEN):
        assert await bench.db.write(lambda tx, one=statement: tx.count(one, order_id=ready.order_id, certificate="other")) == 0
    assert await ready.step("finish", 0)
    assert not await ready.step("finish", 0)
    assert not await ready.step("reopen", 0)


async def test_an_order_that_is_made_is_the_order_that_is_read(bench):
    made = await bench.orders.make(
        NewOrder(identifiers=(GivenIdentifier("dns", "A.example"),), not_after="2027-02-01T00:00:00Z"), bench.account, CA
    )

    assert await bench.orders.get(made.id, bench.account, CA) == made


async def test_what_the_ca_cannot_certify_is_refused_before_anything_is_proven(bench):
    with pytest.raises(RejectedIdentifier):
        await bench.orders.make(NewOrder(identifiers=(GivenIdentifier("dns", "barred.example"),)), bench.account, CA)
    with pytest.raises(RejectedIdentifier):
        await bench.new.ask(NewAuthz(GivenDomain("dns", "barred.example")), bench.account, CA)


async def test_an_account_that_was_deactivated_meanwhile_gets_nothing_new(bench):
    await bench.db.write(lambda tx: tx.put(t.ACCOUNT, bench.account.id, status="deactivated"))

    with pytest.raises(Unauthorized):
        await bench.orders.make(NewOrder(identifiers=(GivenIdentifier("dns", "a.example"),)), bench.account, CA)
    with pytest.raises(Unauthorized):
        await bench.new.ask(NewAuthz(GivenDomain("dns", "a.example")), bench.account, CA)


async def test_an_order_whose_time_is_over_is_noted_as_that_and_no_other(bench, ready):
    await bench.db.write(lambda tx: tx.run(update(t.order).values(status="valid")))

    assert await bench.db.write(lambda tx: tx.count(LAPSE, order_id=ready.order_id, error="{}")) == 0


async def test_an_order_whose_time_is_over_before_that_of_its_authorizations_is_invalid(bench, ready):
    await bench.db.write(lambda tx: tx.run(update(t.order).values(expires_at=bench.clock.now())))

    found = await bench.orders.get(ready.order_id, bench.account, CA)

    assert (found.status, found.error["detail"]) == ("invalid", "the order expired")
