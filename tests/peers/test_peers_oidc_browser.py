"""Web applications that people use through a browser: Apache with mod_auth_openidc, and the relying party of our examples."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from rig.apache import APACHE, MOD_AUTH_OPENIDC, apache
from rig.browser import CHROMIUM, Page
from rig.provider import PASSWORD, USER, Provider

from greatseal.testing.service import free_port

EXAMPLE = Path(__file__).parents[2] / "examples" / "relying-party" / "relying_party.py"

in_the_browser = pytest.mark.asyncio(loop_scope="module")

if CHROMIUM is None and not os.environ.get("CI"):
    pytest.skip("the package chromium is not installed", allow_module_level=True)


@pytest.fixture
def httpd(provider: Provider) -> Iterator[str]:
    """The base URL of an Apache whose ``/private/`` asks the provider."""
    if APACHE is None or not MOD_AUTH_OPENIDC.exists():
        report = pytest.fail if os.environ.get("CI") else pytest.skip
        report("mod_auth_openidc is not installed: apt install libapache2-mod-auth-openidc")
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    registered = provider.register(
        client_name="Apache",
        redirect_uris=[f"{base}/callback"],
        post_logout_redirect_uris=[f"{base}/"],
        backchannel_logout_uri=f"{base}/callback?logout=backchannel",
        backchannel_logout_session_required=True,
    )
    guard = provider.register(client_name="Apache as a resource server", redirect_uris=None, scopes=["introspect"], grant_types=None)
    settings = {
        "OIDCProviderMetadataURL": f"{provider.issuer}/.well-known/openid-configuration",
        "OIDCClientID": registered["client_id"],
        "OIDCClientSecret": registered["client_secret"],
        "OIDCRedirectURI": f"{base}/callback",
        "OIDCCryptoPassphrase": "a passphrase of this server alone",
        "OIDCScope": "openid profile email",
        "OIDCPKCEMethod": "S256",
        "OIDCRemoteUserClaim": "preferred_username",
        "OIDCDefaultLoggedOutURL": f"{base}/",
        "OIDCOAuthServerMetadataURL": f"{provider.issuer}/.well-known/oauth-authorization-server",
        "OIDCOAuthIntrospectionEndpointAuth": "client_secret_basic",
        "OIDCOAuthClientID": guard["client_id"],
        "OIDCOAuthClientSecret": guard["client_secret"],
        "OIDCOAuthTokenIntrospectionInterval": "-1",
        "OIDCOAuthRemoteUserClaim": "sub",
    }
    with apache(port, settings) as url:
        yield url


@pytest.fixture
def relying_party(provider: Provider) -> Iterator[str]:
    """The base URL of the example, run as its README says."""
    port = free_port()
    base = f"http://localhost:{port}"
    registered = provider.register(redirect_uris=[f"{base}/callback"], post_logout_redirect_uris=[f"{base}/"])
    command = [sys.executable, EXAMPLE, provider.issuer, registered["client_id"], registered["client_secret"], str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "Running on" in process.stdout.readline()
            yield base
        finally:
            process.terminate()


async def sign_in(page: Page, to: str) -> None:
    await page.fill("#username", USER)
    await page.fill("#password", PASSWORD)
    await page.click("#sign-in", to=to)


async def text_of(page: Page, selector: str) -> Any:
    return await page.run(f"document.querySelector({selector!r}).innerText")


@in_the_browser
async def test_mod_auth_openidc_signs_in_and_out(provider: Provider, httpd: str, page: Page) -> None:
    await page.goto(f"{httpd}/private/", to=f"{provider.issuer}/ui/auth/login")
    await sign_in(page, f"{provider.issuer}/api/auth/consent")
    await page.click("#approve", to=f"{httpd}/private/")
    assert await text_of(page, "#user") == USER
    assert await text_of(page, "#email") == "ada@example.org"
    assert await text_of(page, "#name") == "Ada Example"

    await page.goto(f"{httpd}/callback?logout=http%3A%2F%2F127.0.0.1%3A{httpd.rpartition(':')[2]}%2F", to=f"{httpd}/")

    assert await page.text() == "Signed out"
    await page.goto(f"{httpd}/private/", to=f"{provider.issuer}/ui/auth/login")


def test_mod_auth_openidc_asks_whether_an_access_token_is_live(provider: Provider, httpd: str) -> None:
    job = provider.register(
        redirect_uris=None, post_logout_redirect_uris=None, grant_types=["client_credentials"], scopes=["profile", "email"]
    )
    proof = (job["client_id"], job["client_secret"])

    def token(scope: str) -> str:
        form = {"grant_type": "client_credentials", "scope": scope}
        return str(requests.post(f"{provider.issuer}/token", form, auth=proof, timeout=10).json()["access_token"])

    def call(bearer: str) -> int:
        return requests.get(f"{httpd}/api/", headers={"Authorization": f"Bearer {bearer}"}, timeout=10).status_code

    enough = token("profile email")
    assert call(enough) == 200
    assert call(token("email")) == 401
    assert call(f"{enough}x") == 401

    requests.post(f"{provider.issuer}/revoke", {"token": enough}, auth=proof, timeout=10).raise_for_status()

    assert call(enough) == 401


@in_the_browser
async def test_mod_auth_openidc_hears_that_somebody_signed_out(provider: Provider, httpd: str, page: Page) -> None:
    await page.goto(f"{httpd}/private/", to=f"{provider.issuer}/ui/auth/login")
    await sign_in(page, f"{provider.issuer}/api/auth/consent")
    await page.click("#approve", to=f"{httpd}/private/")

    await page.goto(f"{provider.issuer}/account")
    await page.click("#sign-out", to=f"{provider.issuer}/logout")

    # The notification goes its own way; a page that still opens was faster than it.
    while not (await page.goto(f"{httpd}/private/")).startswith(f"{provider.issuer}/ui/auth/login"):
        pass


@in_the_browser
async def test_the_example_signs_in_refreshes_and_signs_out(provider: Provider, relying_party: str, page: Page) -> None:
    await page.goto(f"{relying_party}/")
    await page.click("#sign-in", to=f"{provider.issuer}/ui/auth/login")
    await sign_in(page, f"{provider.issuer}/api/auth/consent")
    await page.click("#approve", to=f"{relying_party}/")
    shown = await page.text()
    assert "Hello, Ada Example" in shown
    assert "ada@example.org" in shown
    issued = await page.run(CLAIMS)

    await page.click("#refresh", to=f"{relying_party}/")
    assert "Hello, Ada Example" in await page.text()
    assert await page.run(CLAIMS) != issued

    await page.click("#sign-out", to=f"{relying_party}/")
    assert await page.run("document.querySelector('#sign-in') !== null")
    await page.click("#sign-in", to=f"{provider.issuer}/ui/auth/login")


@in_the_browser
async def test_the_example_says_that_somebody_refused(provider: Provider, relying_party: str, page: Page) -> None:
    await page.goto(f"{relying_party}/sign-in", to=f"{provider.issuer}/ui/auth/login")
    await sign_in(page, f"{provider.issuer}/api/auth/consent")

    await page.click("#deny", to=f"{relying_party}/callback")

    assert await text_of(page, "#error") == "access_denied"


CLAIMS = "document.querySelector('#claims').innerText"
