"""RP-initiated logout (OpenID Connect RP-Initiated Logout 1.0), in the variants of the conformance suite."""

import re
from urllib.parse import quote, urlencode

import pytest

from greatseal.api.clients import InvalidClientMetadata
from greatseal_idp import tables as t
from greatseal_idp.token.codes import note_client

BACK = "http://localhost/goodbye?from=idp"


@pytest.fixture
async def idp(open_idp):
    return await open_idp()


@pytest.fixture
async def client(idp):
    body = {"client_name": "Shop <b>", "token_endpoint_auth_method": "client_secret_basic", "client_secret": "s" * 32}
    body |= {"redirect_uris": ["http://localhost/cb"], "post_logout_redirect_uris": [BACK], "scopes": ["openid"]}
    registered = await idp.provider.clients.register_body(body, open=False, by="test")
    return registered.client


async def hint(idp, client, **claims):
    """An ID token of alice, long expired."""
    whole = {"iss": idp.url, "aud": client.client_id, "sub": "alice@LOCALHOST", "iat": 1, "exp": 2, **claims}
    return await idp.provider.signing.jwt("JWT", whole)


async def is_live(idp, cookie):
    return (await idp.get("/api/auth/me", cookie=cookie)).status == 200


def ask(**parameters):
    return f"/logout?{urlencode(parameters)}"


async def test_rp_initiated_logout_ends_the_session_and_returns_with_state(idp, client):
    cookie = await idp.cookie()

    answer = await idp.get(ask(id_token_hint=await hint(idp, client), post_logout_redirect_uri=BACK, state="a b&c\r\n"), cookie=cookie)

    assert answer.status == 302
    assert answer.location == f"{BACK}&state={quote('a b&c', safe='').replace('%20', '+')}%0D%0A"
    assert "greatseal_session=; " in answer.headers["Set-Cookie"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert not await is_live(idp, cookie)
    (event,) = await idp.events("logout")
    assert (event.sub, event.principal) == ("alice@LOCALHOST", client.client_id)


async def test_rp_initiated_logout_by_post_redirects_with_303(idp, client):
    cookie = await idp.cookie()

    answer = await idp.post("/logout", data={"id_token_hint": await hint(idp, client), "post_logout_redirect_uri": BACK}, cookie=cookie)

    assert (answer.status, answer.location) == (303, BACK)
    assert not await is_live(idp, cookie)


async def test_a_post_of_another_site_has_no_cookie_and_ends_the_session_of_its_hint(idp, client):
    cookie = await idp.cookie()
    (session,) = await idp.rows(t.session)
    token = await hint(idp, client, sid=session.id)

    answer = await idp.post("/logout", data={"id_token_hint": token}, headers={"Origin": "https://shop.example"})

    assert answer.status == 200
    assert "You are signed out" in answer.text
    assert not await is_live(idp, cookie)


async def test_an_id_token_of_another_session_of_the_same_person_asks(idp, client):
    first = await idp.cookie()
    (named,) = await idp.rows(t.session)
    second = await idp.cookie()

    answer = await idp.get(ask(id_token_hint=await hint(idp, client, sid=named.id), post_logout_redirect_uri=BACK), cookie=second)

    assert 'id="logout-form"' in answer.text
    assert await is_live(idp, first)
    assert await is_live(idp, second)
    done = await confirm(idp, answer, second)
    assert (done.status, done.location) == (303, BACK)
    assert (await is_live(idp, first), await is_live(idp, second)) == (True, False)


async def test_a_form_of_another_site_takes_no_cookie_away(idp, client):
    await idp.cookie()
    (session,) = await idp.rows(t.session)
    form = {"id_token_hint": await hint(idp, client, sid=session.id), "post_logout_redirect_uri": BACK}

    ends = await idp.post("/logout", data=form, headers={"Origin": "https://shop.example"})
    again = await idp.post("/logout", data=form, headers={"Origin": "https://shop.example"})

    assert (ends.status, ends.location) == (303, BACK)
    assert "Set-Cookie" not in ends.headers
    assert (again.status, again.location.partition("?")[0]) == (303, "/logout")
    assert "Set-Cookie" not in again.headers


async def test_a_hint_of_another_user_does_not_end_a_session_that_it_names(idp, client):
    cookie = await idp.cookie()
    (session,) = await idp.rows(t.session)

    await idp.get(ask(id_token_hint=await hint(idp, client, sid=session.id, sub="bob@LOCALHOST")))

    assert await is_live(idp, cookie)


@pytest.mark.parametrize(
    "parameters", [{}, {"state": "x"}, {"post_logout_redirect_uri": BACK}, {"post_logout_redirect_uri": "https://evil"}]
)
async def test_rp_initiated_logout_no_id_token_hint_asks_and_goes_nowhere(idp, client, parameters):
    cookie = await idp.cookie()

    answer = await idp.get(ask(**parameters), cookie=cookie)

    assert answer.status == 200
    assert 'id="logout-form"' in answer.text
    assert await is_live(idp, cookie)
    done = await confirm(idp, answer, cookie)
    assert done.status == 200
    assert "Location" not in done.headers
    assert not await is_live(idp, cookie)


async def test_rp_initiated_logout_with_client_id_asks_and_then_returns(idp, client):
    cookie = await idp.cookie()

    answer = await idp.get(ask(client_id=client.client_id, post_logout_redirect_uri=BACK, state="s"), cookie=cookie)

    assert "Shop &lt;b&gt;" in answer.text
    assert await is_live(idp, cookie)
    done = await confirm(idp, answer, cookie)
    assert (done.status, done.location) == (303, f"{BACK}&state=s")
    assert not await is_live(idp, cookie)


async def confirm(idp, page, cookie, **headers):
    fields = {name: value.replace("&amp;", "&") for name, value in re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page.text)}
    return await idp.post("/logout", data={**fields, "confirm": "yes"}, cookie=cookie, headers=headers)


