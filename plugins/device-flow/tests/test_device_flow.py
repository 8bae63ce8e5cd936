"""Codes, the grant by its contract, and what its transactions refuse."""

from collections import Counter
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.authorization import Authorization
from greatseal.api.clients import Client, ClientMatch, ProvenRequest
from greatseal.api.http import Parameters, Route
from greatseal.api.identity import SessionView
from greatseal.api.problems import Conflict, NotFound, Problem, RateLimited, Unavailable
from greatseal.api.store import Refuse
from greatseal.api.tokens import InvalidGrant
from greatseal.polling import Pace
from greatseal.testing import FakeClock
from greatseal.testing.calls import FakeCall
from greatseal.testing.extensions import FakeAuthorizations
from greatseal.testing.schema import schema_matches
from greatseal.testing.store import open_test_database
from greatseal.testing.tokens import GrantContract
from greatseal_device_flow import user_codes
from greatseal_device_flow.decisions import Decisions
from greatseal_device_flow.grant import GRANT_TYPE, DeviceCode
from greatseal_device_flow.limits import WRONG_OF_ADDRESS, WRONG_OF_SESSION, DeviceLimits
from greatseal_device_flow.owners import owner_of_user_code
from greatseal_device_flow.requests import DeviceRequests
from greatseal_device_flow.settings import DeviceTokens
from greatseal_device_flow.tables import SCHEMA

PAGE_ROUTE, API_ROUTE = (Route("POST", path, lambda _call: None) for path in ("/device", "/api/auth/device"))  # type: ignore[arg-type, return-value]
TV = Client(client_id="tv", token_endpoint_auth_method="none", scopes=("openid",), grant_types=(GRANT_TYPE,))
ASKED = Authorization(client_id="tv", scopes=("openid",))
ANN = SessionView(
    id="s1",
    subject="ann@EXAMPLE",
    username="ann",
    realm="EXAMPLE",
    groups=(),
    amr=("pwd",),
    acr=None,
    auth_time=1,
    signed_in_at=1,
    expires_at=2**62,
)


@pytest.mark.parametrize("typed", ["BCDF-GHJK", "bcdfghjk", " b c d f - g h j k ", "BCDF.GHJK\n", "BCDF-GHJK-"])
def test_a_code_is_read_in_whatever_way_it_is_typed(typed):
    assert user_codes.read(typed) == "BCDF-GHJK"


@pytest.mark.parametrize("typed", ["", "BCDF-GHJ", "BCDF-GHJKL", "ACDF-GHJK", "BCDF-GHJK" + "-" * 64, "ÇCDF-GHJK", "ßBCDFGHK"])
def test_what_is_no_code_is_none(typed):
    assert user_codes.read(typed) is None


@given(st.text())
def test_whatever_is_typed_is_a_code_or_none(typed):
    assert user_codes.read(typed) in {None, user_codes.read(user_codes.read(typed) or "")}


def test_codes_are_made_of_letters_that_make_no_words():
    made = {user_codes.make() for _ in range(100)}

    assert len(made) == 100
    assert all(user_codes.read(code) == code for code in made)


