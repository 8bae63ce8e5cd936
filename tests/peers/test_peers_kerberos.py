"""Programs of others sign in by a ticket of a real KDC: curl, requests-gssapi and Chromium."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rig.browser import CHROMIUM, chromium
from rig.clients import run
from rig.kdc import REALM, Kdc
from rig.realm import need_kerberos, realm_in

from greatseal.testing.plugin import StartService

PAGE = "/ui/auth/login?return_to=%2Faccount"


class Site(msgspec.Struct, frozen=True):
    """The service, and alice's tickets as an environment."""

    url: str
    environ: dict[str, str]


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    need_kerberos()
    with realm_in(tmp_path_factory.mktemp("realm")) as kdc:
        yield kdc


@pytest.fixture
async def site(kdc: Kdc, start_service: StartService, tmp_path: Path) -> Site:
    people = tmp_path / "users.toml"
    people.write_text('[[user]]\nusername = "alice"\ndisplay_name = "Alice of the realm"\n')
    people.chmod(0o600)
    gssapi, server = {"keytab_file": str(kdc.folder / "http.keytab")}, {"realm": REALM}
    features = ("idp", "resolver", "users-file", "gssapi", "spnego")
    service = await start_service(*features, server=server, gssapi=gssapi, users={"file": str(people)})
    return Site(service.url, await asyncio.to_thread(kdc.ticket_for, "alice", password="alicepw", cache="cc-peers"))


async def test_curl_signs_in(site: Site, program: Callable[[str, str], Path], tmp_path: Path) -> None:
    cookies = tmp_path / "cookies"
    asked = (program("curl", "curl"), "-sS", "--negotiate", "-u", ":", "-c", cookies, "-b", cookies)

    told = await asyncio.to_thread(
        run,
        *asked,
        "-o",
        tmp_path / "page",
        "-w",
        "%{http_code} %{redirect_url}",
        f"{site.url}{PAGE}&negotiate=1",
        folder=tmp_path,
        environ=site.environ,
    )
    me = await asyncio.to_thread(run, *asked, f"{site.url}/api/auth/me", folder=tmp_path, environ=site.environ)

    assert told == f"302 {site.url}/account"
    assert msgspec.json.decode(me)["sub"] == f"alice@{REALM}"


async def test_requests_gssapi_signs_in_and_verifies_the_service(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    import requests
    from requests_gssapi import REQUIRED, HTTPSPNEGOAuth

    monkeypatch.setenv("KRB5CCNAME", site.environ["KRB5CCNAME"])

    def sign_in() -> Any:
        with requests.Session() as session:
            auth = HTTPSPNEGOAuth(mutual_authentication=REQUIRED)
            answer = session.get(f"{site.url}{PAGE}&negotiate=1", auth=auth, allow_redirects=False, timeout=30)
            assert (answer.status_code, answer.headers["Location"]) == (302, "/account")
            return session.get(f"{site.url}/api/auth/me", timeout=30).json()

    assert (await asyncio.to_thread(sign_in))["sub"] == f"alice@{REALM}"


@pytest.mark.parametrize("private", [False, True])
async def test_chromium_signs_in_at_the_second_press_of_a_new_profile_and_then_at_the_first(
    site: Site, kdc: Kdc, program: Callable[[str, str], Path], private: bool
) -> None:
    if CHROMIUM is None:
        program("chromium", "chromium")
    asked = kdc.log().count("for HTTP/localhost")
    async with chromium("--auth-server-allowlist=localhost", environ=site.environ) as browser:
        page = await browser.page(private=private)
        await page.goto(f"{site.url}{PAGE}")
        # Chromium on Linux loads Kerberos only after a site asked for it (its preference net.received_http_auth_negotiate_headers).
        await page.click("#option-kerberos", to=f"{site.url}/ui/auth/login")
        assert await page.run("document.querySelector('#login-form') !== null")

        for _ in range(2):
            await page.goto(f"{site.url}{PAGE}")
            await page.click("#option-kerberos", to=f"{site.url}/account")
            assert f"alice@{REALM}" in await page.text()
            await page.call("Network.clearBrowserCookies")

    assert kdc.log().count("for HTTP/localhost") == asked + 1


async def test_chromium_that_was_not_told_of_the_site_shows_no_ticket(site: Site, program: Callable[[str, str], Path]) -> None:
    if CHROMIUM is None:
        program("chromium", "chromium")
    async with chromium(environ=site.environ) as browser:
        page = await browser.page(private=False)
        for _ in range(2):
            await page.goto(f"{site.url}{PAGE}")
            await page.click("#option-kerberos", to=f"{site.url}/ui/auth/login")

            assert await page.run("document.querySelector('#login-form') !== null")


async def test_chromium_without_a_ticket_shows_the_form(site: Site, program: Callable[[str, str], Path], tmp_path: Path) -> None:
    if CHROMIUM is None:
        program("chromium", "chromium")
    environ = {**site.environ, "KRB5CCNAME": f"FILE:{tmp_path}/empty"}
    async with chromium("--auth-server-allowlist=localhost", environ=environ) as browser:
        page = await browser.page()
        await page.goto(f"{site.url}{PAGE}")

        await page.click("#option-kerberos", to=f"{site.url}/ui/auth/login")

        assert await page.run("document.querySelector('#login-form') !== null")
