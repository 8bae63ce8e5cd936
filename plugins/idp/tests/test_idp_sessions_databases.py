"""The way of a session on both databases."""

from greatseal.testing import FakeClock
from greatseal_idp import tables as t
from greatseal_idp.token.codes import note_client


async def test_a_session_begins_is_used_and_ends(open_idp, database_url, relying_party):
    idp = await open_idp(database={"url": database_url, "migrate": "auto"}, oauth={"allow_private_logout_hosts": True})
    body = {"client_name": "App", "token_endpoint_auth_method": "none", "redirect_uris": ["http://localhost/cb"], "scopes": ["openid"]}
    body["backchannel_logout_uri"] = f"{relying_party.url}/backchannel"
    client = (await idp.provider.clients.register_body(body, open=False, by="test")).client.client_id

    first = await idp.cookie()
    cookie = (await idp.login(cookie=first)).cookie
    (session,) = await idp.rows(t.session)
    await idp.service.host("idp").db.write(note_client, session.id, client)
    assert (await idp.get("/api/auth/me", cookie=first)).status == 401
    assert (await idp.get("/api/auth/me", cookie=cookie)).json["sub"] == "alice@LOCALHOST"
    assert (await idp.post("/api/auth/logout", cookie=cookie)).status == 204
    assert (await idp.get("/api/auth/me", cookie=cookie)).status == 401

    await idp.provider.backchannel.deliver()
    await idp.deliveries()
    assert len(relying_party.tokens) == 1
    assert await idp.rows(t.session) == []
    assert await idp.rows(t.notification) == []
    types = ("login_success", "logout", "backchannel_logout_out")
    assert [event.event_type for event in await idp.events(*types)] == [
        "login_success",
        "login_success",
        "logout",
        "backchannel_logout_out",
    ]


async def test_a_failed_sign_in_is_recorded_and_expired_sessions_are_swept(open_idp, database_url):
    clock = FakeClock()
    idp = await open_idp(clock=clock, database={"url": database_url, "migrate": "auto"}, session={"ttl": 1})
    await idp.login()
    clock.advance(1)
    assert (await idp.login("alice", "wrong")).status == 401

    await idp.provider.sessions.sweep()

    assert await idp.rows(t.session) == []
    assert len(await idp.events("login_failure")) == 1
