"""From the request of an application to its code."""

from urllib.parse import quote, unquote

import pytest

from greatseal.testing import FakeClock
from greatseal.testing.desk import VERIFIER, hidden_fields
from greatseal_idp import tables as t

MINUTE = 60


async def test_idp_187_idp_202_a_person_signs_in_consents_and_the_client_gets_a_code(desk, app):
    asked = await app.ask()
    assert asked.status == 303
    assert asked.location.startswith("/ui/auth/login?return_to=%2Fauthorize%3Ftransaction%3Dsi_n1_")

    page = await desk.get(asked.location)
    fields = hidden_fields(page, "login-form")
    assert "The shop" in page.text
    signed_in = await desk.post(
        "/login",
        data={**fields, "username": "alice", "password": "wonderland"},
        cookie=page.headers["Set-Cookie"].partition(";")[0],
    )
    assert signed_in.status == 303
    assert signed_in.location == unquote(asked.location.partition("return_to=")[2])

    resumed = await desk.get(signed_in.location, cookie=signed_in.cookie)
    assert resumed.location.startswith("/api/auth/consent?consent_id=co_n1_")
    consent = await desk.get(resumed.location, cookie=signed_in.cookie, headers={"Accept": "text/html"})
    answer = app.told(await app.decide(signed_in.cookie, hidden_fields(consent, "consent-form")))

    assert answer.keys() == {"code", "state", "iss"}
    assert answer["state"] == "st/a+te"
    assert answer["iss"] == desk.url
    tokens = await app.redeem(answer["code"])
    assert tokens.status == 200, tokens.text
    assert tokens.json["scope"] == "openid profile"


async def test_a_remembered_consent_is_not_asked_again(open_idp, register_app, database_url):
    desk = await open_idp(database={"url": database_url})
    app, cookie = await register_app(desk), await desk.cookie("alice")
    await app.allowed(cookie)

    again = await app.ask(cookie)

    assert again.status == 302
    assert app.told(again)["code"]
    assert [event.event_type for event in await desk.events("consent_granted")] == ["consent_granted"]


async def test_more_than_was_allowed_is_asked_for(app, cookie):
    await app.allowed(cookie, scope="openid")

    more = await app.ask(cookie, scope="openid profile")
    less = await app.ask(cookie, scope="openid")

    assert more.location.startswith("/api/auth/consent")
    assert app.told(less)["code"]


async def test_consents_add_up(app, cookie):
    await app.allowed(cookie, scope="openid profile")
    await app.allowed(cookie, scope="openid email")

    assert app.told(await app.ask(cookie, scope="openid profile email"))["code"]


async def test_a_consent_is_of_one_person(desk, app, cookie):
    await app.allowed(cookie)

    assert (await app.ask(await desk.cookie("bob"))).location.startswith("/api/auth/consent")


async def test_first_party_clients_are_not_asked_about(desk, register_app, cookie):
    app = await register_app(desk, consent="implicit")

    assert app.told(await app.ask(cookie))["code"]


async def test_a_public_client_of_the_machine_is_asked_about_each_time(desk, register_app, cookie):
    # RFC 8252 s8.6: any program may listen on loopback
    app = await register_app(desk, token_endpoint_auth_method="none", redirect_uris=["http://127.0.0.1/cb"])
    asked = {"redirect_uri": "http://127.0.0.1:51004/cb"}
    _, fields = await app.consent_of(cookie, **asked)
    approved = await app.decide(cookie, fields)
    assert approved.location.startswith("http://127.0.0.1:51004/cb?code=")

    assert (await app.ask(cookie, **asked)).location.startswith("/api/auth/consent")


async def test_idp_203_idp_204_scopes_are_cut_to_those_of_the_client(desk, app, cookie):
    page, fields = await app.consent_of(cookie, scope="openid phone unheard-of profile directory.read")

    assert "See your name and profile" in page.text
    assert "phone" not in page.text
    assert "directory" not in page.text
    tokens = await app.redeem(app.told(await app.decide(cookie, fields))["code"])
    assert tokens.json["scope"] == "openid profile"


async def test_idp_205_s011_an_empty_intersection_is_invalid_scope(app, cookie):
    never = ("phone", "phone directory.read", "", "OPENID", "opénid", "open\tid", 'a"b')
    for scope in (*never, 'openid "', "openid \x00", "openid\n", "openid é", "\\"):
        assert app.told(await app.ask(cookie, scope=scope))["error"] == "invalid_scope", scope


