"""Passkeys in a real browser, with the authenticators that it pretends to have (WebAuthn s11, over the DevTools protocol)."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from rig.browser import CHROMIUM, CONTRAST, Browser, Page
from rig.passkeys import Authenticator, attach
from sqlalchemy import select

from greatseal.testing.service import Service, document, serve
from greatseal.testing.store import audit
from greatseal_passkey import tables as t
from greatseal_users_file.edit import add

pytestmark = pytest.mark.asyncio(loop_scope="module")

PASSWORD = "correct horse battery"

if CHROMIUM is None and not os.environ.get("CI"):
    pytest.skip("the package chromium is not installed", allow_module_level=True)


@pytest_asyncio.fixture(loop_scope="module")
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    for name in ("ada", "ben"):
        add(tmp_path / "users.toml", name, PASSWORD, display_name=f"{name.title()} Example")
    enabled = ["idp", "users-file", "passkey"]
    limits = {"auth_rate_limit": 0}
    async with serve(document(tmp_path, enabled, users={"file": str(tmp_path / "users.toml")}, server=limits)) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def device(page: Page) -> Authenticator:
    """Built into the machine: it keeps passkeys and knows its person."""
    return await attach(page)


async def sign_in(service: Service, page: Page, name: str = "ada") -> None:
    await page.goto(f"{service.url}/ui/auth/login")
    await page.fill("#username", name)
    await page.fill("#password", PASSWORD)
    await page.click("#sign-in", to=f"{service.url}/account")


async def register(service: Service, page: Page, label: str = "") -> None:
    await page.goto(f"{service.url}/account/passkeys")
    if label:
        await page.fill("#label", label)
    await page.click("#add-passkey button", to=f"{service.url}/account/passkeys")


async def sign_out(service: Service, page: Page) -> None:
    await page.goto(f"{service.url}/account")
    await page.click("#sign-out", to=f"{service.url}/logout")


async def press(page: Page, device: Authenticator, to: str) -> None:
    """The button, then the device: touched before, it would answer what the user name field offers."""
    await page.appeared("#with-passkey")
    await page.run("document.querySelector('#use-passkey').click()")
    await device.answers(True)
    await page.arrived(to)
    await device.answers(False)


async def who(service: Service, page: Page) -> dict[str, Any]:
    await page.goto(f"{service.url}/account/passkeys")  # whose policy lets a script ask
    found: dict[str, Any] = await page.run("fetch('/api/auth/me').then(reply => reply.json())")
    return found


async def enrolled(service: Service, page: Page, device: Authenticator, name: str = "ada") -> None:
    """The person has a passkey on the device and is signed out; nobody touches the device."""
    await sign_in(service, page, name)
    await register(service, page)
    await sign_out(service, page)
    await device.answers(False)


async def sign_ins(service: Service) -> int:
    rows = await service.kernel.store.read(lambda tx: tx.all(select(audit)))
    return sum(row.event_type == "login_success" for row in rows)


async def failures(service: Service) -> list[str]:
    rows = await service.kernel.store.read(lambda tx: tx.all(select(audit).order_by(audit.c.id)))
    return [row.detail for row in rows if row.event_type == "login_failure"]


async def test_idp_006_a_person_registers_a_passkey_and_signs_in_without_a_name(
    service: Service, page: Page, device: Authenticator
) -> None:
    await sign_in(service, page)
    await register(service, page, "My phone")
    text = await page.text()
    assert "My phone" in text
    assert "never used" in text
    await sign_out(service, page)
    await device.answers(False)

    await page.goto(f"{service.url}/ui/auth/login?return_to=/account/passkeys")
    await press(page, device, f"{service.url}/account/passkeys")

    assert "last used" in await page.text()
    me = await who(service, page)
    assert me["username"] == "ada"
    assert me["amr"] == ["hwk", "user", "mfa"]
    await page.goto(f"{service.url}/account")
    assert "My phone" in await page.text()


async def test_the_browser_offers_the_passkey_in_the_user_name_field(service: Service, page: Page, device: Authenticator) -> None:
    """Conditional mediation: the page asks nobody to click, and the authenticator answers when its person chooses the offer."""
    await enrolled(service, page, device)
    await device.answers(True)

    await page.goto(f"{service.url}/ui/auth/login", to=f"{service.url}/account")

    assert (await who(service, page))["username"] == "ada"


async def test_the_offer_and_the_button_at_once_are_one_sign_in(service: Service, page: Page, device: Authenticator) -> None:
    await enrolled(service, page, device)
    await page.goto(f"{service.url}/ui/auth/login")
    await page.appeared("#with-passkey")
    before = await sign_ins(service)

    await device.answers(True)
    await page.run("document.querySelector('#use-passkey')?.click()")
    await page.arrived(f"{service.url}/account")

    assert (await who(service, page))["username"] == "ada"
    assert await sign_ins(service) == before + 1


async def test_a_passkey_with_the_user_name_typed(service: Service, page: Page) -> None:
    """A security key that keeps nothing: the page has to tell it which credential is meant."""
    device = await attach(page, transport="usb", hasResidentKey=False)
    await enrolled(service, page, device)
    await page.goto(f"{service.url}/ui/auth/login")
    await page.fill("#username", "ada")
    await press(page, device, f"{service.url}/account")

    assert (await who(service, page))["username"] == "ada"


async def test_two_devices_of_one_person_each_sign_in(service: Service, page: Page, device: Authenticator) -> None:
    await sign_in(service, page)
    await register(service, page, "The laptop")
    await device.answers(False)
    key = await attach(page, transport="usb")
    await register(service, page, "The key")
    text = await page.text()
    assert "The laptop" in text
    assert "The key" in text
    assert len(await device.credentials()) == len(await key.credentials()) == 1
    await key.answers(False)

    for one in (device, key):
        await sign_out(service, page)
        await page.goto(f"{service.url}/ui/auth/login")
        await page.fill("#username", "ada")
        await press(page, one, f"{service.url}/account")
    await page.goto(f"{service.url}/account/passkeys")
    assert "never used" not in await page.text()


async def test_a_device_that_has_one_already_is_told_so(service: Service, page: Page, device: Authenticator) -> None:
    await sign_in(service, page)
    await register(service, page)

    await page.run("document.querySelector('#add-passkey button').click()")
    await page.appeared("#problem-passkey")

    assert await page.run("document.querySelector('#problem-passkey').textContent") == "This device has a passkey of yours already."
    assert len(await device.credentials()) == 1


async def test_s097_a_copy_with_an_older_counter_is_refused_and_shown(service: Service, page: Page, device: Authenticator) -> None:
    await enrolled(service, page, device)
    await device.set_counter(1000)
    await device.answers(True)
    await page.goto(f"{service.url}/ui/auth/login", to=f"{service.url}/account")
    await device.answers(False)
    await device.set_counter(0)
    await page.goto(f"{service.url}/ui/auth/login")
    await page.appeared("#with-passkey")
    await device.answers(True)

    await page.run("document.querySelector('#use-passkey').click()")
    await page.appeared("#problem-passkey")
    await device.answers(False)

    assert "does not prove who you are" in await page.run("document.querySelector('#problem-passkey').textContent")
    assert any("counter" in detail for detail in await failures(service))
    await sign_in(service, page)
    await page.goto(f"{service.url}/account/passkeys")
    assert "It may have been copied." in await page.text()


async def test_cancelled_leaves_the_page_as_it_was(service: Service, page: Page, device: Authenticator) -> None:
    await enrolled(service, page, device)
    await device.recognises(False)
    await page.goto(f"{service.url}/ui/auth/login")
    await page.appeared("#with-passkey")
    await device.answers(True)

    await page.run("document.querySelector('#use-passkey').click()")
    await page.appeared("#problem-passkey")
    await device.answers(False)

    assert (
        await page.run("document.querySelector('#problem-passkey').textContent")
        == "No passkey was used. Try again, or sign in another way."
    )
    assert not await page.run("document.querySelector('#use-passkey').disabled")
    await page.fill("#username", "ada")
    await page.fill("#password", PASSWORD)
    await page.click("#sign-in", to=f"{service.url}/account")


ASSERT = """
(async () => {
  const bytes = text => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), c => c.charCodeAt(0));
  const options = OPTIONS;
  const publicKey = {...options, challenge: bytes(options.challenge), allowCredentials: []};
  return (await navigator.credentials.get({publicKey})).toJSON();
})()
"""


async def test_s095_an_assertion_of_another_origin_is_refused(service: Service, page: Page, device: Authenticator, tmp_path: Path) -> None:
    """Another port of the same domain: the browser makes it, since the domain is the same, and says where."""
    await enrolled(service, page, device)
    await device.answers(True)
    other = tmp_path / "other"
    other.mkdir()
    add(other / "users.toml", "eve", PASSWORD)
    async with (
        serve(document(other, ["idp", "users-file"], users={"file": str(other / "users.toml")})) as there,
        aiohttp.ClientSession() as http,
    ):
        for origin, status in ((there.url, 401), (service.url, 200)):
            async with http.post(f"{service.url}/api/auth/passkey/begin", json={}) as answer:
                options = (await answer.json())["publicKey"]
            await page.goto(f"{origin}/logout")
            found = await page.run(ASSERT.replace("OPTIONS", json.dumps(options)))
            async with http.post(f"{service.url}/api/auth/passkey/complete", json=found) as answer:
                assert answer.status == status, origin


async def test_without_scripts_the_pages_say_what_still_works(service: Service, browser: Browser) -> None:
    page = await browser.page()
    await page.call("Emulation.setScriptExecutionDisabled", value=True)
    await page.goto(f"{service.url}/ui/auth/login")
    assert "switch on JavaScript" in await page.text()
    assert "Sign in with a passkey" not in await page.text()
    await sign_in(service, page)
    await page.goto(f"{service.url}/account/passkeys")
    assert "To add a passkey, switch on JavaScript." in await page.text()
    assert page.complaints == []
    await page.close()


@pytest.mark.parametrize("dark", [False, True])
async def test_the_pages_are_readable_on_a_phone(service: Service, browser: Browser, dark: bool) -> None:
    page = await browser.page(width=320, height=640, dark=dark)
    device = await attach(page)
    await sign_in(service, page)
    await register(service, page, "A name of a device that is as long as a name may be, sixty four")
    await device.answers(False)
    for path in ("/account", "/account/passkeys", "/ui/auth/login"):
        await page.goto(f"{service.url}{path}")
        assert await page.run("document.documentElement.scrollWidth") <= 320
        assert await page.run(CONTRAST) == []
    await page.close()


async def test_a_passkey_is_deleted_with_a_form(service: Service, page: Page, device: Authenticator) -> None:
    await sign_in(service, page)
    await register(service, page)
    await device.answers(False)

    await page.click("#passkeys form:not(.inline) button", to=f"{service.url}/account/passkeys")

    assert "None yet." in await page.text()
    rows = await service.kernel.store.read(lambda tx: tx.all(select(t.credential)))
    assert rows == []
