"""The pages: what they say, where their forms go, and what protects them."""

import re

import pytest

from greatseal.api.directory import AccountState

PAGES = ("/ui/auth/login", "/account", "/logout")


async def login_form(desk, path="/ui/auth/login", cookie=""):
    page = await desk.get(path, cookie=cookie, headers={"Accept": "text/html"})
    fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', page.text))
    own = page.headers.get("Set-Cookie", "").partition(";")[0]
    return fields, "; ".join(part for part in (cookie, own) if part)


async def test_idp_222_login_leads_to_the_page(desk):
    answer = await desk.get("/login?return_to=/account")

    assert (answer.status, answer.location) == (302, "/ui/auth/login?return_to=/account")


async def test_idp_223_the_page_has_the_stable_names(desk):
    page = await desk.get("/ui/auth/login")

    assert page.status == 200
    assert '<form id="login-form" method="post" action="/login">' in page.text
    assert '<label for="username">' in page.text
    assert '<label for="password">' in page.text
    assert 'name="username"' in page.text
    assert '<html lang="en">' in page.text
    assert "<script" not in page.text
    assert '<a class="button second" id="option-other" href="/auth/external/other">Other place</a>' in page.text


async def test_idp_227_success_sets_the_cookie_and_goes_to_the_account(desk):
    fields, cookie = await login_form(desk)

    answer = await desk.post("/login", data={**fields, "username": "alice", "password": "wonderland"}, cookie=cookie)

    assert (answer.status, answer.location) == (303, "/account")
    account = await desk.get("/account", cookie=answer.cookie)
    assert "<h1>Alice</h1>" in account.text
    assert "alice@LOCALHOST" in account.text
    assert "alice@example.com" in account.text


@pytest.mark.parametrize(("username", "password"), [("alice", "hunter22"), ("nobody", "hunter22")])
async def test_s078_a_failure_is_the_same_page_for_everybody(desk, username, password):
    fields, cookie = await login_form(desk)

    answer = await desk.post("/login", data={**fields, "username": username, "password": password}, cookie=cookie)

    assert answer.status == 401
    assert "The user name or the password is wrong." in answer.text
    assert f'value="{username}"' in answer.text
    assert password not in answer.text
    assert '<div class="alert" role="alert" id="problem">' in answer.text
    assert "<title>Error: Sign in" in answer.text


async def test_the_log_has_the_cause_that_the_page_does_not_say(desk, capsys):
    fields, cookie = await login_form(desk)

    answer = await desk.post("/login", data={**fields, "username": "alice", "password": "hunter22"}, cookie=cookie)

    told = " ".join(capsys.readouterr().out.split())
    assert "refused on a page" in told
    assert "the password of people is wrong" in told
    assert "hunter22" not in told
    assert "of people" not in answer.text


@pytest.mark.parametrize("missing", ["username", "password"])
async def test_an_empty_field_is_said(desk, missing):
    fields, cookie = await login_form(desk)
    form = {**fields, "username": "alice", "password": "wonderland", missing: ""}

    assert (await desk.post("/login", data=form, cookie=cookie)).status == 400


async def test_s066_without_its_token_the_form_is_shown_again(desk):
    fields, cookie = await login_form(desk)
    form = {"username": "alice", "password": "wonderland"}

    for data, sent in ((form, cookie), ({**form, **fields}, ""), ({**form, "form_token": "x"}, cookie)):
        answer = await desk.post("/login", data=data, cookie=sent)
        assert answer.status == 403
        assert "greatseal_session" not in answer.headers.get("Set-Cookie", "")
        assert 'id="login-form"' in answer.text


async def test_a_form_works_after_another_tab_signed_in(desk):
    fields, cookie = await login_form(desk)
    session = await desk.cookie("bob")

    answer = await desk.post("/login", data={**fields, "username": "alice", "password": "wonderland"}, cookie=f"{cookie}; {session}")

    assert answer.status == 303


async def test_too_many_attempts_are_said_on_the_page(open_idp):
    desk = await open_idp(server={"auth_rate_limit": 1})
    fields, cookie = await login_form(desk)
    form = {**fields, "username": "alice", "password": "wrong"}
    await desk.post("/login", data=form, cookie=cookie)

    answer = await desk.post("/login", data=form, cookie=cookie)

    assert answer.status == 429
    assert int(answer.headers["Retry-After"]) > 0
    assert 'id="login-form"' in answer.text


