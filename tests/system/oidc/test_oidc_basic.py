"""The modules of the public OpenID Connect basic and form-post plans, one test each, named after it."""

import json

import pytest
from system.oidc.relying import CALLBACK

from greatseal.testing.desk import CHALLENGE, VERIFIER

PROFILE = {"name", "preferred_username"}


@pytest.fixture(params=["query", "form_post"])
async def rp(request, party):
    """A relying party; every module runs with the default response mode and with form_post."""
    party = await party()
    party.form_post = request.param == "form_post"
    return party


async def test_oidcc_server(rp):
    tokens = await rp.sign_in()

    assert tokens["claims"]["sub"] == "alice@LOCALHOST"
    assert {"iat", "exp", "auth_time", "acr", "amr", "sid", "at_hash"} <= tokens["claims"].keys()
    assert tokens["scope"] == "openid"


async def test_oidcc_response_type_missing(rp):
    page = await rp.begin(rp.request(response_type=None))

    assert page.answer["error"] == "invalid_request"


@pytest.mark.parametrize("response_type", ["token", "id_token", "code token", "id_token token", "none", "CODE"])
async def test_oidcc_response_type_that_is_not_offered(rp, response_type):
    page = await rp.begin(rp.request(response_type=response_type))

    assert page.answer["error"] == "unsupported_response_type"


async def test_oidcc_userinfo_get(rp):
    tokens = await rp.sign_in()

    assert (await rp.userinfo(tokens["access_token"]))["sub"] == tokens["claims"]["sub"]


async def test_oidcc_userinfo_post_header(rp):
    tokens = await rp.sign_in()
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}

    async with rp.browser.session.post(rp.metadata["userinfo_endpoint"], headers=headers) as reply:
        assert (reply.status, (await reply.json())["sub"]) == (200, tokens["claims"]["sub"])


async def test_oidcc_userinfo_post_body(rp):
    tokens = await rp.sign_in()

    async with rp.browser.session.post(rp.metadata["userinfo_endpoint"], data={"access_token": tokens["access_token"]}) as reply:
        assert (reply.status, (await reply.json())["sub"]) == (200, tokens["claims"]["sub"])


async def test_oidcc_ensure_request_without_nonce_succeeds_for_code_flow(rp):
    assert "nonce" not in (await rp.sign_in(nonce=None))["claims"]


async def test_oidcc_scope_profile(rp):
    tokens = await rp.sign_in(scope="openid profile")

    found = await rp.userinfo(tokens["access_token"])
    assert found.keys() >= PROFILE


async def test_oidcc_scope_email(rp):
    tokens = await rp.sign_in(scope="openid email")

    assert (await rp.userinfo(tokens["access_token"]))["email"] == "alice@example.org"


@pytest.mark.parametrize("scope", ["address", "phone"])
async def test_oidcc_scope_address_and_phone(rp, scope):
    tokens = await rp.sign_in(scope=f"openid {scope}")

    found = await rp.userinfo(tokens["access_token"])
    assert found.keys() == {"sub"}  # claims without a value are left out


async def test_oidcc_scope_all(rp):
    tokens = await rp.sign_in(scope="openid profile email address phone")

    assert {*PROFILE, "email"} <= (await rp.userinfo(tokens["access_token"])).keys()


async def test_oidcc_ensure_other_scope_order_succeeds(rp):
    assert (await rp.sign_in(scope="email openid"))["claims"]["sub"]


@pytest.mark.parametrize("display", ["page", "popup"])
async def test_oidcc_display(rp, display):
    assert (await rp.sign_in(display=display))["claims"]["sub"]


async def test_oidcc_prompt_login(rp, clock):
    first = await rp.sign_in()
    rp.browser.forget()
    clock.advance(3)
    second = await rp.sign_in(prompt="login")

    assert rp.browser.saw("login-form")
    assert second["claims"]["auth_time"] > first["claims"]["auth_time"]


async def test_oidcc_prompt_none_not_logged_in(rp):
    page = await rp.begin(rp.request(prompt="none"))

    assert page.answer["error"] == "login_required"


async def test_oidcc_prompt_none_logged_in(rp):
    first = await rp.sign_in()
    rp.browser.forget()
    second = await rp.sign_in(prompt="none")

    assert not rp.browser.saw("login-form")
    assert second["claims"]["auth_time"] == first["claims"]["auth_time"]


async def test_oidcc_max_age_1(rp, clock):
    first = await rp.sign_in()
    rp.browser.forget()
    clock.advance(3)
    rp.browser.forget()

    second = await rp.sign_in(max_age="1")

    assert rp.browser.saw("login-form")
    assert second["claims"]["auth_time"] > first["claims"]["auth_time"]


async def test_oidcc_max_age_10000(rp):
    first = await rp.sign_in()
    rp.browser.forget()
    second = await rp.sign_in(max_age="10000")

    assert not rp.browser.saw("login-form")
    assert second["claims"]["auth_time"] == first["claims"]["auth_time"]


