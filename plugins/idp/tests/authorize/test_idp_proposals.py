"""Requests for authorization at endpoints of other plugins: what a person is asked, what is allowed, and what a grant makes of it."""

from typing import Any

import msgspec
import pytest

from greatseal.api.authorization import Authorization, LoginRequired, UnmetAuthenticationRequirements
from greatseal.api.clients import ClientMatch, ProvenRequest
from greatseal.api.http import Parameters
from greatseal.api.identity import AccessDenied
from greatseal.api.problems import BadRequest, NotFound
from greatseal.api.tokens import InvalidGrant, InvalidScope
from greatseal.testing import FakeClock
from greatseal.testing.calls import FakeCall
from greatseal.testing.people import people_of

ORIGIN = b"\1" * 32


class Approving:
    """The service, a client, and alice with a session."""

    def __init__(self, desk: Any, app: Any, clock: FakeClock) -> None:
        self.desk = desk
        self.app = app
        self.clock = clock
        self.service = desk.provider.proposals
        self.db = desk.service.host("idp").db
        self.asked = Authorization(client_id=app.client_id, scopes=("openid", "profile", "offline_access"), implied=("email",))
        self.session: Any = None

    async def sign_in(self) -> None:
        call = FakeCall(headers=[("Cookie", await self.desk.cookie("alice"))])
        self.session = await self.desk.provider.login.session(call)

    async def proposal(self, *, since: int | None = None, **changes: Any) -> Any:
        asked = msgspec.structs.replace(self.asked, **changes)
        return await self.service.propose(asked, self.session, since=since or self.clock.now() + 1, remote="192.0.2.1")

    async def allow(self, **changes: Any) -> None:
        until = self.clock.now() + 60_000_000
        await self.db.write(self.service.allow, await self.proposal(**changes), self.session, origin=ORIGIN, until=until)

    async def request(self) -> ProvenRequest:
        client = await self.desk.provider.clients.get(self.app.client_id)
        return ProvenRequest(call=FakeCall("POST"), form=Parameters(()), client=client, match=ClientMatch(subject=client.client_id))

    async def allowed(self) -> Any:
        return await self.service.allowed(await self.request(), ORIGIN)


@pytest.fixture
async def approving(open_idp: Any, register_app: Any) -> Any:
    clock = FakeClock()
    desk = await open_idp(clock=clock)
    made = Approving(desk, await register_app(desk, grant_types=["authorization_code", "refresh_token"]), clock)
    await made.sign_in()
    return made


async def test_a_proposal_says_what_is_asked_for(approving: Any) -> None:
    proposal = await approving.proposal()

    assert proposal.client.client_id == approving.app.client_id
    assert [(scope.name, bool(scope.description)) for scope in proposal.scopes] == [
        (name, True) for name in ("openid", "profile", "offline_access", "email")
    ]
    assert (proposal.shown, proposal.keys) == ((), ())
    assert await approving.service.shown(approving.asked, "alice@LOCALHOST") == ()


async def test_a_proposal_is_cut_to_what_may_be_granted_now(approving: Any) -> None:
    people = people_of(approving.desk.service)
    people.withheld = frozenset({"profile"})

    assert (await approving.proposal()).authorization.scopes == ("openid", "offline_access")
    with pytest.raises(InvalidScope):
        await approving.proposal(scopes=("groups",), implied=())
    people.shut = "authorize"
    with pytest.raises(AccessDenied):
        await approving.proposal()
    with pytest.raises(NotFound):
        await approving.proposal(client_id="gone")


async def test_a_sign_in_is_new_and_strong_enough_for_what_is_asked(approving: Any) -> None:
    signed_in = approving.session.signed_in_at
    approving.clock.advance(60)

    await approving.proposal(max_age=60)
    await approving.proposal(max_age=0, since=signed_in)
    await approving.proposal(acr=((approving.session.acr,), ("urn:strong", approving.session.acr)))
    with pytest.raises(LoginRequired):
        await approving.proposal(max_age=59)
    with pytest.raises(LoginRequired):
        await approving.proposal(acr=(("urn:strong",),))
    with pytest.raises(UnmetAuthenticationRequirements):
        await approving.proposal(acr=(("urn:strong",),), since=signed_in)
    approving.clock.step(-3600)
    with pytest.raises(LoginRequired):
        await approving.proposal(max_age=60)


