"""Parameters and registrations by tables, the grant by its contract, and what transactions refuse."""

from collections import Counter
from contextlib import nullcontext, suppress
from itertools import count
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.authorization import Authorization
from greatseal.api.clients import Client, ClientMatch, InvalidClientMetadata, ProvenRequest, Registration
from greatseal.api.directory import AccountState, User
from greatseal.api.http import Parameters
from greatseal.api.identity import SessionView
from greatseal.api.problems import BadRequest, Conflict, NotFound, Problem, RateLimited
from greatseal.api.store import Refuse
from greatseal.api.tokens import AuthorizationPending, InvalidGrant, UnauthorizedClient
from greatseal.polling import Pace
from greatseal.testing import FakeClock
from greatseal.testing.calls import FakeCall
from greatseal.testing.clients import FakeClients
from greatseal.testing.directories import FakeDirectories
from greatseal.testing.extensions import FakeAuthorizations
from greatseal.testing.schema import schema_matches
from greatseal.testing.store import open_test_database
from greatseal.testing.tokens import GrantContract
from greatseal_ciba import parameters
from greatseal_ciba.decisions import Decisions
from greatseal_ciba.endpoint import CibaEndpoint
from greatseal_ciba.grant import CibaGrant
from greatseal_ciba.parameters import InvalidBindingMessage, UnknownUserId, Wanted
from greatseal_ciba.plugin import owner_of_id
from greatseal_ciba.registration import GRANT_TYPE, CibaRegistration, is_endpoint
from greatseal_ciba.requests import CibaRequests
from greatseal_ciba.settings import CibaTokens
from greatseal_ciba.tables import SCHEMA

BANK = Client(
    client_id="bank",
    token_endpoint_auth_method="client_secret_post",
    scopes=("openid",),
    grant_types=(GRANT_TYPE,),
    more={"backchannel_token_delivery_mode": "poll"},
)
PINGED = Client(client_id="p", token_endpoint_auth_method="client_secret_post", more={"backchannel_token_delivery_mode": "ping"})
ASKED = Authorization(client_id="bank", scopes=("openid",))
WANTED = Wanted(hint=("login_hint", "ann"), binding_message=None, expiry=None, notification_token=None)
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


@pytest.mark.parametrize(
    ("uri", "good"),
    [
        ("https://rp.example/cb", True),
        ("https://rp.example:8443/cb?x=1", True),
        ("http://localhost:1/cb", True),
        ("http://127.0.0.1/cb", True),
        ("http://[::1]/cb", True),
        ("http://rp.example/cb", False),
        ("http://localhost.example/cb", False),
        ("ftp://localhost/cb", False),
        ("https://rp.example/" + "a" * 2000, False),
        ("https://rp.example/ä", False),
        ("https://rp.example/\x7f", False),
        ("https://rp.example/a b", False),
        ("https://rp.example/#a", False),
        ("https://rp.example/#", False),
        ("https://[::1/cb", False),
        ("https://rp.example:x/cb", False),
        ("https:///cb", False),
        ("rp.example", False),
        ("", False),
    ],
)
def test_where_pings_may_go(uri, good):
    assert is_endpoint(uri) is good


@given(st.text())
def test_every_text_is_an_endpoint_or_none(uri):
    assert is_endpoint(uri) in {True, False}


@pytest.mark.parametrize(
    ("sent", "client", "refused"),
    [
        ({}, BANK, BadRequest),
        ({"login_hint": "a", "id_token_hint": "b"}, BANK, BadRequest),
        ({"login_hint_token": "a"}, BANK, BadRequest),
        ({"login_hint": "a", "binding_message": "x" * 100}, BANK, None),
        ({"login_hint": "a", "binding_message": "x" * 101}, BANK, InvalidBindingMessage),
        ({"login_hint": "a", "binding_message": "\u202ex"}, BANK, InvalidBindingMessage),
        ({"login_hint": "a", "requested_expiry": "007"}, BANK, None),
        ({"login_hint": "a", "requested_expiry": "0"}, BANK, BadRequest),
        ({"login_hint": "a", "requested_expiry": "1\n"}, BANK, BadRequest),
        ({"login_hint": "a", "requested_expiry": "٣"}, BANK, BadRequest),
        ({"login_hint": "a"}, PINGED, BadRequest),
        ({"login_hint": "a", "client_notification_token": "a=="}, PINGED, None),
        ({"login_hint": "a", "client_notification_token": "a" * 1025}, PINGED, BadRequest),
        ({"login_hint": "a", "client_notification_token": "a\r\nX: y"}, PINGED, BadRequest),
        ({"login_hint": "a", "client_notification_token": "no matter"}, BANK, None),
    ],
)
def test_what_may_be_asked(sent, client, refused):
    with pytest.raises(refused) if refused else nullcontext() as raised:
        wanted = parameters.read(Parameters(sent.items()), client)

    if refused is None:
        assert wanted.notification_token == (sent["client_notification_token"] if client is PINGED else None)
    else:
        assert type(raised.value) is refused