async def test_a_request_without_scope_is_told_so(app, cookie):
    assert app.told(await app.ask(cookie, scope=None))["error_description"] == "scope is missing (RFC 6749 s3.3)"


async def test_s011_ten_thousand_scopes_are_cut_like_two(desk, app, cookie):
    many = " ".join(f"s{n}" for n in range(10_000))

    form = app.parameters(scope=f"{many} openid")
    posted = await desk.post("/authorize", data=form, cookie=cookie)

    assert posted.location.startswith("/api/auth/consent")
    consent = await desk.get(posted.location, cookie=cookie)
    assert [scope["name"] for scope in consent.json["scopes"]] == ["openid"]


async def test_state_comes_back_byte_for_byte(app, cookie):
    await app.allowed(cookie)
    for state in ("a b+c&d=e%20\r\n#?é", "x" * 2048, "%0d%0aSet-Cookie: x=y"):
        assert app.told(await app.ask(cookie, state=state))["state"] == state


async def test_b29_the_nonce_is_in_the_id_token(desk, app, cookie):
    await app.allowed(cookie)

    for nonce in ("n" * 512, 'x"y\\z', "é ☃ %41+&=", None):
        tokens = (await app.redeem(app.told(await app.ask(cookie, nonce=nonce))["code"])).json
        assert desk.provider.signing.verify(tokens["id_token"], typ=frozenset({"jwt"})).get("nonce") == nonce


async def test_a_query_of_the_redirect_uri_is_kept(desk, register_app, cookie):
    uri = "https://app.example/callback?tenant=7"
    app = await register_app(desk, redirect_uris=[uri], consent="implicit")

    answer = await app.ask(cookie, redirect_uri=uri)

    assert answer.location.startswith(f"{uri}&code=ac_")


async def test_s025_without_openid_a_lone_redirect_uri_may_be_left_out(app, cookie):
    code = app.told(await app.allowed(cookie, redirect_uri=None, scope="profile"))["code"]
    assert (await app.redeem(code, redirect_uri="")).json["error"] == "invalid_request", "but not at the token endpoint"
    assert (await app.redeem(code)).status == 200
    assert (await app.ask(cookie, redirect_uri=None)).status == 400
    await app.desk.provider.clients.update(app.client_id, {"redirect_uris": [app.CALLBACK, "https://app.example/other"]}, by="test")
    assert (await app.ask(cookie, redirect_uri=None, scope="profile")).status == 400, "which one?"


async def test_fragment(app, cookie):
    answer = await app.allowed(cookie, response_mode="fragment")

    assert answer.status == 303
    assert answer.location.startswith(f"{app.CALLBACK}#code=ac_")


async def test_form_post_is_a_page_that_sends_itself_and_has_a_button(desk, app, cookie):
    await app.allowed(cookie)

    answer = await app.ask(cookie, response_mode="form_post", state='"><script>')

    assert answer.status == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert f'action="{app.CALLBACK}"' in answer.text
    assert '<button class="button" type="submit"' in answer.text
    assert 'name="state" value="&#34;&gt;&lt;script&gt;"' in answer.text
    assert f'name="iss" value="{desk.url}"' in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert "script-src 'sha256-" in policy
    assert "unsafe" not in policy


async def test_refusals_take_the_response_mode_too(app, cookie):
    assert "#error=invalid_scope" in (await app.ask(cookie, scope="phone", response_mode="fragment")).location
    page = await app.ask(cookie, scope="phone", response_mode="form_post")
    assert (page.status, 'name="error" value="invalid_scope"' in page.text) == (200, True)


