"""Our pages in a real browser: its idea of policies, cookies and redirects is the one that counts."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
import pytest_asyncio
from aiohttp import ClientSession, web
from rig.browser import CHROMIUM, CONTRAST, Browser, Page
from sqlalchemy import select

from greatseal.testing.service import Service, document, serve
from greatseal_idp import tables as t
from greatseal_idp.token.codes import note_client
from greatseal_users_file.edit import add

pytestmark = pytest.mark.asyncio(loop_scope="module")

PASSWORD = "correct horse battery"

if CHROMIUM is None and not os.environ.get("CI"):
    pytest.skip("the package chromium is not installed", allow_module_level=True)


class App:
    """An application whose redirect URI leads on to another host of its own, as that of a broker does."""

    def __init__(self) -> None:
        self.got: list[dict[str, str]] = []
        self.told: list[dict[str, str]] = []
        self.home = ""
        self.callback = ""

    async def called(self, request: web.Request) -> web.Response:
        members = dict(request.query) if request.method == "GET" else {name: str(value) for name, value in (await request.post()).items()}
        self.got.append(members)
        return web.Response(status=303, headers={"Location": self.home}) if self.home else await self.at_home(request)

    async def framed(self, request: web.Request) -> web.Response:
        self.told.append(dict(request.query))
        return web.Response(text="<!DOCTYPE html><title>signed out</title>", content_type="text/html")

    async def at_home(self, _request: web.Request) -> web.Response:
        return web.Response(text="<!DOCTYPE html><title>home</title><link rel=icon href=data:,>Welcome home", content_type="text/html")


@asynccontextmanager
async def listening() -> AsyncIterator[App]:
    app = App()
    application = web.Application()
    application.router.add_route("*", "/callback", app.called)
    application.router.add_get("/home", app.at_home)
    application.router.add_get("/front", app.framed)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        app.callback, app.home = f"http://localhost:{port}/callback", f"http://127.0.0.1:{port}/home"
        yield app
    finally:
        await runner.cleanup()


@pytest_asyncio.fixture(loop_scope="module")
async def app() -> AsyncIterator[App]:
    async with listening() as app:
        yield app


@pytest_asyncio.fixture(loop_scope="module")
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    add(tmp_path / "users.toml", "ada", PASSWORD, display_name="Ada Example", groups=("administrators",))
    async with serve(document(tmp_path, ["idp", "users-file", "device-flow"], users={"file": str(tmp_path / "users.toml")})) as service:
        yield service


async def request(service: Service, app: App, **more: str) -> str:
    """The URL of an authorization request of a client that was just registered."""
    host: Any = service.host("idp")
    body = {
        "client_name": "The app",
        "redirect_uris": [app.callback],
        "scopes": ["openid", "profile"],
        "token_endpoint_auth_method": "client_secret_basic",
        "client_secret": "s" * 43,
    }
    client = (await host._plugin.assembly(host).clients.register_body(body, open=False, by="test")).client
    asked = {"client_id": client.client_id, "redirect_uri": app.callback, "response_type": "code", "scope": "openid profile", "state": "x"}
    return f"{service.url}/authorize?{urlencode({**asked, **more})}"


async def sign_in(page: Page, to: str) -> None:
    await page.fill("#username", "ada")
    await page.fill("#password", PASSWORD)
    await page.click("#sign-in", to=to)


@pytest.mark.parametrize("response_mode", ["query", "form_post"])
async def test_a_person_signs_in_allows_and_is_taken_on_to_another_host(service: Service, app: App, page: Page, response_mode: str) -> None:
    url = await request(service, app, response_mode=response_mode)

    await page.goto(url, to=f"{service.url}/ui/auth/login")
    await sign_in(page, f"{service.url}/api/auth/consent")
    await page.click("#approve", to=app.home)

    (members,) = app.got
    assert members.keys() == {"code", "state", "iss"}
    assert members["iss"] == service.url
    assert await page.text() == "Welcome home"


@pytest.mark.parametrize("response_mode", ["query", "fragment", "form_post"])
async def test_the_second_time_the_password_form_leads_straight_there(service: Service, app: App, page: Page, response_mode: str) -> None:
    url = await request(service, app)
    await page.goto(url)
    await sign_in(page, f"{service.url}/api/auth/consent")
    await page.click("#approve", to=app.home)

    await page.goto(f"{url}&response_mode={response_mode}&prompt=login", to=f"{service.url}/ui/auth/login")
    await sign_in(page, app.home)

    assert len(app.got) == 2


async def test_the_first_field_has_the_focus_and_every_field_its_label(service: Service, page: Page) -> None:
    await page.goto(f"{service.url}/ui/auth/login")

    await page.focused("username")
    assert await page.run("[...document.querySelectorAll('input:not([type=hidden])')].every(field => field.labels.length === 1)")
    await page.fill("#username", "ada")
    await page.fill("#password", "wrong")
    await page.click("#sign-in", to=f"{service.url}/login")
    await page.focused("password")
    assert await page.run("document.querySelector('[role=alert]').id") == await page.run(
        "document.activeElement.getAttribute('aria-describedby')"
    )


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("path", ["/", "/ui/auth/login", "/account", "/logout"])
async def test_text_is_readable_and_nothing_is_wider_than_a_phone(service: Service, browser: Browser, dark: bool, path: str) -> None:
    page = await browser.page(width=320, height=640, dark=dark)
    await page.goto(f"{service.url}/ui/auth/login")
    await sign_in(page, f"{service.url}/account")

    await page.goto(f"{service.url}{path}")

    assert await page.run("document.documentElement.scrollWidth") <= 320
    assert await page.run(CONTRAST) == []
    assert page.complaints == []
    await page.close()


@pytest.mark.parametrize("dark", [False, True])
async def test_a_device_is_connected_on_a_phone(service: Service, browser: Browser, dark: bool) -> None:
    host: Any = service.host("idp")
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    body = {"client_name": "The TV", "scopes": ["openid"], "grant_types": [grant], "token_endpoint_auth_method": "none"}
    client = (await host._plugin.assembly(host).clients.register_body(body, open=False, by="test")).client
    page = await browser.page(width=320, height=640, dark=dark)
    async with ClientSession() as device:
        async with device.post(f"{service.url}/device_authorization", data={"client_id": client.client_id, "scope": "openid"}) as answer:
            asked = await answer.json()
        await page.goto(asked["verification_uri"], to=f"{service.url}/ui/auth/login")
        await sign_in(page, f"{service.url}/device")
        await page.focused("user_code")
        for typed in ("BBBB-BBBB", asked["user_code"].lower()):
            await page.fill("#user_code", typed)
            await page.click("#continue", to=f"{service.url}/device")
            assert await page.run("document.documentElement.scrollWidth") <= 320
            assert await page.run(CONTRAST) == []
        assert await page.run("document.querySelector('#code').textContent") == asked["user_code"]
        await page.click("#approve", to=f"{service.url}/device")
        assert "The device is connected" in await page.text()
        poll = {"client_id": client.client_id, "grant_type": grant, "device_code": asked["device_code"]}
        async with device.post(f"{service.url}/token", data=poll) as answer:
            assert answer.status == 200
    assert page.complaints == []
    await page.close()


async def test_signing_out_on_the_account_page(service: Service, page: Page) -> None:
    await page.goto(f"{service.url}/")
    await page.click(f"a[href='{service.url}/account']", to=f"{service.url}/ui/auth/login")
    await sign_in(page, f"{service.url}/account")
    assert "Ada Example" in await page.text()

    await page.click("#sign-out", to=f"{service.url}/logout")

    assert "You are signed out" in await page.text()
    assert (await page.goto(f"{service.url}/account")).startswith(f"{service.url}/ui/auth/login")


async def test_a_fragment_arrives_as_a_fragment(service: Service, app: App, page: Page) -> None:
    app.home = ""
    url = await request(service, app, response_mode="fragment", prompt="none")

    await page.goto(url, to=app.callback)

    assert parse_qs((await page.run("location.hash")).removeprefix("#"))["error"] == ["login_required"]


async def test_the_page_that_signs_out_tells_the_application_in_a_frame_and_leads_back(service: Service, app: App, page: Page) -> None:
    host: Any = service.host("idp")
    provider = host._plugin.assembly(host)
    front = app.callback.replace("/callback", "/front")
    url = await request(service, app)
    client_id = parse_qs(url.partition("?")[2])["client_id"][0]
    members = {"frontchannel_logout_uri": front, "post_logout_redirect_uris": [app.callback]}
    await provider.clients.update(client_id, members, by="test")
    await page.goto(url)
    await sign_in(page, f"{service.url}/api/auth/consent")
    await page.click("#approve", to=app.home)
    ((session,),) = [await host.db.read(lambda tx: tx.all(select(t.session)))]
    await host.db.write(note_client, session.id, client_id)
    await page.goto(f"{service.url}/logout?{urlencode({'client_id': client_id, 'post_logout_redirect_uri': app.callback, 'state': 's'})}")

    await page.click("#sign-out", to=app.home)

    assert app.told == [{"iss": service.url, "sid": session.id}]
    assert app.got[-1] == {"state": "s"}