class Handles:
    """Those of the node n1."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def mint(self, kind: str) -> str:
        return f"{kind}_n1_{next(self._numbers):032}"

    def node_of(self, handle: str, kind: str) -> str | None:
        return "n1" if handle.startswith(f"{kind}_n1_") and len(handle) == len(kind) + 36 else None

    def owner_of_key(self, _key: str) -> str:
        return "n1"


class Limits:
    """One window, which never ends."""

    def __init__(self) -> None:
        self._counted = Counter[tuple[str, str]]()

    def hit(self, bucket: str, key: str, limit: int, window: float) -> int | None:
        if self._counted[bucket, key] >= limit:
            return round(window)
        self._counted[bucket, key] += 1
        return None

    def undo(self, bucket: str, key: str) -> None:
        self._counted[bucket, key] -= 1


class Flow:
    """The parts over a database of their own."""

    def __init__(self, store: Any, clock: FakeClock) -> None:
        self.clock = clock
        self.events: list[str] = []
        self.host: Any = SimpleNamespace(db=store, clock=clock, handles=Handles(), node_id="n1", limits=Limits(), audit_log=self._told)
        self.authorizations = FakeAuthorizations(clients=[TV])
        self.requests = DeviceRequests(self.host, self.authorizations, DeviceTokens())
        self.limits = DeviceLimits(self.host, 1)
        self.decisions = Decisions(self.authorizations, self.requests, self.limits)
        self.grant = DeviceCode(self.host, self.requests, self.authorizations, Pace(clock, 5))

    async def _told(self, event: Any) -> None:
        self.events.append(event.detail)

    async def approved(self) -> str:
        begun = await self.requests.begin(ASKED)
        await self.decisions.decide(FakeCall(), ANN, begun.user_code, "approve")
        return begun.device_code


@pytest.fixture
async def flow(tmp_path):
    clock = FakeClock()
    async with open_test_database(f"sqlite:///{tmp_path}/device.db", SCHEMA, clock=clock) as store:
        yield Flow(store, clock)


def test_the_migrations_make_the_declared_tables(database_url):
    assert schema_matches(SCHEMA, database_url) == []


def poll_of(code: str | None) -> ProvenRequest:
    form = Parameters([("grant_type", GRANT_TYPE), *([("device_code", code)] if code else [])])
    return ProvenRequest(call=FakeCall("POST"), form=form, client=TV, match=ClientMatch(subject="tv"))


class TestDeviceCode(GrantContract):
    @pytest.fixture(autouse=True)
    def _flow(self, flow):
        self.flow = flow

    def grant(self):
        return self.flow.grant

    def database(self):
        return self.flow.host.db

    async def request(self):
        return poll_of(await self.flow.approved())


async def test_the_memory_of_polls_is_bounded(monkeypatch):
    monkeypatch.setattr("greatseal.polling.MOST", 2)
    pace = Pace(FakeClock(), 5)

    assert [pace.poll(device) for device in (b"a", b"b", b"c", b"b", b"a", b"b")] == [None, None, None, 10, None, 15]
    pace.forget(b"b")
    assert pace.poll(b"b") is None


async def test_of_polls_that_were_prepared_one_is_redeemed_and_none_too_late(flow, monkeypatch):
    monkeypatch.setattr(flow.authorizations, "redeem", lambda _tx, _granted: None)
    code = await flow.approved()
    prepared = await flow.grant.prepare(poll_of(code))
    late = await flow.grant.prepare(poll_of(await flow.approved()))

    assert (await flow.host.db.write(flow.grant.redeem, prepared)).subject == ANN.subject
    with pytest.raises(InvalidGrant):
        await flow.host.db.write(flow.grant.redeem, prepared)
    with pytest.raises(InvalidGrant, match="unknown, used"):
        await flow.grant.prepare(poll_of(code))
    flow.clock.advance(600)
    with pytest.raises(InvalidGrant):
        await flow.host.db.write(flow.grant.redeem, late)


def taken_back(_tx: Any, _granted: Any) -> None:
    raise Refuse(InvalidGrant("it was taken back"))


async def test_an_approval_that_cannot_be_redeemed_leaves_the_code(flow, monkeypatch):
    code = await flow.approved()
    prepared = await flow.grant.prepare(poll_of(code))
    monkeypatch.setattr(flow.authorizations, "redeem", taken_back)

    with pytest.raises(InvalidGrant):
        await flow.host.db.write(flow.grant.redeem, prepared)

    assert (await flow.requests.find(code)).status == "approved"


async def test_one_decision_counts(flow):
    begun = await flow.requests.begin(ASKED)
    shown = await flow.decisions.show(FakeCall(), ANN, begun.user_code)
    await flow.requests.deny(shown.waiting, ANN)

    for late in (flow.requests.approve(shown.waiting, shown.proposal, ANN), flow.requests.deny(shown.waiting, ANN)):
        with pytest.raises(Conflict):
            await late
    assert flow.authorizations.proposals == {}
    another = await flow.decisions.show(FakeCall(), ANN, (await flow.requests.begin(ASKED)).user_code)
    flow.clock.advance(600)
    with pytest.raises(NotFound):
        await flow.requests.approve(another.waiting, another.proposal, ANN)


async def test_wrong_codes_are_counted_for_session_and_address_and_right_ones_are_not(flow):
    begun = await flow.requests.begin(ASKED)
    for _ in range(3 * WRONG_OF_ADDRESS):
        await flow.decisions.show(FakeCall(), ANN, begun.user_code)

    outcomes = [await outcome(flow, ANN, "BBBB-BBBB") for _ in range(WRONG_OF_SESSION)]
    assert outcomes == [NotFound] * WRONG_OF_SESSION
    assert await outcome(flow, ANN, begun.user_code) is RateLimited
    assert await outcome(flow, ANN, "x") is RateLimited
    for number in range(2, 5):
        of_another = SessionView(**{name: getattr(ANN, name) for name in ANN.__struct_fields__} | {"id": f"s{number}"})
        assert [await outcome(flow, of_another, "nonsense") for _ in range(WRONG_OF_SESSION)] == [NotFound] * WRONG_OF_SESSION
    fresh = SessionView(**{name: getattr(ANN, name) for name in ANN.__struct_fields__} | {"id": "s9"})
    assert await outcome(flow, fresh, begun.user_code) is RateLimited
    assert len(flow.events) == 2, "one event for each of the two, whatever number of refusals"


async def outcome(flow: Flow, session: SessionView, typed: str) -> type[Problem] | None:
    try:
        await flow.decisions.show(FakeCall(), session, typed)
    except Problem as problem:
        return type(problem)
    return None


async def test_requests_of_public_clients_are_limited_with_sign_ins(flow):
    for _ in range(10):
        await flow.limits.request("192.0.2.1")
    with pytest.raises(RateLimited):
        await flow.limits.request("192.0.2.1")
    await flow.limits.request("192.0.2.2")


async def test_user_codes_belong_to_the_node_that_the_device_asked(flow, monkeypatch):
    handles = flow.host.handles
    monkeypatch.setattr(handles, "owner_of_key", lambda code: "n1" if code < "H" else "n2")

    made = [(await flow.requests.begin(ASKED)).user_code for _ in range(20)]
    assert all(code < "H" for code in made)
    monkeypatch.setattr(handles, "owner_of_key", lambda _code: "n2")
    with pytest.raises(Unavailable):
        await flow.requests.begin(ASKED)


async def test_what_is_forgotten_leaves_in_bites(flow, monkeypatch):
    monkeypatch.setattr("greatseal.polling.BITE", 1)
    codes = [(await flow.requests.begin(ASKED)).device_code for _ in range(3)]

    flow.clock.advance(2 * 3600)
    await flow.requests.sweep()

    assert [await flow.requests.find(code) for code in codes] == [None] * 3


async def test_a_request_that_was_forgotten_between_preparation_and_transaction_is_unknown(flow):
    prepared = await flow.grant.prepare(poll_of(await flow.approved()))
    flow.clock.advance(2 * 3600)
    await flow.requests.sweep()

    with pytest.raises(InvalidGrant):
        await flow.host.db.write(flow.grant.redeem, prepared)


async def test_a_decision_about_what_was_forgotten_is_refused(flow):
    begun = await flow.requests.begin(ASKED)
    shown = await flow.decisions.show(FakeCall(), ANN, begun.user_code)
    flow.clock.advance(2 * 3600)
    await flow.requests.sweep()

    with pytest.raises(NotFound):
        await flow.requests.approve(shown.waiting, shown.proposal, ANN)


@pytest.mark.parametrize(
    ("call", "owner"),
    [
        (FakeCall(url="https://issuer.example/device?user_code=bcdfghjk"), "of BCDF-GHJK"),
        (FakeCall(url="https://issuer.example/device"), None),
        (FakeCall(url="https://issuer.example/device?user_code=a&user_code=b"), None),
        (FakeCall("POST", content=b"decision=deny&user_code=BCDF-GHJK", route=PAGE_ROUTE), "of BCDF-GHJK"),
        (FakeCall("POST", content=b"%ff", route=PAGE_ROUTE), None),
        (FakeCall("POST", content=b'{"user_code":"BCDF-GHJK","decision":"deny"}', route=API_ROUTE), "of BCDF-GHJK"),
        (FakeCall("POST", content=b'{"user_code":"x","decision":"deny"}', route=API_ROUTE), None),
    ],
)
async def test_a_call_about_a_user_code_is_for_the_node_that_it_names(call, owner):
    host: Any = SimpleNamespace(handles=SimpleNamespace(owner_of_key=lambda code: f"of {code}"))

    assert await owner_of_user_code(host)(call) == owner