async def test_a_hint_of_another_user_than_the_one_who_is_signed_in_asks(idp, client):
    cookie = await idp.cookie("bob")

    answer = await idp.get(ask(id_token_hint=await hint(idp, client), post_logout_redirect_uri=BACK), cookie=cookie)

    assert 'id="logout-form"' in answer.text
    assert await is_live(idp, cookie)


async def test_rp_initiated_logout_bad_id_token_hint(idp, client):
    cookie = await idp.cookie()
    token = await hint(idp, client)
    foreign = await idp.provider.signing.jwt("JWT", {"iss": "https://other.example", "aud": client.client_id, "sub": "alice@LOCALHOST"})
    access = await idp.provider.signing.jwt("at+jwt", {"iss": idp.url, "aud": client.client_id, "sub": "alice@LOCALHOST"})
    head, body, signature = token.split(".")
    userinfo = await idp.provider.signing.jwt("JWT", {"iss": idp.url, "aud": client.client_id, "sub": "alice@LOCALHOST", "email": "a@b.c"})
    for bad in ("x", f"{head}.{body}.", f"{head}.{body[:-4]}AAAA.{signature}", foreign, access, userinfo, "a" * 7000):
        answer = await idp.get(ask(id_token_hint=bad, post_logout_redirect_uri=BACK), cookie=cookie, headers={"Accept": "text/html"})
        assert answer.status == 400
        assert "text/html" in answer.headers["Content-Type"]
        assert "Location" not in answer.headers
    assert await is_live(idp, cookie)


@pytest.mark.parametrize("uri", [BACK + "&x=y", BACK + "#f", BACK[:-1], "https://evil.example", "//evil", "javascript:alert(1)"])
async def test_rp_initiated_logout_bad_post_logout_redirect_uri(idp, client, uri):
    cookie = await idp.cookie()
    for parameters in ({"id_token_hint": await hint(idp, client)}, {"client_id": client.client_id}):
        answer = await idp.get(ask(**parameters, post_logout_redirect_uri=uri), cookie=cookie)
        assert answer.status == 400
        assert "Location" not in answer.headers
    assert await is_live(idp, cookie)


async def test_parameters_that_contradict_each_other(idp, client):
    cookie = await idp.cookie()
    token = await hint(idp, client)
    for query in (ask(id_token_hint=token, client_id="other"), ask(client_id="unknown"), "/logout?state=a&state=b&client_id=a&client_id=b"):
        assert (await idp.get(query, cookie=cookie)).status == 400
    assert await is_live(idp, cookie)


async def test_without_a_session_there_is_nothing_to_ask(idp, client):
    assert "You are signed out" in (await idp.get("/logout")).text
    answer = await idp.get(ask(client_id=client.client_id, post_logout_redirect_uri=BACK))
    assert (answer.status, answer.location) == (302, BACK)