async def test_a_refusing_check_is_said_on_the_page(desk):
    desk.people.shut = "login"
    fields, cookie = await login_form(desk)

    answer = await desk.post("/login", data={**fields, "username": "alice", "password": "wonderland"}, cookie=cookie)

    assert answer.status == 403
    assert "greatseal_session" not in answer.headers.get("Set-Cookie", "")


async def test_a_directory_that_is_down_is_a_page_of_its_own(desk):
    fields, cookie = await login_form(desk)
    desk.people.down = True

    answer = await desk.post(
        "/login", data={**fields, "username": "alice", "password": "wonderland"}, cookie=cookie, headers={"Accept": "text/html"}
    )

    assert answer.status == 503
    assert "Part of the service cannot be reached" in answer.text


async def test_options_that_fail_are_left_out(desk):
    desk.people.down = True

    page = await desk.get("/ui/auth/login")

    assert page.status == 200
    assert "option-other" not in page.text


# ---- the account


async def test_the_front_door_shows_the_way_to_the_account_and_that_to_the_sign_in(desk):
    front = await desk.get("/")

    assert (front.status, f'href="{desk.url}/account"' in front.text) == (200, True)
    assert (await desk.get("/account")).location == "/ui/auth/login?return_to=%2Faccount"


async def test_idp_340_without_static_dir_there_is_no_management_interface(desk, cookie):
    for path in ("/ui", "/ui/", "/ui/index.html", "/ui/withdraw"):
        assert (await desk.get(path, cookie=cookie)).status == 404, path


async def test_what_the_person_may_do(open_idp):
    role = {"name": "helpdesk", "permissions": ["users:read", "audit:read"], "groups": ["staff"]}
    desk = await open_idp(rbac={"role": [role]})

    alice = await desk.get("/account", cookie=await desk.cookie("alice"))
    bob = await desk.get("/account", cookie=await desk.cookie("bob"))

    assert "users:read" in alice.text
    assert "no part in the administration" in bob.text


async def test_what_the_person_allowed(desk, app, cookie):
    await app.allowed(cookie)

    account = await desk.get("/account", cookie=cookie)

    (shown,) = re.findall(r"<dt>The shop</dt>\s*<dd>(.*?)<span", account.text, re.DOTALL)
    assert re.findall(r"(.+)<br>", shown) == ["Sign you in", "See your name and profile"]


