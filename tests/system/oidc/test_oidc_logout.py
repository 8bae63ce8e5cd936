"""The modules of the public RP-initiated and back-channel logout plans, one test each, named after it."""

import asyncio
import json
from html import escape
from urllib.parse import urlencode

import pytest
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import KeySet
from system.oidc.relying import LOGGED_OUT

EVENT = "http://schemas.openid.net/event/backchannel-logout"


@pytest.fixture
async def rp(party):
    return await party()


async def log_out(rp, **parameters):
    """Open the end session endpoint; confirm where the person is asked."""
    page = await rp.browser.open(f"{rp.metadata['end_session_endpoint']}?{urlencode(parameters)}")
    while "logout-form" in page.forms:
        page = await rp.browser.submit(page, "logout-form", "sign-out")
    return page


async def signed_in(rp):
    return "error" not in (await rp.begin(rp.request(prompt="none"))).answer


async def test_oidcc_rp_initiated_logout(rp):
    tokens = await rp.sign_in()

    page = await log_out(rp, id_token_hint=tokens["id_token"], post_logout_redirect_uri=LOGGED_OUT, state="s1")

    assert page.url == f"{LOGGED_OUT}?state=s1"
    assert not await signed_in(rp)


async def test_oidcc_rp_initiated_logout_no_state(rp):
    tokens = await rp.sign_in()

    page = await log_out(rp, id_token_hint=tokens["id_token"], post_logout_redirect_uri=LOGGED_OUT)

    assert page.url == LOGGED_OUT
    assert not await signed_in(rp)


@pytest.mark.parametrize("uri", ["https://rp.example/other", "https://evil.example/", f"{LOGGED_OUT}?foo=bar", f"{LOGGED_OUT}/"])
async def test_oidcc_rp_initiated_logout_bad_post_logout_redirect_uri(rp, uri):
    tokens = await rp.sign_in()

    page = await log_out(rp, id_token_hint=tokens["id_token"], post_logout_redirect_uri=uri, state="s1")

    assert page.url.startswith(rp.browser.issuer)
    assert page.status == 400


async def test_oidcc_rp_initiated_logout_modified_id_token_hint(rp):
    tokens = await rp.sign_in()
    head, body, signature = tokens["id_token"].split(".")

    page = await log_out(rp, id_token_hint=f"{head}.{body}.{signature[::-1]}", post_logout_redirect_uri=LOGGED_OUT)

    assert page.url.startswith(rp.browser.issuer)


async def test_oidcc_rp_initiated_logout_bad_id_token_hint(rp):
    await rp.sign_in()

    page = await log_out(rp, id_token_hint="not a token", post_logout_redirect_uri=LOGGED_OUT)

    assert page.url.startswith(rp.browser.issuer)


async def test_oidcc_rp_initiated_logout_no_id_token_hint(rp):
    await rp.sign_in()

    page = await rp.browser.open(f"{rp.metadata['end_session_endpoint']}?{urlencode({'post_logout_redirect_uri': LOGGED_OUT})}")

    assert page.url.startswith(rp.browser.issuer)


async def test_oidcc_rp_initiated_logout_no_params(rp):
    await rp.sign_in()

    page = await rp.browser.open(rp.metadata["end_session_endpoint"])
    assert "logout-form" in page.forms  # without a hint the person is asked
    page = await rp.browser.submit(page, "logout-form", "sign-out")

    assert page.status == 200
    assert not await signed_in(rp)


async def test_oidcc_rp_initiated_logout_only_state(rp):
    await rp.sign_in()

    page = await log_out(rp, state="s1")

    assert page.url.startswith(rp.browser.issuer)
    assert not await signed_in(rp)


async def test_oidcc_rp_initiated_logout_no_post_logout_redirect_uri(rp):
    tokens = await rp.sign_in()

    page = await log_out(rp, id_token_hint=tokens["id_token"], state="s1")

    assert page.url.startswith(rp.browser.issuer)
    assert "You are signed out" in page.text
    assert not await signed_in(rp)


async def test_oidcc_rp_initiated_logout_discovery_endpoint_verification(rp):
    assert rp.metadata["end_session_endpoint"].startswith(rp.metadata["issuer"])


async def test_oidcc_backchannel_logout_discovery_endpoint_verification(rp):
    assert rp.metadata["backchannel_logout_supported"] is True
    assert rp.metadata["backchannel_logout_session_supported"] is True


class Ear:
    """Where a relying party hears of logouts."""

    def __init__(self):
        self.heard = asyncio.Queue()
        self.answers = [200]

    async def hear(self, request):
        form = await request.post()
        await self.heard.put(form["logout_token"])
        return web.Response(status=self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])


@pytest.fixture
async def ear():
    ear = Ear()
    app = web.Application()
    app.router.add_post("/backchannel", ear.hear)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    ear.url = f"http://localhost:{runner.addresses[0][1]}/backchannel"
    yield ear
    await runner.cleanup()


async def test_oidcc_backchannel_rp_initiated_logout(party, ear):
    rp = await party(backchannel_logout_uri=ear.url, backchannel_logout_session_required=True)
    tokens = await rp.sign_in()

    await log_out(rp, id_token_hint=tokens["id_token"], post_logout_redirect_uri=LOGGED_OUT)
    logout_token = await asyncio.wait_for(ear.heard.get(), 20)

    async with rp.browser.session.get(rp.metadata["jwks_uri"]) as reply:
        keys = KeySet.import_key_set(await reply.json(content_type=None))
    token = jwt.decode(logout_token, keys, algorithms=["ES256", "RS256"])
    assert token.header["typ"] == "logout+jwt"
    assert token.claims["events"] == {EVENT: {}}
    assert (token.claims["iss"], token.claims["aud"]) == (rp.metadata["issuer"], rp.client_id)
    assert (token.claims["sub"], token.claims["sid"]) == (tokens["claims"]["sub"], tokens["claims"]["sid"])
    assert 0 < token.claims["exp"] - token.claims["iat"] <= 120
    assert token.claims["jti"]
    assert "nonce" not in token.claims
    assert json.dumps(token.claims)


async def test_oidcc_frontchannel_logout_discovery_endpoint_verification(rp):
    assert rp.metadata["frontchannel_logout_supported"] is True
    assert rp.metadata["frontchannel_logout_session_supported"] is True


async def test_oidcc_frontchannel_rp_initiated_logout(party):
    front = "https://rp.example/frontchannel"
    rp = await party(frontchannel_logout_uri=front, frontchannel_logout_session_required=True)
    tokens = await rp.sign_in()

    page = await log_out(rp, id_token_hint=tokens["id_token"], post_logout_redirect_uri=LOGGED_OUT, state="s1")

    told = urlencode({"iss": rp.metadata["issuer"], "sid": tokens["claims"]["sid"]})
    assert f'<iframe src="{escape(f"{front}?{told}")}"' in page.text
    assert f'url={escape(f"{LOGGED_OUT}?state=s1")}"' in page.text
    assert not await signed_in(rp)
