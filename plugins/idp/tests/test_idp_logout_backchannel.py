"""Back-channel logout notifications (OpenID Connect Back-Channel Logout 1.0)."""

import asyncio

import pytest

from greatseal.testing import FakeClock
from greatseal_idp import tables as t
from greatseal_idp.sessions.backchannel import QUEUE
from greatseal_idp.token.codes import note_client

START = 1_800_000_000_000_000
ALLOWED = {"allow_private_logout_hosts": True}


@pytest.fixture
def clock():
    return FakeClock(START)


async def signed_in(idp, *uris, alg=None):
    """A session of alice in which a client for each URI got an ID token; its cookie and id, and the clients' ids."""
    cookie = await idp.cookie()
    session = (await idp.rows(t.session))[-1].id
    clients = []
    for uri in uris:
        body = {"client_name": "App", "token_endpoint_auth_method": "none", "redirect_uris": ["http://localhost/cb"], "scopes": ["openid"]}
        body |= {"backchannel_logout_uri": uri} if uri else {}
        body |= {"id_token_signed_response_alg": alg} if alg else {}
        clients.append((await idp.provider.clients.register_body(body, open=False, by="test")).client.client_id)
    await idp.service.host("idp").db.write(lambda tx: [note_client(tx, session, client) for client in clients])
    return cookie, session, clients


async def delivered(idp):
    """The outcomes, once the deliveries that a logout began are through."""
    await idp.deliveries()
    return await idp.events("backchannel_logout_out")


@pytest.mark.parametrize("alg", [None, "RS256"])
async def test_a_logout_is_told_to_every_client_of_the_session(open_idp, clock, relying_party, alg):
    idp = await open_idp(clock=clock, oauth=ALLOWED)
    uri = f"{relying_party.url}/backchannel"
    cookie, session, clients = await signed_in(idp, uri, "", uri, alg=alg)

    assert (await idp.post("/api/auth/logout", cookie=cookie)).status == 204

    events = await delivered(idp)
    assert {(event.outcome, event.sub, event.client_id) for event in events} == {
        ("success", "alice@LOCALHOST", client) for client in (clients[0], clients[2])
    }
    claims = [idp.provider.signing.verify(token, typ=frozenset({"logout+jwt"})) for token in relying_party.tokens]
    now = START // 1_000_000
    assert {one["aud"] for one in claims} == {clients[0], clients[2]}
    assert claims[0] == {
        "iss": idp.url,
        "aud": claims[0]["aud"],
        "sub": "alice@LOCALHOST",
        "sid": session,
        "iat": now,
        "exp": now + 120,
        "jti": claims[0]["jti"],
        "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
    }
    assert claims[0]["jti"].startswith("n1/")
    assert claims[0]["jti"] != claims[1]["jti"]
    assert await idp.rows(t.notification) == []


async def test_a_client_that_is_down_is_told_again_three_times(open_idp, clock, relying_party):
    idp = await open_idp(clock=clock, oauth=ALLOWED)
    relying_party.status = 503
    cookie, _, _ = await signed_in(idp, f"{relying_party.url}/backchannel")
    await idp.post("/api/auth/logout", cookie=cookie)
    await delivered(idp)
    deliver = idp.provider.backchannel.deliver

    await deliver()
    assert len(relying_party.tokens) == 1  # not due yet
    for number, wait in enumerate((10, 60), 2):
        clock.advance(wait)
        await deliver()
        assert len(relying_party.tokens) == number
    (row,) = await idp.rows(t.notification)
    assert row.attempts == 3
    clock.advance(300)
    await deliver()

    assert len(relying_party.tokens) == 4
    assert await idp.rows(t.notification) == []
    events = await idp.events("backchannel_logout_out")
    assert [event.outcome for event in events] == ["failure"] * 4
    assert events[-1].detail == f"attempt 4: {relying_party.url}/backchannel answered with status 503"