@given(st.dictionaries(st.sampled_from([*parameters.HINTS, "binding_message", "requested_expiry", "client_notification_token"]), st.text()))
def test_whatever_is_asked_is_read_or_refused(sent):
    with suppress(BadRequest):
        assert parameters.read(Parameters(sent.items()), PINGED).hint[0] in parameters.HINTS


class Handles:
    """Those of the node n1."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def mint(self, kind: str) -> str:
        return f"{kind}_n1_{next(self._numbers):032}"

    def new_id(self) -> str:
        return f"id-{next(self._numbers)}"

    def node_of(self, handle: str, kind: str) -> str | None:
        return "n1" if handle.startswith(f"{kind}_n1_") and len(handle) == len(kind) + 36 else None

    def owner_of_id(self, id: str) -> str:
        return f"of {id}"


class Limits:
    """One window, which never ends."""

    def __init__(self) -> None:
        self._counted = Counter[tuple[str, str]]()

    def hit(self, bucket: str, key: str, limit: int, window: float) -> int | None:
        if limit and self._counted[bucket, key] >= limit:
            return round(window)
        self._counted[bucket, key] += 1
        return None


class Flow:
    """The parts over a database of their own."""

    def __init__(self, store: Any, clock: FakeClock) -> None:
        self.clock = clock
        self.events: list[str] = []
        self.host: Any = SimpleNamespace(db=store, clock=clock, handles=Handles(), limits=Limits(), audit_log=self._told)
        self.authorizations = FakeAuthorizations(clients=[BANK])
        self.clients = FakeClients(BANK, secrets={"bank": "s"})
        self.people = FakeDirectories(User(username="ann", realm="EXAMPLE", source="file"))
        self.requests = CibaRequests(self.host, self.authorizations, CibaTokens(), lambda: None)
        self.decisions = Decisions(self.authorizations, self.clients, self.requests)
        self.grant = CibaGrant(self.host, self.requests, self.authorizations, Pace(clock, 5))

    async def _told(self, event: Any) -> None:
        self.events.append(event.event_type)

    def endpoint(self, most: int = 0) -> CibaEndpoint:
        return CibaEndpoint(self.host, self.clients, self.people, self.authorizations, self.requests, most=most)

    async def begun(self) -> tuple[str, Any]:
        """The handle of a request to ann, and the request as she sees it."""
        handle = (await self.requests.begin(ASKED, WANTED, ANN.subject)).auth_req_id
        return handle, await self.decisions.show(FakeCall(), ANN, (await self.decisions.all(ANN))[0].waiting.id)

    async def approved(self) -> str:
        handle, shown = await self.begun()
        await self.requests.approve(shown.waiting, shown.proposal, ANN)
        return handle


@pytest.fixture
async def flow(tmp_path):
    clock = FakeClock()
    async with open_test_database(f"sqlite:///{tmp_path}/ciba.db", SCHEMA, clock=clock) as store:
        yield Flow(store, clock)


def test_the_migrations_make_the_declared_tables(database_url):
    assert schema_matches(SCHEMA, database_url) == []


def poll_of(handle: str) -> ProvenRequest:
    form = Parameters([("grant_type", GRANT_TYPE), ("auth_req_id", handle)])
    return ProvenRequest(call=FakeCall("POST"), form=form, client=BANK, match=ClientMatch(subject="bank"))


class TestCibaGrant(GrantContract):
    @pytest.fixture(autouse=True)
    def _flow(self, flow):
        self.flow = flow

    def grant(self):
        return self.flow.grant

    def database(self):
        return self.flow.host.db

    async def request(self):
        return poll_of(await self.flow.approved())


async def test_of_polls_that_were_prepared_one_is_redeemed(flow):
    handle, shown = await flow.begun()
    with pytest.raises(AuthorizationPending):
        await flow.grant.prepare(poll_of(handle))
    await flow.requests.approve(shown.waiting, shown.proposal, ANN)

    prepared = await flow.grant.prepare(poll_of(handle))

    assert (await flow.host.db.write(flow.grant.redeem, prepared)).subject == ANN.subject
    with pytest.raises(InvalidGrant):
        await flow.host.db.write(flow.grant.redeem, prepared)


def taken_back(_tx: Any, _granted: Any) -> None:
    raise Refuse(InvalidGrant("it was taken back"))


async def test_an_approval_that_cannot_be_redeemed_leaves_the_request(flow, monkeypatch):
    handle = await flow.approved()
    prepared = await flow.grant.prepare(poll_of(handle))
    monkeypatch.setattr(flow.authorizations, "redeem", taken_back)

    with pytest.raises(InvalidGrant):
        await flow.host.db.write(flow.grant.redeem, prepared)

    assert (await flow.requests.find(handle)).status == "approved"


async def test_one_decision_counts(flow):
    _, shown = await flow.begun()
    await flow.requests.deny(shown.waiting, ANN)

    for late in (flow.requests.approve(shown.waiting, shown.proposal, ANN), flow.requests.deny(shown.waiting, ANN)):
        with pytest.raises(Conflict):
            await late
    assert flow.authorizations.proposals == {}
    _, another = await flow.begun()
    flow.clock.advance(300)
    with pytest.raises(NotFound):
        await flow.requests.approve(another.waiting, another.proposal, ANN)


async def test_what_was_forgotten_meanwhile_is_unknown_to_client_and_person(flow):
    handle = await flow.approved()
    prepared = await flow.grant.prepare(poll_of(handle))
    _, shown = await flow.begun()
    flow.clock.advance(2 * 3600)
    await flow.requests.sweep()

    assert await flow.requests.find(handle) is None
    with pytest.raises(InvalidGrant):
        await flow.host.db.write(flow.grant.redeem, prepared)
    with pytest.raises(NotFound):
        await flow.requests.approve(shown.waiting, shown.proposal, ANN)


async def ask(flow: Flow, most: int = 0, hint: str = "ann") -> type[Problem] | None:
    content = f"client_id=bank&client_secret=s&scope=openid&login_hint={hint}".encode()
    try:
        await flow.endpoint(most).begin(FakeCall("POST", content=content))
    except Problem as problem:
        return type(problem)
    return None


@pytest.mark.parametrize("state", [AccountState(disabled=True), AccountState(locked=True), AccountState(expired=True)])
async def test_nobody_is_asked_who_may_not_sign_in(flow, state):
    flow.people.people["ben"] = User(username="ben", realm="EXAMPLE", source="file", state=state)

    assert [await ask(flow, hint=name) for name in ("ann", "ben", "nobody")] == [None, UnknownUserId, UnknownUserId]


async def test_a_name_that_is_none_is_looked_up_nowhere(flow):
    flow.people.down = True

    assert [await ask(flow, hint=name) for name in ("a" * 257, "%00")] == [UnknownUserId] * 2


async def test_a_client_that_proves_nothing_asks_nobody(flow):
    flow.clients.clients["bank"] = Client(
        client_id="bank", token_endpoint_auth_method="none", scopes=("openid",), grant_types=(GRANT_TYPE,), more=BANK.more
    )

    assert await ask(flow) is UnauthorizedClient


def test_only_an_administrator_registers_who_asks_people():
    registration, itself = CibaRegistration(), msgspec.structs.replace(BANK, source="dynamic")

    registration.check(Registration(client=BANK, open=False))
    registration.check(Registration(client=msgspec.structs.replace(itself, grant_types=()), open=True))
    for client, open in ((BANK, True), (itself, False)):
        with pytest.raises(InvalidClientMetadata, match="only an administrator"):
            registration.check(Registration(client=client, open=open))


@pytest.mark.parametrize("source", ["dynamic", "document"])
async def test_a_client_that_registered_itself_asks_nobody(flow, source):
    flow.clients.clients["bank"] = msgspec.structs.replace(BANK, source=source)

    assert await ask(flow) is UnauthorizedClient


async def test_a_client_asks_a_person_so_often_and_no_oftener(flow):
    flow.people.people["ben"] = User(username="ben", realm="EXAMPLE", source="file")

    assert [await ask(flow, 2) for _ in range(5)] == [None] * 2 + [RateLimited] * 3
    assert await ask(flow, 2, "ben") is None
    assert flow.events == ["rate_limited"]
    assert [await ask(flow) for _ in range(5)] == [None] * 5


async def test_an_id_names_its_node(flow):
    call: Any = SimpleNamespace(path={"id": "x"})

    assert await owner_of_id(flow.host)(call) == "of x"
