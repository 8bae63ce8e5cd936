"""Pictures of every page for the documentation: ``python -m rig.screenshots docs/images`` with ``PYTHONPATH=tests``."""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from rig.browser import Page, chromium

from greatseal.testing.service import document, serve
from greatseal_users_file.edit import add

PASSWORD = "correct horse battery"  # of a person who is gone after the picture
PERMISSIONS = ["clients:*", "keys:read", "users:read", "audit:read"]
SIZES = {"wide": (960, 600), "narrow": (390, 700)}


async def main(folder: Path) -> None:
    """Write a PNG for every page, in both colour schemes and sizes."""
    with tempfile.TemporaryDirectory() as state:
        users = Path(state) / "users.toml"
        add(users, "ada", PASSWORD, display_name="Ada Example", email="ada@example.org", groups=("administrators", "staff"))
        role = {
            "name": "administrator",
            "permissions": ["clients:*", "keys:read", "users:read", "audit:read"],
            "groups": ["administrators"],
        }
        sections: dict[str, Any] = {
            "users": {"file": str(users)},
            "rbac": {"role": [role]},
            "webui": {"display_name": "Example Organisation"},
        }
        async with (
            serve(document(Path(state), ["ca", "acme", "resolver", "http-01", "idp", "users-file"], **sections)) as service,
            chromium() as browser,
        ):
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
            for dark in (False, True):
                for size, (width, height) in SIZES.items():
                    page = await browser.page(width=width, height=height, dark=dark)
                    await _walk(page, service.url, registered.client.client_id, folder, f"{size}-{'dark' if dark else 'light'}")


async def _walk(page: Page, url: str, client_id: str, folder: Path, kind: str) -> None:
    async def picture(name: str) -> None:
        await page.picture(folder / f"{name}-{kind}.png", whole=True)

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
    if page.complaints:
        raise AssertionError(page.complaints)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(target))
