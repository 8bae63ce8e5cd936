"""Consent: bound to one session, answered once, decided on what holds when it is answered."""

import asyncio
import json
from urllib.parse import urlencode

import pytest

from greatseal.testing import FakeClock
from greatseal.testing.desk import members_of
from greatseal_idp import tables as t

PARALLEL = 50


async def test_idp_020_idp_253_the_page_says_who_wants_what(app, cookie):
    page, fields = await app.consent_of(cookie, scope="openid email")

    assert "<h1>Allow The shop?</h1>" in page.text
    assert "See your e-mail address" in page.text
    assert "app.example" in page.text
    assert 'id="consent-form"' in page.text
    assert 'id="approve" name="decision" value="approve"' in page.text
    assert 'id="deny" name="decision" value="deny"' in page.text
    assert fields.keys() == {"form_token", "consent_id"}


async def test_idp_253_programs_get_json(desk, register_app, cookie):
    app = await register_app(desk, tos_uri="https://app.example/tos")
    asked = await app.ask(cookie, scope="openid email")

    consent = (await desk.get(asked.location, cookie=cookie)).json

    assert consent["client"] == {"client_id": app.client_id, "client_name": "The shop", "tos_uri": "https://app.example/tos"}
    assert consent["scopes"] == [
        {"name": "openid", "description": "Sign you in", "claims": ["sub"]},
        {"name": "email", "description": "See your e-mail address", "claims": ["email", "email_verified"]},
    ]
    assert consent["redirect_host"] == "app.example"
    assert consent["expires_at"] > 1_700_000_000

    answer = await desk.post("/api/auth/consent", cookie=cookie, json={"consent_id": consent["consent_id"], "decision": "approve"})
    assert answer.status == 200
    assert members_of(answer.json["redirect_to"])["code"]


async def test_programs_may_choose_fewer_scopes(desk, app, cookie):
    consent = (await desk.get((await app.ask(cookie)).location, cookie=cookie)).json
    body = {"consent_id": consent["consent_id"], "decision": "approve", "scopes": ["openid", "phone"]}

    answer = await desk.post("/api/auth/consent", cookie=cookie, json=body)

    code = members_of(answer.json["redirect_to"])["code"]
    assert (await app.redeem(code)).json["scope"] == "openid"


@pytest.mark.parametrize("more", [{}, {"claims": json.dumps({"userinfo": {"name": None}})}])
async def test_never_more_than_was_shown(desk, app, cookie, more):
    consent = (await desk.get((await app.ask(cookie, scope="openid", **more)).location, cookie=cookie)).json
    shown = {scope["name"] for scope in consent["scopes"]}
    body = {"consent_id": consent["consent_id"], "decision": "approve", "scopes": list(app.SCOPES)}

    answer = await desk.post("/api/auth/consent", cookie=cookie, json=body)

    tokens = (await app.redeem(members_of(answer.json["redirect_to"])["code"])).json
    assert tokens["scope"] == "openid"
    assert "refresh_token" not in tokens
    (event,) = await desk.events("consent_granted")
    assert set(event.detail.split()) == shown < set(app.SCOPES)
    for scope in set(app.SCOPES) - shown:
        assert app.told(await app.ask(cookie, scope=f"openid {scope}", prompt="none"))["error"] == "consent_required", scope


async def test_the_logo_of_an_application_is_shown_from_its_own_host(desk, register_app, cookie):
    app = await register_app(desk, logo_uri="https://cdn.example/shop.png?v=2")
    plain = await register_app(desk, logo_uri="http://localhost/shop.png")

    page, _ = await app.consent_of(cookie)
    without, _ = await plain.consent_of(cookie)

    assert 'src="https://cdn.example/shop.png?v=2" alt=""' in page.text
    assert "; img-src https://cdn.example;" in page.headers["Content-Security-Policy"]
    assert 'id="client-logo"' not in without.text
    assert "; img-src 'none';" in without.headers["Content-Security-Policy"]


async def test_a_link_that_is_not_https_is_not_shown(desk, register_app, cookie):
    app = await register_app(desk, tos_uri="http://localhost/tos", policy_uri="https://app.example/privacy")

    consent = (await desk.get((await app.ask(cookie)).location, cookie=cookie)).json

    assert consent["client"].keys() == {"client_id", "client_name", "policy_uri"}


async def test_a_consent_that_was_answered_is_not_shown_again(desk, app, cookie):
    _, fields = await app.consent_of(cookie)
    await app.decide(cookie, fields)

    assert (await desk.get(f"/api/auth/consent?consent_id={fields['consent_id']}", cookie=cookie)).status == 404