BAD_REQUESTS = (
    ({"response_type": None}, "invalid_request"),
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"response_type": "id_token token"}, "unsupported_response_type"),
    ({"response_type": "none"}, "unsupported_response_type"),
    ({"response_type": "code id_token"}, "unsupported_response_type"),
    ({"response_type": "token code"}, "unsupported_response_type"),
    ({"response_type": "code token"}, "unsupported_response_type"),
    ({"response_type": "CODE"}, "unsupported_response_type"),
    ({"response_type": "code "}, "unsupported_response_type"),
    ({"response_type": "x" * 2000}, "unsupported_response_type"),
    ({"response_type": "nonsense"}, "unsupported_response_type"),
    ({"response_mode": "web_message"}, "invalid_request"),
    ({"response_mode": "web_message.jwt"}, "invalid_request"),
    ({"response_mode": "cookie"}, "invalid_request"),
    ({"response_mode": "QUERY"}, "invalid_request"),
    ({"code_challenge": "short"}, "invalid_request"),
    ({"code_challenge": "x" * 42}, "invalid_request"),
    ({"code_challenge": "x" * 129}, "invalid_request"),
    ({"code_challenge": "=" * 43}, "invalid_request"),
    ({"code_challenge_method": "plain"}, "invalid_request"),
    ({"code_challenge_method": "plain", "code_challenge": VERIFIER}, "invalid_request"),
    ({"code_challenge_method": "s256"}, "invalid_request"),
    ({"code_challenge_method": None}, "invalid_request"),
    ({"code_challenge": None}, "invalid_request"),
    ({"prompt": "none login"}, "invalid_request"),
    ({"prompt": "create"}, "invalid_request"),
    ({"max_age": "-1"}, "invalid_request"),
    ({"max_age": "1.5"}, "invalid_request"),
    ({"max_age": "soon"}, "invalid_request"),
    ({"claims": "{"}, "invalid_request"),
    ({"claims": "[]"}, "invalid_request"),
    ({"claims": '{"id_token": 1}'}, "invalid_request"),
    ({"claims": '{"id_token": {"acr": 1}}'}, "invalid_request"),
    ({"claims": '{"userinfo": {"a": null}, "userinfo": {}}'}, "invalid_request"),
    ({"id_token_hint": "a.b.c"}, "invalid_request"),
    ({"state": "x" * 2049}, "invalid_request"),
    ({"nonce": "x" * 513}, "invalid_request"),
    ({"request": "a.b.c"}, "request_not_supported"),
    ({"request_uri": "http://169.254.169.254/x"}, "request_uri_not_supported"),
    ({"registration": "{}"}, "registration_not_supported"),
)


async def test_s010_s021_s026_b9_b28_a_bad_request_of_a_proven_client_is_told_to_it(app, cookie):
    for changes, error in BAD_REQUESTS:
        answer = await app.ask(cookie, **changes)

        assert answer.status == 302, changes
        assert app.told(answer)["error"] == error, changes
        assert app.told(answer)["iss"] == app.desk.url


@pytest.mark.parametrize("name", ["request", "request_uri"])
async def test_an_object_that_has_the_redirect_uri_is_what_is_refused(app, cookie, name):
    """RFC 9101 s5 wants client_id beside it and no more: the missing redirect_uri is not the fault."""
    page = await app.ask(cookie, **{name: "https://client.example/object", "redirect_uri": None})

    assert (page.status, "Location" in page.headers) == (400, False)
    assert f"{name}_not_supported" in page.text


async def test_s021_s026_what_is_bad_at_the_endpoint_is_refused_when_it_is_pushed(desk, app):
    for changes, error in BAD_REQUESTS:
        if "request_uri" not in changes:
            answer = await app.push(**changes)
            assert (answer.status, answer.json["error"]) == (400, error), changes
    assert await desk.rows(t.authorization) == []


async def test_a_client_without_the_grant_is_refused(desk, register_app, cookie):
    app = await register_app(desk, grant_types=["client_credentials"])

    assert app.told(await app.ask(cookie))["error"] == "unauthorized_client"
    assert app.told(await app.ask())["error"] == "unauthorized_client", "before anybody signs in for nothing"


@pytest.mark.parametrize(
    ("require", "method", "refused"),
    [("public", "none", True), ("public", "client_secret_basic", False), ("all", "client_secret_basic", True), ("never", "none", False)],
)
async def test_s026_b8_r31_who_must_use_pkce(open_idp, register_app, require, method, refused):
    desk = await open_idp(oauth={"require_pkce": require})
    app = await register_app(desk, token_endpoint_auth_method=method)

    answer = await app.ask(code_challenge=None, code_challenge_method=None)

    assert (answer.status == 302 and app.told(answer)["error"] == "invalid_request") == refused
    assert answer.location.startswith("/ui/auth/login") != refused


async def test_a_client_that_must_push_is_refused(desk, register_app, cookie):
    app = await register_app(desk, require_pushed_authorization_requests=True)

    assert app.told(await app.ask(cookie))["error"] == "invalid_request"


# ---- prompt, max_age, hints


async def test_s019_prompt_none_without_session(app):
    assert app.told(await app.ask(prompt="none"))["error"] == "login_required"


async def test_prompt_none_without_consent(app, cookie):
    assert app.told(await app.ask(cookie, prompt="none"))["error"] == "consent_required"


async def test_prompt_none_with_session_and_consent(app, cookie):
    await app.allowed(cookie)

    assert app.told(await app.ask(cookie, prompt="none"))["code"]