async def test_oidcc_ensure_request_with_unknown_parameter_succeeds(rp):
    assert (await rp.sign_in(extra="foobar"))["claims"]["sub"]


async def test_oidcc_id_token_hint(rp):
    first = await rp.sign_in()
    second = await rp.sign_in(prompt="none", id_token_hint=first["id_token"])

    assert second["claims"]["sub"] == first["claims"]["sub"]


async def test_oidcc_login_hint(rp):
    page = await rp.begin(rp.request(login_hint="alice"))

    assert page.forms["login-form"].fields["username"] == "alice"


@pytest.mark.parametrize("name", ["ui_locales", "claims_locales"])
async def test_oidcc_ui_locales_and_claims_locales(rp, name):
    assert (await rp.sign_in(**{name: "se de"}))["claims"]["sub"]


async def test_oidcc_ensure_request_with_acr_values_succeeds(rp):
    assert (await rp.sign_in(acr_values="urn:example:one urn:example:two"))["claims"]["acr"]


async def test_oidcc_codereuse(rp):
    _, answer = await rp.authorize()
    status, tokens = await rp.redeem(answer["code"])
    assert status == 200

    status, refusal = await rp.redeem(answer["code"])

    assert (status, refusal["error"]) == (400, "invalid_grant")
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    async with rp.browser.session.get(rp.metadata["userinfo_endpoint"], headers=headers) as reply:
        assert reply.status == 401  # RFC 6749 s4.1.2: what the code gave is revoked


@pytest.mark.parametrize("redirect_uri", ["https://rp.example/other", "https://rp.example/callback/", "https://evil.example/callback"])
async def test_oidcc_ensure_registered_redirect_uri(rp, redirect_uri):
    page = await rp.begin(rp.request(redirect_uri=redirect_uri))

    assert page.url.startswith(rp.browser.issuer)
    assert page.status == 400


async def test_oidcc_ensure_post_request_succeeds(rp):
    page = await rp.browser.open(rp.metadata["authorization_endpoint"], data=rp.request(), same_site=False)

    assert (await rp.browser.finish(page)).answer["code"]


async def test_oidcc_server_client_secret_post(party):
    rp = await party(token_endpoint_auth_method="client_secret_post")

    assert (await rp.sign_in())["claims"]["sub"]


async def test_oidcc_request_uri_unsigned_supported_correctly_or_rejected_as_unsupported(rp):
    page = await rp.begin(rp.request(request_uri="https://rp.example/request.jwt"))

    assert page.answer["error"] == "request_uri_not_supported"


async def test_oidcc_unsigned_request_object_supported_correctly_or_rejected_as_unsupported(rp):
    page = await rp.begin(rp.request(request="eyJhbGciOiJub25lIn0.e30."))

    assert page.answer["error"] == "request_not_supported"


async def test_oidcc_claims_essential(rp):
    wanted = json.dumps({"userinfo": {"name": {"essential": True}}, "id_token": {"email": None}})
    tokens = await rp.sign_in(claims=wanted)

    assert (await rp.userinfo(tokens["access_token"]))["name"] == "Alice Adams"
    assert tokens["claims"]["email"] == "alice@example.org"


async def test_oidcc_refresh_token(rp):
    first = await rp.sign_in(scope="openid offline_access", prompt="consent")
    status, second = await rp.token(grant_type="refresh_token", refresh_token=first["refresh_token"])

    assert status == 200
    claims = await rp.verify(second["id_token"])
    same = ("iss", "sub", "aud", "auth_time")
    assert {name: claims[name] for name in same} == {name: first["claims"][name] for name in same}
    assert second["refresh_token"] != first["refresh_token"]


async def test_oidcc_refresh_token_of_another_client(rp, party):
    tokens = await rp.sign_in(scope="openid offline_access", prompt="consent")
    other = await party(browser=rp.browser)

    status, refusal = await other.token(grant_type="refresh_token", refresh_token=tokens["refresh_token"])

    assert (status, refusal["error"]) == (400, "invalid_grant")


async def test_oidcc_ensure_request_with_valid_pkce_succeeds(rp):
    _, answer = await rp.authorize(code_challenge=CHALLENGE, code_challenge_method="S256")

    status, _ = await rp.redeem(answer["code"], code_verifier=VERIFIER)

    assert status == 200


async def test_oidcc_consent_that_is_denied(rp):
    parameters = rp.request(prompt="consent")
    page = await rp.browser.finish(await rp.begin(parameters), decision="deny")

    assert page.answer["error"] == "access_denied"
    assert page.answer["state"] == parameters["state"]


async def test_form_post_is_a_page_that_posts_itself_and_works_without_scripts(party):
    rp = await party()
    rp.form_post = True
    page = await rp.browser.finish(await rp.begin(rp.request()))

    (form,) = (form for form in page.forms.values() if form.action == CALLBACK)
    assert {"code", "state", "iss"} <= form.fields.keys()
    assert form.buttons
    assert "no-store" in page.headers["Cache-Control"]
    assert "form-action 'self' https:;" in page.headers["Content-Security-Policy"]