async def test_what_one_client_did_not_take_puts_off_no_other(open_idp, clock, relying_party):
    idp = await open_idp(clock=clock, oauth=ALLOWED)
    cookie, session, clients = await signed_in(idp, f"{relying_party.url}/backchannel")
    relying_party.status = 503
    await idp.post("/api/auth/logout", cookie=cookie)
    due = START + 60_000_000
    other = {"id": "n1-other", "client_id": clients[0], "subject": "bob@LOCALHOST", "session_id": session, "attempts": 0, "due_at": due}
    await idp.service.host("idp").db.write(lambda tx: tx.run(QUEUE, **other, expires_at=START + 3_600_000_000))

    await delivered(idp)

    assert {row.id: row.due_at for row in await idp.rows(t.notification)}["n1-other"] == due


async def test_a_client_that_comes_back_is_told(open_idp, clock, relying_party):
    idp = await open_idp(clock=clock, oauth=ALLOWED)
    relying_party.status = 400
    cookie, _, _ = await signed_in(idp, f"{relying_party.url}/backchannel")
    await idp.post("/api/auth/logout", cookie=cookie)
    await delivered(idp)
    relying_party.status = 204
    clock.advance(10)

    await idp.provider.backchannel.deliver()

    assert [event.outcome for event in await idp.events("backchannel_logout_out")] == ["failure", "success"]
    assert await idp.rows(t.notification) == []


async def test_private_addresses_are_not_connected_to_unless_allowed(open_idp, clock, relying_party):
    idp = await open_idp(clock=clock)
    cookie, _, _ = await signed_in(idp, f"{relying_party.url}/backchannel")

    await idp.post("/api/auth/logout", cookie=cookie)

    (event,) = await delivered(idp)
    assert event.outcome == "failure"
    assert "not public" in event.detail
    assert relying_party.tokens == []


async def test_what_a_crash_left_behind_is_delivered_once_its_lease_is_over(open_idp, clock, relying_party):
    idp = await open_idp(clock=clock, oauth=ALLOWED)
    _, session, (client,) = await signed_in(idp, f"{relying_party.url}/backchannel")
    row = {"id": "left", "client_id": client, "subject": "alice@LOCALHOST", "session_id": session}
    row |= {"attempts": 1, "due_at": START + 60_000_000, "expires_at": START + 3_600_000_000}
    await idp.service.host("idp").db.write(lambda tx: tx.run(t.notification.insert().values(**row)))

    await idp.provider.backchannel.deliver()
    assert relying_party.tokens == []
    clock.advance(60)
    await asyncio.gather(*(idp.provider.backchannel.deliver() for _ in range(8)))

    assert len(relying_party.tokens) == 1
    assert await idp.rows(t.notification) == []


async def test_a_notification_of_a_client_that_was_deleted_is_dropped(open_idp, clock, relying_party):
    idp = await open_idp(clock=clock, oauth=ALLOWED)
    cookie, _, (client,) = await signed_in(idp, f"{relying_party.url}/backchannel")
    await idp.provider.clients.delete(client, by="test")

    await idp.post("/api/auth/logout", cookie=cookie)

    assert await delivered(idp) == []
    assert await idp.rows(t.notification) == []
    assert relying_party.tokens == []


async def test_what_was_put_off_by_a_clock_that_was_ahead_is_told_when_it_is_put_right(open_idp, clock, relying_party):
    idp = await open_idp(clock=clock, oauth=ALLOWED)
    clock.step(86_400)
    cookie, _, _ = await signed_in(idp, f"{relying_party.url}/backchannel")
    relying_party.status = 503
    await idp.post("/api/auth/logout", cookie=cookie)
    await delivered(idp)
    relying_party.status = 200

    clock.step(-86_400)
    await idp.provider.backchannel.deliver()

    assert [event.outcome for event in await idp.events("backchannel_logout_out")] == ["failure", "success"]