async def test_asvs_10_4_9_the_person_takes_back_what_a_client_was_allowed(desk, app, cookie):
    allowed = app.told(await app.allowed(cookie, scope="openid offline_access"))
    tokens = (await app.redeem(allowed["code"])).json
    account = await desk.get("/account", cookie=cookie)
    fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', account.text.partition("logout-form")[0]))
    assert (await desk.post("/account/withdraw", data={**fields, "form_token": "x"}, cookie=cookie)).status == 403
    foreign = {"Origin": "https://evil.example"}
    assert (await desk.post("/account/withdraw", data=fields, cookie=cookie, headers=foreign)).status == 403

    answer = await desk.post("/account/withdraw", data=fields, cookie=cookie)

    assert (answer.status, answer.location) == (303, "/account")
    assert "None yet." in (await desk.get("/account", cookie=cookie)).text
    again = await desk.post(
        "/token", data={"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}, headers=app.credentials
    )
    assert again.json["error"] == "invalid_grant"
    assert app.told(await app.ask(cookie, scope="openid", prompt="none"))["error"] == "consent_required"
    (event,) = await desk.events("consent_withdrawn")
    assert (event.sub, event.client_id) == ("alice@LOCALHOST", app.client_id)


async def test_taking_back_ends_codes_and_access_tokens_too(desk, app, cookie):
    used = app.told(await app.allowed(cookie))["code"]
    token = (await app.redeem(used)).json["access_token"]
    code = app.told(await app.ask(cookie))["code"]
    _, fields = await app.consent_of(cookie, prompt="consent")

    await desk.post("/account/withdraw", data={"client_id": app.client_id, "form_token": fields["form_token"]}, cookie=cookie)

    assert (await app.redeem(code)).json["error"] == "invalid_grant"
    assert (await desk.get("/userinfo", headers={"Authorization": f"Bearer {token}"})).status == 401


async def test_a_form_that_is_too_old_says_so(desk, app, cookie):
    _, fields = await app.consent_of(cookie)

    answer = await app.decide(cookie, {**fields, "form_token": "of-another-session"}, headers={"Accept": "text/html"})

    assert answer.status == 403
    assert "page was open for too long" in answer.text


async def test_the_page_for_the_person_of_a_hint_has_the_name(desk, app):
    hint = await desk.provider.signing.jwt("JWT", {"iss": desk.url, "aud": app.client_id, "sub": "alice@LOCALHOST", "iat": 1, "exp": 2})

    asked = await app.ask(id_token_hint=hint)

    assert 'value="alice"' in (await desk.get(asked.location)).text


async def test_the_account_has_a_way_out(desk, cookie):
    account = await desk.get("/account", cookie=cookie)
    fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', account.text))

    answer = await desk.post("/logout", data={**fields, "confirm": "yes"}, cookie=cookie)

    assert answer.status == 200
    assert "<h1>You are signed out</h1>" in answer.text
    assert (await desk.get("/api/auth/me", cookie=cookie)).status == 401


@pytest.mark.parametrize("path", PAGES)
async def test_s014_s015_s076_b17_b24_headers_of_pages(desk, cookie, path):
    page = await desk.get(path, cookie=cookie, headers={"Accept": "text/html"})

    assert page.status == 200
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["X-Frame-Options"] == "DENY"
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    policy = page.headers["Content-Security-Policy"]
    assert policy == ("default-src 'none'; style-src 'self'; img-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")


async def test_the_style_sheet_is_kept_for_ever_under_its_hash(desk):
    page = await desk.get("/ui/auth/login")
    path = re.search(r'href="(/assets/greatseal-[0-9a-f]{16}\.css)"', page.text)[1]

    style = await desk.get(path)

    assert style.headers["Content-Type"] == "text/css; charset=utf-8"
    assert style.headers["Cache-Control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ("https://app.example/cb", "form-action 'self' https:;"),
        ("http://localhost:3000/cb", "form-action 'self' http:;"),
        ("http://127.0.0.1/cb", "form-action 'self' http:;"),
        ("http://[::1]:3000/cb", "form-action 'self' http:;"),
    ],
)
async def test_forms_may_lead_to_the_application(desk, register_app, cookie, target, source):
    app = await register_app(desk, redirect_uris=[target])

    page, _ = await app.consent_of(cookie, redirect_uri=target)
    login = await desk.get((await app.ask(redirect_uri=target)).location)

    assert source in page.headers["Content-Security-Policy"]
    assert source in login.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("look", "policy", "tag"),
    [
        ({"logo_url": "https://cdn.example/logo.svg"}, "img-src https://cdn.example;", '<img src="https://cdn.example/logo.svg" alt="">'),
        ({"logo_url": "/logo.svg"}, "img-src 'self';", '<img src="/logo.svg" alt="">'),
        ({"default_theme": "dark"}, "img-src 'none';", '<html lang="en" data-theme="dark">'),
        ({"display_name": "Example <Ltd>"}, "img-src 'none';", "<p>Example &lt;Ltd&gt;</p>"),
    ],
)
async def test_idp_247_idp_248_the_look_is_configured(open_idp, look, policy, tag):
    desk = await open_idp(webui=look)

    page = await desk.get("/ui/auth/login")

    assert tag in page.text
    assert policy in page.headers["Content-Security-Policy"]


async def test_idp_228_an_expired_password_leads_to_its_change(desk):
    desk.people.change("alice", state=AccountState(password_expired=True))
    fields, cookie = await login_form(desk)

    answer = await desk.post("/login", data={**fields, "username": "alice", "password": "wonderland"}, cookie=cookie)

    assert (answer.status, answer.location) == (303, "/login/change-password?username=alice&next=%2Faccount")
    assert "greatseal_change=" in answer.headers["Set-Cookie"]
    assert "greatseal_session" not in answer.headers.get("Set-Cookie", "")