async def test_an_approval_is_redeemed_once_and_remembered_as_a_consent(approving: Any) -> None:
    await approving.allow()

    granted = await approving.allowed()
    assert (granted.subject, granted.scopes, granted.implied) == ("alice@LOCALHOST", approving.asked.scopes, ("email",))
    assert (granted.origin, granted.more, granted.may_refresh) == (ORIGIN, {}, True)
    assert (granted.authentication.session_id, granted.authentication.auth_time) == (None, approving.session.auth_time)
    await approving.db.write(approving.service.redeem, granted)

    with pytest.raises(InvalidGrant):
        await approving.db.write(approving.service.redeem, granted)
    with pytest.raises(InvalidGrant):
        await approving.allowed()
    (event,) = await approving.desk.events("consent_granted")
    assert event.detail == "openid profile offline_access email"


async def test_an_approval_is_for_its_client_and_its_time(approving: Any, register_app: Any) -> None:
    with pytest.raises(InvalidGrant):
        await approving.allowed()
    await approving.allow()
    granted = await approving.allowed()
    approving.app = await register_app(approving.desk)
    with pytest.raises(InvalidGrant):
        await approving.allowed()

    approving.clock.advance(60)
    with pytest.raises(InvalidGrant):
        await approving.db.write(approving.service.redeem, granted)


async def test_an_approval_is_no_code_of_the_authorization_endpoint(approving: Any) -> None:
    await approving.allow()

    for code in (ORIGIN.hex(), ORIGIN.decode()):
        assert (await approving.app.redeem(code)).outcome == (400, "invalid_grant")
    assert (await approving.allowed()).origin == ORIGIN


async def test_a_session_or_client_that_is_gone_at_the_last_moment_allows_nothing(approving: Any) -> None:
    proposal = await approving.proposal()
    until = approving.clock.now() + 60_000_000

    async def allow() -> None:
        await approving.db.write(approving.service.allow, proposal, approving.session, origin=ORIGIN, until=until)

    await approving.desk.provider.login.end(approving.session.id)
    with pytest.raises(LoginRequired):
        await allow()
    await approving.sign_in()
    await approving.desk.provider.clients.delete(approving.app.client_id, by="test")
    with pytest.raises(NotFound):
        await allow()
    assert await approving.desk.events("consent_granted") == []


async def test_an_account_that_is_gone_redeems_nothing(approving: Any) -> None:
    await approving.allow()
    del people_of(approving.desk.service).users["alice"]

    with pytest.raises(InvalidGrant):
        await approving.allowed()


async def test_an_endpoint_with_parameters_of_its_own_opens_and_reads_a_request_in_two_steps(approving: Any) -> None:
    whole = await approving.request()
    request = msgspec.structs.replace(whole, form=Parameters([("scope", "openid"), ("max_age", "30")]))

    given = await approving.service.open(request, "backchannel")
    asked = await approving.service.read(request, "backchannel", given=Parameters([*given.items(), ("claims", '{"userinfo":{}}')]))

    assert dict(given) == {"scope": "openid", "max_age": "30"}
    assert (asked.scopes, asked.max_age, asked.claims) == (("openid",), 30, {"userinfo": {}})
    assert (await approving.service.read(request, "backchannel")).claims is None
    twice = msgspec.structs.replace(whole, form=Parameters([("scope", "openid"), ("scope", "openid")]))
    with pytest.raises(BadRequest):
        await approving.service.open(twice, "backchannel")


async def test_a_hint_is_an_id_token_of_the_client(approving: Any) -> None:
    client = (await approving.request()).client
    for hint in ("", "x", "a.b.c"):
        with pytest.raises(BadRequest):
            approving.service.hinted(hint, client)