async def test_prompt_consent_asks_although_it_is_remembered(app, cookie):
    await app.allowed(cookie)

    assert (await app.ask(cookie, prompt="consent")).location.startswith("/api/auth/consent")


@pytest.mark.parametrize("changes", [{"prompt": "login"}, {"max_age": "0"}, {"prompt": "select_account"}])
async def test_s019_another_sign_in_is_asked_for_and_is_enough(desk, app, cookie, changes):
    await app.allowed(cookie)
    asked = await app.ask(cookie, **changes)
    assert asked.location.startswith("/ui/auth/login")
    back = unquote(asked.location.partition("return_to=")[2])
    assert (await desk.get(back, cookie=cookie)).location.startswith("/ui/auth/login"), "the old session does not do"

    again = (await desk.login("alice", cookie=cookie)).cookie

    assert app.told(await desk.get(back, cookie=again))["code"]


async def test_max_age_is_about_the_last_sign_in(open_idp, register_app):
    clock = FakeClock(1_800_000_000_000_000)
    desk = await open_idp(clock=clock)
    app = await register_app(desk, consent="implicit")
    cookie = await desk.cookie("alice")
    clock.advance(5 * MINUTE)

    young = await app.ask(cookie, max_age="300")
    old = await app.ask(cookie, max_age="299")
    silent = await app.ask(cookie, max_age="299", prompt="none")
    largest = await app.ask(cookie, max_age=str(2**31 - 1), prompt="none")

    assert app.told(young)["code"]
    assert app.told(largest)["code"]
    assert old.location.startswith("/ui/auth/login")
    assert app.told(silent)["error"] == "login_required"


async def test_default_max_age_of_the_client(open_idp, register_app):
    clock = FakeClock(1_800_000_000_000_000)
    desk = await open_idp(clock=clock)
    app = await register_app(desk, consent="implicit", default_max_age=60)
    cookie = await desk.cookie("alice")
    clock.advance(2 * MINUTE)

    assert (await app.ask(cookie)).location.startswith("/ui/auth/login")


async def test_s019_id_token_hint_of_another_person_never_switches_silently(desk, app, cookie):
    tokens = (await app.redeem(app.told(await app.allowed(cookie))["code"])).json
    bob = await desk.cookie("bob")

    hinted = await app.ask(bob, id_token_hint=tokens["id_token"])
    silent = await app.ask(bob, id_token_hint=tokens["id_token"], prompt="none")
    right = await app.ask(cookie, id_token_hint=tokens["id_token"], prompt="none")

    assert hinted.location.startswith("/ui/auth/login")
    assert app.told(silent)["error"] == "login_required"
    assert app.told(right)["code"]
    back = unquote(hinted.location.partition("return_to=")[2])
    still_bob = (await desk.login("bob", cookie=bob)).cookie
    assert app.told(await desk.get(back, cookie=still_bob))["error"] == "login_required"


async def test_id_token_hint_of_another_client_is_refused(desk, app, register_app, cookie):
    tokens = (await app.redeem(app.told(await app.allowed(cookie))["code"])).json
    other = await register_app(desk)

    assert other.told(await other.ask(cookie, id_token_hint=tokens["id_token"]))["error"] == "invalid_request"


async def test_an_access_token_is_no_id_token_hint(app, cookie):
    tokens = (await app.redeem(app.told(await app.allowed(cookie))["code"])).json

    assert app.told(await app.ask(cookie, id_token_hint=tokens["access_token"]))["error"] == "invalid_request"


async def test_claims_may_name_the_subject_and_an_essential_acr(app, cookie):
    await app.allowed(cookie)
    bob = '{"id_token": {"sub": {"value": "bob@LOCALHOST"}}}'
    high = '{"id_token": {"acr": {"essential": true, "values": ["phr", "phrh"]}}}'
    reached = '{"id_token": {"acr": {"essential": true, "value": "urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified"}}}'

    assert (await app.ask(cookie, claims=bob)).location.startswith("/ui/auth/login")
    assert app.told(await app.ask(cookie, claims=bob, prompt="none"))["error"] == "login_required"
    assert app.told(await app.ask(cookie, claims=high, prompt="none"))["error"] == "unmet_authentication_requirements"
    assert app.told(await app.ask(cookie, claims=reached))["code"]
    for unmeant in ('"phr"', "7", "null", '{"value": "phr"}'):
        odd = f'{{"id_token": {{"acr": {{"essential": true, "values": {unmeant}}}}}}}'
        assert app.told(await app.ask(cookie, claims=odd))["code"], "a wish that cannot be read is none"
    for wish in ({"acr_values": "phr"}, {"claims": high.replace("true", "false")}, {"claims": high.replace('"essential": true, ', "")}):
        assert app.told(await app.ask(cookie, **wish))["code"], wish