async def test_whoever_allows_none_of_the_scopes_allows_nothing(desk, app, cookie):
    for chosen in ([], ["email"]):
        consent = (await desk.get((await app.ask(cookie)).location, cookie=cookie)).json
        body = {"consent_id": consent["consent_id"], "decision": "approve", "scopes": chosen}

        answer = await desk.post("/api/auth/consent", cookie=cookie, json=body)

        assert members_of(answer.json["redirect_to"])["error"] == "invalid_scope"
    assert await desk.rows(t.code) == await desk.rows(t.consent) == []


def claims(userinfo=(), id_token=()):
    """The parameter of OpenID Connect Core s5.5."""
    return json.dumps({"userinfo": dict.fromkeys(userinfo), "id_token": dict.fromkeys(id_token)})


PERSONAL = claims(["email", "phone_number", "name", "sub", "odd"], ["email", "acr"])


async def test_core_5_5_the_scopes_that_release_the_claims_are_asked_about(desk, app, cookie):
    page, fields = await app.consent_of(cookie, scope="openid", claims=PERSONAL)
    shown = (await desk.get(f"/api/auth/consent?consent_id={fields['consent_id']}", cookie=cookie)).json

    tokens = (await app.redeem(app.told(await app.decide(cookie, fields))["code"])).json

    assert [scope["name"] for scope in shown["scopes"]] == ["openid", "profile", "email"]
    assert "See your e-mail address" in page.text
    assert "See your phone number" not in page.text, "the client is not registered for it"
    assert tokens["scope"] == "openid"
    assert (await desk.claims(tokens["access_token"])).keys() == {"sub", "email", "name"}
    (event,) = await desk.events("consent_granted")
    assert event.detail == "openid profile email"
    assert app.told(await app.ask(cookie, scope="openid profile", prompt="none"))["code"], "they are remembered"


async def test_core_5_5_claims_that_nobody_allowed_are_not_given_silently(app, cookie):
    await app.allowed(cookie, scope="openid")

    for asked in (claims(["email"]), claims([], ["email"])):
        assert app.told(await app.ask(cookie, scope="openid", claims=asked, prompt="none"))["error"] == "consent_required"
        assert (await app.ask(cookie, scope="openid", claims=asked)).location.startswith("/api/auth/consent?")
    covered = claims(["sub", "phone_number"], ["acr", "auth_time"])
    assert app.told(await app.ask(cookie, scope="openid", claims=covered, prompt="none"))["code"]


async def test_a_claim_of_a_scope_that_is_asked_for_implies_no_other(desk, register_app, cookie):
    await desk.provider.scopes.put("contact", "Write to you", ["email"], by="test")
    app = await register_app(desk, scopes=["openid", "email", "contact"])

    page, _ = await app.consent_of(cookie, scope="openid email", claims=claims(["email"]))

    assert "Write to you" not in page.text


async def test_a_scope_that_is_not_allowed_releases_nothing(desk, app, cookie):
    consent = (await desk.get((await app.ask(cookie, scope="openid", claims=PERSONAL)).location, cookie=cookie)).json
    body = {"consent_id": consent["consent_id"], "decision": "approve", "scopes": ["openid", "profile"]}

    answer = await desk.post("/api/auth/consent", cookie=cookie, json=body)

    tokens = (await app.redeem(members_of(answer.json["redirect_to"])["code"])).json
    assert (await desk.claims(tokens["access_token"])).keys() == {"sub", "name"}
    assert "email" not in desk.provider.signing.verify(tokens["id_token"], typ=frozenset({"jwt"}))
    assert app.told(await app.ask(cookie, scope="openid", claims=PERSONAL, prompt="none"))["error"] == "consent_required"


async def test_s012_a_scope_that_the_client_got_while_the_page_was_open_releases_nothing(desk, register_app, cookie):
    app = await register_app(desk, scopes=["openid"])
    _, fields = await app.consent_of(cookie, scope="openid", claims=claims(["email"]))
    await desk.provider.clients.update(app.client_id, {"scopes": ["openid", "email"]}, by="test")

    tokens = (await app.redeem(app.told(await app.decide(cookie, fields))["code"])).json

    assert (await desk.claims(tokens["access_token"])).keys() == {"sub"}


async def test_first_party_clients_get_the_claims_of_their_scopes_unasked(desk, register_app, cookie):
    app = await register_app(desk, consent="implicit")

    code = app.told(await app.ask(cookie, scope="openid", claims=PERSONAL))["code"]

    assert (await desk.claims((await app.redeem(code)).json["access_token"])).keys() == {"sub", "email", "name"}


async def test_claims_in_a_pushed_request_are_asked_about_too(desk, app, cookie):
    pushed = (await app.push(scope="openid", claims=claims(["email"]))).json["request_uri"]
    asked = await desk.get(f"/authorize?client_id={app.client_id}&request_uri={pushed}", cookie=cookie)

    consent = (await desk.get(asked.location, cookie=cookie)).json

    assert [scope["name"] for scope in consent["scopes"]] == ["openid", "email"]


