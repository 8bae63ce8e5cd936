"""Pictures of every page for the documentation: ``python -m rig.screenshots docs/images`` with ``PYTHONPATH=tests``.

With a language behind it, they are in that one.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
import pyotp
from rig import further_pages
from rig.browser import Page, chromium
from rig.passkeys import attach
from rig.studio import PASSWORD, Studio, no_complaints, sign_in

from greatseal.api.directory import AccountState
from greatseal.testing.distributions import install
from greatseal.testing.people import PEOPLE, people_of
from greatseal.testing.service import Service, serve
from greatseal_users_file.edit import add

CIBA = "urn:openid:params:grant-type:ciba"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
TRANSFER = {
    "type": "payment_initiation",
    "sentence": "Pay {instructedAmount.amount} {instructedAmount.currency} to {creditorName}",
    "lines": ["The account of the receiver is {creditorAccount.iban}"],
    "members": {
        "actions": {"type": "list of text", "values": ["initiate", "status", "cancel"], "required": True},
        "creditorName": {"required": True},
        "instructedAmount": {
            "type": "object",
            "required": True,
            "members": {"amount": {"type": "decimal", "required": True}, "currency": {"values": ["EUR", "CHF"], "required": True}},
        },
        "creditorAccount": {"type": "object", "members": {"iban": {"required": True}}},
    },
}
PAYMENT = {
    "type": "payment_initiation",
    "actions": ["initiate", "status"],
    "instructedAmount": {"amount": "123.50", "currency": "EUR"},
    "creditorName": "Merchant A",
    "creditorAccount": {"iban": "DE02100100109307118603"},
}


async def main(studio: Studio) -> None:
    """Write a PNG for every page, in both colour schemes and sizes."""
    walks = (_of_everybody, _of_further_steps, of_details, of_codes, of_passkeys, *further_pages.WALKS)
    for walk in walks:
        with tempfile.TemporaryDirectory() as state:
            await walk(studio, Path(state))


async def _of_everybody(studio: Studio, state: Path) -> None:
    users = state / "users.toml"
    add(users, "ada", PASSWORD, display_name="Ada Example", email="ada@example.org", groups=("administrators", "staff"))
    role = {
        "name": "administrator",
        "permissions": ["clients:*", "keys:read", "users:read", "audit:read"],
        "groups": ["administrators"],
    }
    sections: dict[str, Any] = {"users": {"file": str(users)}, "rbac": {"role": [role]}}
    async with serve(
        studio.document(state, ["ca", "acme", "resolver", "http-01", "idp", "users-file", "device-flow", "ciba"], **sections)
    ) as service:
        plugin = service.host("idp")._plugin  # type: ignore[attr-defined]
        registered = await plugin.assembly(service.host("idp")).clients.register_body(
            {
                "client_name": "Example Wiki",
                "redirect_uris": ["http://localhost/account"],  # any port: the account page then shows what was allowed
                "scopes": ["openid", "profile", "email", "groups", "offline_access"],
                "token_endpoint_auth_method": "client_secret_basic",
                "client_secret": "s" * 43,
            },
            open=False,
            by="screenshots",
        )
        device = await plugin.assembly(service.host("idp")).clients.register_body(
            {
                "client_name": "Living room TV",
                "scopes": ["openid", "profile", "offline_access"],
                "grant_types": [DEVICE_CODE, "refresh_token"],
                "token_endpoint_auth_method": "none",
            },
            open=False,
            by="screenshots",
        )
        desk = await plugin.assembly(service.host("idp")).clients.register_body(
            {
                "client_name": "Example Bank",
                "scopes": ["openid", "profile"],
                "grant_types": [CIBA],
                "token_endpoint_auth_method": "client_secret_post",
                "client_secret": "s" * 43,
                "backchannel_token_delivery_mode": "poll",
            },
            open=False,
            by="screenshots",
        )
        async for page, kind in studio.windows():
            await _ciba(page, service.url, desk.client.client_id, studio, kind)
        async for page, kind in studio.windows():
            await _walk(page, service.url, registered.client.client_id, studio, kind)
            await _device(page, service.url, device.client.client_id, studio, kind)


async def of_passkeys(studio: Studio, state: Path) -> None:
    """The pages of a person with two passkeys, one of which may have been copied."""
    users = state / "users.toml"
    sections: dict[str, Any] = {"users": {"file": str(users)}, "server": {"auth_rate_limit": 0}}
    add(users, "ada", PASSWORD, display_name="Ada Example", email="ada@example.org")
    async with serve(studio.document(state, ["idp", "users-file", "passkey"], **sections)) as service:
        async for page, kind in studio.windows():
            await _passkeys(page, service.url, studio, kind)


async def _passkeys(page: Page, url: str, studio: Studio, kind: str) -> None:
    async def picture(name: str) -> None:
        await studio.picture(page, f"passkey-{name}", kind)

    device = await attach(page)
    await device.answers(False)
    await page.goto(f"{url}/ui/auth/login")
    await page.appeared("#with-passkey")
    await picture("login")
    await sign_in(page, "ada", f"{url}/account")
    await page.goto(f"{url}/account/passkeys")
    await picture("empty")
    await device.answers(True)
    await page.fill("#label", "My phone")
    await page.click("#add-passkey button", to=f"{url}/account/passkeys")
    await page.run("document.querySelector('#add-passkey button').click()")
    await page.appeared("#problem-passkey")
    await picture("known")
    await device.answers(False)
    await device.set_counter(1000)
    key = await attach(page, transport="usb")
    await page.goto(f"{url}/account/passkeys")
    await page.fill("#label", "Blue security key")
    await page.click("#add-passkey button", to=f"{url}/account/passkeys")
    await key.remove()
    await device.answers(True)  # who is not touched when asked is not touched later
    await page.goto(f"{url}/ui/auth/login", to=f"{url}/account")
    await device.answers(False)
    await device.set_counter(0)
    await page.goto(f"{url}/ui/auth/login")
    await page.appeared("#with-passkey")
    await device.answers(True)
    await page.run("document.querySelector('#use-passkey').click()")
    await page.appeared("#problem-passkey")
    await device.answers(False)
    await picture("refused")
    await page.goto(f"{url}/account/passkeys")
    await picture("list")
    await page.goto(f"{url}/account")
    await picture("account")
    await page.goto(f"{url}/account/passkeys")
    while await page.run("!!document.querySelector('#passkeys form:not(.inline) button')"):
        await page.click("#passkeys form:not(.inline) button", to=f"{url}/account/passkeys")


async def _of_further_steps(studio: Studio, state: Path) -> None:
    """The pages that a directory with one-time codes and passwords that expire adds to the sign-in."""
    async with serve(studio.document(state, ["idp", install(state, "greatseal-people", PEOPLE)])) as service:
        people = people_of(service)
        people.change("alice", authentication_types=("otp",))
        people.change("bob", state=AccountState(password_expired=True))
        async for page, kind in studio.windows():
            await _steps(page, service.url, people.passwords, studio, kind)


async def of_details(studio: Studio, state: Path) -> None:
    """The consent page with what a bank is asked for."""
    users = state / "users.toml"
    add(users, "ada", PASSWORD, display_name="Ada Example")
    sections: dict[str, Any] = {"users": {"file": str(users)}, "oauth": {"authorization_details": [TRANSFER]}}
    async with serve(studio.document(state, ["idp", "users-file", "rar"], **sections)) as service:
        host: Any = service.host("idp")
        body = {
            "client_name": "Example Shop",
            "redirect_uris": ["http://localhost/account"],
            "scopes": ["openid"],
            "token_endpoint_auth_method": "none",
            "authorization_details_types": ["payment_initiation"],
        }
        client = (await host._plugin.assembly(host).clients.register_body(body, open=False, by="screenshots")).client
        request = {
            "client_id": client.client_id,
            "redirect_uri": f"{service.url}/account",
            "response_type": "code",
            "scope": "openid",
            "code_challenge": "c" * 43,
            "code_challenge_method": "S256",
            "authorization_details": msgspec.json.encode([PAYMENT]).decode(),
        }
        async for page, kind in studio.windows():
            await page.goto(f"{service.url}/authorize?{urlencode(request)}", to=f"{service.url}/ui/auth/login")
            await sign_in(page, "ada", f"{service.url}/api/auth/consent")
            await studio.picture(page, "consent-details", kind)
            no_complaints(page)


async def of_codes(studio: Studio, state: Path) -> None:
    """The pages of one-time codes, from the first app to the recovery codes."""
    users = state / "users.toml"
    add(users, "ada", PASSWORD, display_name="Ada Example")
    async with serve(studio.document(state, ["idp", "users-file", "otp"], users={"file": str(users)})) as service:
        async for page, kind in studio.windows():
            await _codes(page, service, studio, kind)


async def _codes(page: Page, service: Service, studio: Studio, kind: str) -> None:
    async def picture(name: str) -> None:
        await studio.picture(page, f"codes-{name}", kind)

    url = service.url
    await page.goto(f"{url}/account/codes", to=f"{url}/ui/auth/login")
    await sign_in(page, "ada", f"{url}/account/codes")
    await picture("none")
    await page.fill("#label", "My phone")
    await page.click("#add", to=f"{url}/account/codes/add")
    await picture("new")
    totp = pyotp.parse_uri(await page.run("document.querySelector('#open').href"))
    assert isinstance(totp, pyotp.TOTP)
    await page.fill("#code", "000000")
    await page.click("#confirm", to=f"{url}/account/codes/confirm")
    await picture("wrong")
    await page.fill("#code", totp.now())
    await page.click("#confirm", to=f"{url}/account/codes/confirm")
    await picture("recovery")
    await page.click("#done", to=f"{url}/account/codes")
    await picture("list")
    await page.goto(f"{url}/account")
    await picture("account")
    await page.goto(f"{url}/account/codes")
    await page.click("#tokens button", to=f"{url}/account/codes")
    no_complaints(page)


async def _steps(page: Page, url: str, passwords: Mapping[str, str], studio: Studio, kind: str) -> None:
    async def signed_in(username: str, to: str) -> None:
        await page.goto(f"{url}/ui/auth/login")
        await page.fill("#username", username)
        await page.fill("#password", passwords[username])
        await page.click("#sign-in", to=f"{url}{to}")

    async def picture(name: str) -> None:
        await studio.picture(page, name, kind)

    await signed_in("alice", "/login")
    await picture("code")
    await page.fill("#code", "000000")
    await page.click("#sign-in", to=f"{url}/login")
    await picture("code-error")
    await signed_in("bob", "/login/change-password")
    await picture("change-password")
    for field, password in (("#old_password", passwords["bob"]), ("#new_password", "short"), ("#new_password_again", "short")):
        await page.fill(field, password)
    await page.click("#change-password", to=f"{url}/login/change-password")
    await picture("change-password-error")
    no_complaints(page)


async def _walk(page: Page, url: str, client_id: str, studio: Studio, kind: str) -> None:
    async def picture(name: str) -> None:
        await studio.picture(page, name, kind)

    request = {
        "client_id": client_id,
        "redirect_uri": f"{url}/account",
        "response_type": "code",
        "scope": "openid profile email groups offline_access",
        "prompt": "consent",
    }
    await page.goto(f"{url}/")
    await picture("start")
    asked = f"{url}/authorize?{urlencode(request)}"
    await page.goto(asked, to=f"{url}/ui/auth/login")
    await picture("login")
    await page.fill("#username", "ada")
    await page.fill("#password", "wrong")
    await page.click("#sign-in", to=f"{url}/login")
    await picture("login-error")
    await page.fill("#password", PASSWORD)
    await page.click("#sign-in", to=f"{url}/api/auth/consent")
    await picture("consent")
    await page.click("#approve", to=f"{url}/account?code=")
    await picture("account")
    await page.goto(f"{url}/logout")
    await picture("logout")
    await page.click("#sign-out", to=f"{url}/logout")
    await picture("logged-out")
    await page.goto(asked.replace("%2Faccount", "%2Felsewhere"))
    await picture("error")
    no_complaints(page)


async def _ciba(page: Page, url: str, client_id: str, studio: Studio, kind: str) -> None:
    """The pages where a person allows what an application asks for."""

    async def picture(name: str) -> None:
        await studio.picture(page, f"ciba-{name}", kind)

    proof = {"client_id": client_id, "client_secret": "s" * 43}
    form = {**proof, "scope": "openid profile", "login_hint": "ada", "binding_message": "Payment W4SCT"}
    async with aiohttp.ClientSession() as http, http.post(f"{url}/bc-authorize", data=form) as answer:
        assert answer.status == 200
    await page.goto(f"{url}/ciba", to=f"{url}/ui/auth/login")
    await sign_in(page, "ada", f"{url}/ciba")
    await picture("list")
    await page.click("#requests a", to=f"{url}/ciba/")
    await picture("confirm")
    await page.click("#approve", to=f"{url}/ciba/")
    await picture("done")
    await page.goto(f"{url}/ciba")
    await picture("empty")
    no_complaints(page)


async def _device(page: Page, url: str, client_id: str, studio: Studio, kind: str) -> None:
    """The pages where a device is connected."""

    async def picture(name: str) -> None:
        await studio.picture(page, f"device-{name}", kind)

    form = {"client_id": client_id, "scope": "openid profile offline_access"}
    async with aiohttp.ClientSession() as http, http.post(f"{url}/device_authorization", data=form) as answer:
        asked = await answer.json()
    await page.goto(asked["verification_uri_complete"], to=f"{url}/ui/auth/login")
    await sign_in(page, "ada", f"{url}/device")
    await picture("confirm")
    await page.click("#approve", to=f"{url}/device")
    await picture("done")
    await page.goto(asked["verification_uri"])
    await picture("enter")
    await page.fill("#user_code", "bcdf ghjk")
    await page.click("#continue", to=f"{url}/device")
    await picture("enter-error")
    no_complaints(page)


async def _take(folder: Path, *language: str) -> None:
    async with chromium() as browser:
        await main(Studio(browser, folder, *language))


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    asyncio.run(_take(Path(sys.argv[1]), *sys.argv[2:]))