async def test_a_sign_in_that_does_not_do_is_not_asked_for_again(desk, app):
    asked = await app.ask(claims='{"id_token": {"acr": {"essential": true, "value": "phr"}}}')

    answer = await desk.get(unquote(asked.location.partition("return_to=")[2]), cookie=await desk.cookie("alice"))

    assert app.told(answer)["error"] == "unmet_authentication_requirements"


async def test_login_hint_fills_the_name_in(desk, app):
    asked = await app.ask(login_hint='al"ice')

    page = await desk.get(asked.location)

    assert 'value="al&#34;ice"' in page.text


# ---- waiting


async def test_a_transaction_gives_one_code(desk, app, cookie):
    await app.allowed(cookie)
    back = unquote((await app.ask()).location.partition("return_to=")[2])
    assert app.told(await desk.get(back, cookie=cookie))["code"]

    again = await desk.get(back, cookie=cookie)

    assert (again.status, again.json["error"]) == (400, "invalid_request_uri")
    assert len(await desk.rows(t.code)) == 2  # that of allowed() and that of the transaction


async def test_a_transaction_ends_after_an_hour(open_idp, register_app):
    clock = FakeClock(1_800_000_000_000_000)
    desk = await open_idp(clock=clock)
    app = await register_app(desk, consent="implicit")
    back = unquote((await app.ask()).location.partition("return_to=")[2])
    clock.advance(60 * MINUTE)
    cookie = await desk.cookie("alice")

    assert (await desk.get(back, cookie=cookie)).status == 400

    await desk.provider.waiting.sweep()
    assert len(await desk.rows(t.authorization)) == 1
    clock.advance(181 * MINUTE)
    await desk.provider.waiting.sweep()
    assert await desk.rows(t.authorization) == []


async def test_a_request_waits_for_a_client_that_may_be_changed_meanwhile(desk, app, cookie):
    await app.allowed(cookie)
    back = unquote((await app.ask(scope="openid profile email")).location.partition("return_to=")[2])
    await desk.provider.clients.update(app.client_id, {"scopes": ["openid"]}, by="test")

    code = app.told(await desk.get(back, cookie=cookie))["code"]

    assert (await app.redeem(code)).json["scope"] == "openid"


async def test_a_redirect_uri_that_was_taken_away_gets_nothing(desk, app, cookie):
    await app.allowed(cookie)
    back = unquote((await app.ask()).location.partition("return_to=")[2])
    await desk.provider.clients.update(app.client_id, {"redirect_uris": ["https://app.example/other"]}, by="test")

    answer = await desk.get(back, cookie=cookie)

    assert (answer.status, "Location" in answer.headers) == (400, False)


async def test_idp_10_a_person_who_may_not_gets_no_code(desk, app, cookie):
    await app.allowed(cookie)
    desk.people.shut = "authorize"

    assert app.told(await app.ask(cookie))["error"] == "access_denied"


async def test_a_directory_that_is_down_is_told_as_temporary(desk, app, cookie):
    await app.allowed(cookie)
    desk.people.down = True

    assert app.told(await app.ask(cookie))["error"] == "temporarily_unavailable"


# ---- POST


async def test_a_post_without_cookie_is_asked_again_as_get(desk, app, cookie):
    await app.allowed(cookie)
    posted = await desk.post("/authorize", data=app.parameters())
    assert posted.status == 303
    assert posted.location.startswith("/authorize?client_id=")

    assert app.told(await desk.get(posted.location, cookie=cookie))["code"]


async def test_a_large_post_is_kept_and_sees_the_session(desk, app, cookie):
    await app.allowed(cookie)
    posted = await desk.post("/authorize", data=app.parameters(login_hint="x" * 5000))
    assert posted.location.startswith("/authorize?transaction=")

    assert app.told(await desk.get(posted.location, cookie=cookie))["code"]


async def test_a_post_has_its_parameters_in_the_body(desk, app, cookie):
    answer = await desk.post(f"/authorize?state={quote('x')}", data=app.parameters(), cookie=cookie)

    assert (answer.status, answer.json["error"]) == (400, "invalid_request")


async def test_a_session_that_ended_meanwhile_gives_no_code(desk, app, cookie):
    _, fields = await app.consent_of(cookie)
    await desk.post("/api/auth/logout", cookie=cookie)

    answer = await app.decide(cookie, fields)

    assert answer.status == 401
    assert await desk.rows(t.code) == []