async def test_form_post_for_programs(desk, app, cookie):
    consent = (await desk.get((await app.ask(cookie, response_mode="form_post")).location, cookie=cookie)).json

    answer = await desk.post("/api/auth/consent", cookie=cookie, json={"consent_id": consent["consent_id"], "decision": "approve"})

    assert answer.json["redirect_to"] == app.CALLBACK
    assert answer.json["form"].keys() == {"code", "state", "iss"}


async def test_idp_254_deny_is_access_denied_at_the_client(desk, app, cookie):
    _, fields = await app.consent_of(cookie)

    answer = await app.decide(cookie, fields, "deny")

    assert answer.status == 303
    assert app.told(answer)["error"] == "access_denied"
    assert app.told(answer)["state"] == "st/a+te"
    assert await desk.rows(t.code) == []
    assert await desk.rows(t.consent) == []
    (event,) = await desk.events("consent_denied")
    assert (event.sub, event.client_id, event.outcome) == ("alice@LOCALHOST", app.client_id, "failure")


async def test_idp_254_approval_is_audited_with_its_scopes(desk, app, cookie):
    _, fields = await app.consent_of(cookie)

    answer = await app.decide(cookie, fields, "approve")

    assert app.told(answer)["code"]
    (event,) = await desk.events("consent_granted")
    assert (event.sub, event.client_id, event.detail) == ("alice@LOCALHOST", app.client_id, "openid profile")


async def test_s013_another_session_gets_404_as_for_an_unknown_one(desk, app, cookie):
    _, fields = await app.consent_of(cookie)
    bob = await desk.cookie("bob")
    where = f"/api/auth/consent?consent_id={fields['consent_id']}"

    foreign = await desk.get(where, cookie=bob)
    unknown = await desk.get("/api/auth/consent?consent_id=co_n1_" + "x" * 43, cookie=bob)
    posted = await desk.post("/api/auth/consent", cookie=bob, json={"consent_id": fields["consent_id"], "decision": "approve"})

    assert (foreign.status, unknown.status, posted.status) == (404, 404, 404)
    assert foreign.text == unknown.text == posted.text
    assert app.told(await app.decide(cookie, fields))["code"], "it is still there for its own session"


async def test_s070_a_second_session_of_the_same_person_is_another_session(desk, app, cookie):
    _, fields = await app.consent_of(cookie)
    other = await desk.cookie("alice")

    answer = await desk.post("/api/auth/consent", cookie=other, json={"consent_id": fields["consent_id"], "decision": "approve"})

    assert answer.status == 404


async def test_idp_254_nothing_pending_is_404_and_no_session_401(desk, cookie):
    assert (await desk.get("/api/auth/consent", cookie=cookie)).status == 404
    answer = await desk.get("/api/auth/consent")
    assert (answer.status, answer.json["error"]) == (401, "unauthenticated")
    page = await desk.get("/api/auth/consent", headers={"Accept": "text/html"})
    assert (page.status, "<h1>You are not signed in</h1>" in page.text) == (401, True)
    assert (await desk.post("/api/auth/consent", json={"consent_id": "co_n1_x", "decision": "approve"})).status == 401


async def test_without_an_id_the_newest_is_shown_and_one_answer_counts(desk, app, cookie):
    _, fields = await app.consent_of(cookie)

    shown = (await desk.get("/api/auth/consent", cookie=cookie)).json

    body = {"consent_id": shown["consent_id"], "decision": "approve"}
    assert (await desk.post("/api/auth/consent", cookie=cookie, json=body)).status == 200
    assert (await app.decide(cookie, fields)).status == 404
    assert len(await desk.rows(t.code)) == 1


async def test_s013_a_consent_is_answered_once(desk, app, cookie):
    _, fields = await app.consent_of(cookie)
    assert app.told(await app.decide(cookie, fields))["code"]

    again = await app.decide(cookie, fields)
    denied = await app.decide(cookie, fields, "deny")

    assert (again.status, denied.status) == (404, 404)
    assert len(await desk.rows(t.code)) == 1


async def test_s022_fifty_parallel_approvals_give_one_code(open_idp, register_app, database_url):
    desk = await open_idp(database={"url": database_url})
    app, cookie = await register_app(desk), await desk.cookie("alice")
    _, fields = await app.consent_of(cookie)

    answers = await asyncio.gather(*(app.decide(cookie, fields) for _ in range(PARALLEL)))

    assert sorted(answer.status for answer in answers) == [303] + [404] * (PARALLEL - 1)
    assert len(await desk.rows(t.code)) == 1
    assert len(await desk.events("consent_granted")) == 1