async def test_a_post_without_cookie_and_hint_comes_again_as_a_get(idp):
    answer = await idp.post("/logout", data={"state": "a b"})

    assert (answer.status, answer.location) == (303, "/logout?state=a+b")


async def test_the_end_of_a_session_ends_families_without_offline_access_alone(idp, client):
    from greatseal.api.tokens import Authentication, Granted

    cookie = await idp.cookie()
    (session,) = await idp.rows(t.session)
    how = Authentication(auth_time=session.auth_time, amr=("pwd",), acr=None, session_id=session.id)

    def open_families(tx):
        for scopes in (("openid",), ("openid", "offline_access")):
            granted = Granted(subject="alice@LOCALHOST", client_id=client.client_id, scopes=scopes, authentication=how)
            idp.provider.families.open(tx, granted)
        note_client(tx, session.id, client.client_id)

    await idp.service.host("idp").db.write(open_families)

    await idp.post("/api/auth/logout", cookie=cookie)

    ended = {row.scopes: row.revoked_at is not None for row in await idp.rows(t.family)}
    assert ended == {'["openid"]': True, '["openid","offline_access"]': False}
    assert {(row.kind, row.value) for row in await idp.rows(t.revoked)} >= {("session", session.id)}


FRONT = "http://localhost:8443/front?app=1"


@pytest.fixture
async def framed(idp):
    """A client that is told in a frame."""
    body = {"token_endpoint_auth_method": "none", "redirect_uris": ["http://localhost:8443/cb"], "scopes": ["openid"]}
    body |= {"frontchannel_logout_uri": FRONT, "frontchannel_logout_session_required": True}
    return (await idp.provider.clients.register_body(body, open=False, by="test")).client


async def noted(idp, *clients):
    """The session of alice, in which each of the clients got an ID token, and its cookie."""
    cookie = await idp.cookie()
    (session,) = await idp.rows(t.session)
    for client in clients:
        await idp.service.host("idp").db.write(note_client, session.id, client.client_id)
    return cookie, session


async def test_front_channel_a_frame_tells_each_client_of_the_session_that_registered_one(idp, client, framed):
    cookie, session = await noted(idp, client, framed)

    answer = await idp.get(ask(id_token_hint=await hint(idp, client), post_logout_redirect_uri=BACK, state="s"), cookie=cookie)

    told = f"{FRONT}&{urlencode({'iss': idp.url, 'sid': session.id})}"
    assert re.findall(r'<iframe src="([^"]*)"', answer.text) == [told.replace("&", "&amp;")]
    assert "frame-src http://localhost:8443;" in answer.headers["Content-Security-Policy"]
    assert f'content="3; url={BACK}&amp;state=s"' in answer.text, "no script is needed to go on"
    assert not await is_live(idp, cookie)


async def test_front_channel_a_client_of_another_session_is_not_told(idp, client, framed):
    cookie, _ = await noted(idp, client)

    answer = await idp.get(ask(id_token_hint=await hint(idp, client)), cookie=cookie)

    assert "You are signed out" in answer.text
    assert "<iframe" not in answer.text
    assert "frame-src" not in answer.headers["Content-Security-Policy"]


async def test_front_channel_a_page_opens_as_many_frames_as_a_browser_bears(idp, client, framed):
    one = {"token_endpoint_auth_method": "none", "redirect_uris": ["http://localhost:8443/cb"], "frontchannel_logout_uri": FRONT}
    more = [(await idp.provider.clients.register_body(one, open=False, by="test")).client for _ in range(33)]
    cookie, _ = await noted(idp, *more)

    answer = await idp.get(ask(id_token_hint=await hint(idp, client)), cookie=cookie)

    assert answer.text.count("<iframe") == 32


@pytest.mark.parametrize(
    "uri", ["https://evil.example/front", "http://localhost:8444/front", "https://localhost:8443/front", "javascript:1"]
)
async def test_front_channel_a_uri_of_another_origin_than_the_redirect_uris_is_refused(idp, framed, uri):
    with pytest.raises(InvalidClientMetadata, match="frontchannel_logout_uri"):
        await idp.provider.clients.update(framed.client_id, {"frontchannel_logout_uri": uri}, by="test")