async def test_approval_and_denial_race_for_one_outcome(desk, app, cookie):
    _, fields = await app.consent_of(cookie)

    answers = await asyncio.gather(*(app.decide(cookie, fields, one) for one in ("approve", "deny") * 10))

    assert sorted(answer.status for answer in answers) == [303] + [404] * 19
    assert len(await desk.rows(t.code)) + len(await desk.events("consent_denied")) == 1


async def test_s012_scopes_that_were_taken_away_while_the_page_was_open(desk, app, cookie):
    _, fields = await app.consent_of(cookie, scope="openid profile email")
    await desk.provider.clients.update(app.client_id, {"scopes": ["openid", "phone"]}, by="test")

    code = app.told(await app.decide(cookie, fields))["code"]

    assert (await app.redeem(code)).json["scope"] == "openid"


async def test_s012_an_implied_scope_that_was_taken_away_while_the_page_was_open(desk, app, cookie):
    _, fields = await app.consent_of(cookie, scope="openid", claims=claims(["email", "name"]))
    await desk.provider.clients.update(app.client_id, {"scopes": ["openid", "profile"]}, by="test")

    tokens = (await app.redeem(app.told(await app.decide(cookie, fields))["code"])).json

    assert (await desk.claims(tokens["access_token"])).keys() == {"sub", "name"}
    (event,) = await desk.events("consent_granted")
    assert event.detail == "openid profile"


async def test_a_scope_that_was_deleted_while_the_page_was_open(desk, register_app, cookie):
    await desk.provider.scopes.put("contact", "Write to you", [], by="test")
    app = await register_app(desk, scopes=["openid", "contact"])
    _, fields = await app.consent_of(cookie, scope="openid contact")
    await desk.provider.scopes.delete("contact", by="test")

    app.told(await app.decide(cookie, fields))

    (event,) = await desk.events("consent_granted")
    assert event.detail == "openid"


async def test_a_client_that_was_deleted_while_the_page_was_open(desk, app, cookie):
    _, fields = await app.consent_of(cookie)
    await desk.provider.clients.delete(app.client_id, by="test")

    answer = await app.decide(cookie, fields)

    assert (answer.status, "Location" in answer.headers) == (400, False)
    assert await desk.rows(t.code) == []


async def test_it_ends_after_ten_minutes(open_idp, register_app):
    clock = FakeClock(1_800_000_000_000_000)
    desk = await open_idp(clock=clock)
    app = await register_app(desk)
    cookie = await desk.cookie("alice")
    _, fields = await app.consent_of(cookie)
    clock.advance(600)

    assert (await app.decide(cookie, fields)).status == 404


async def test_s013_the_form_decides_nothing_but_yes_or_no(app, cookie):
    _, fields = await app.consent_of(cookie, scope="openid")
    forged = {**fields, "scope": "openid profile email", "scopes": "email", "client_id": "other", "redirect_uri": "https://evil.example/"}

    answer = await app.decide(cookie, forged)

    code = app.told(answer)["code"]
    assert (await app.redeem(code)).json["scope"] == "openid"


async def test_s008_a_parameter_given_twice_is_refused(desk, app, cookie):
    _, fields = await app.consent_of(cookie)
    twice = [("x", "1"), ("x", "2")]

    shown = await desk.get(f"/api/auth/consent?{urlencode([('consent_id', fields['consent_id']), *twice])}", cookie=cookie)
    decided = await desk.post("/api/auth/consent", cookie=cookie, data=[*fields.items(), ("decision", "approve"), *twice])

    assert [(answer.status, answer.json["error"]) for answer in (shown, decided)] == [(400, "invalid_request")] * 2
    assert await desk.rows(t.code) == []


@pytest.mark.parametrize("decision", ["", "maybe", "APPROVE"])
async def test_another_decision_is_400(app, cookie, decision):
    _, fields = await app.consent_of(cookie)

    assert (await app.decide(cookie, fields, decision)).status == 400


async def test_s066_a_form_needs_its_token(desk, app, cookie):
    _, fields = await app.consent_of(cookie)
    bare = {"consent_id": fields["consent_id"], "decision": "approve"}

    for form in (bare, {**bare, "form_token": "x" * 43}, {**bare, "form_token": "é"}):
        answer = await desk.post("/api/auth/consent", cookie=cookie, data=form)
        assert (answer.status, answer.json["error"]) == (403, "csrf")

    assert await desk.rows(t.code) == []


async def test_our_own_form_comes_with_origin_null(app, cookie):
    # what a browser sends from a page with Referrer-Policy: no-referrer
    _, fields = await app.consent_of(cookie)

    assert app.told(await app.decide(cookie, fields, headers={"Origin": "null", "Sec-Fetch-Site": "same-origin"}))["code"]
