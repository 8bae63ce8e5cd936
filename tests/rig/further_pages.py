"""Walks through the pages of other providers, second steps, links in mails and logs of certificates, for :mod:`rig.screenshots`.

In each window they begin with a service of its own: what a person did in one is not there in the next.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pyotp
from aiohttp import web
from cryptography import x509
from rig.browser import Page
from rig.carrier import CARRIER, carrier_of
from rig.logged import LoggedSite, logged_site
from rig.studio import PASSWORD, Studio, no_complaints, sign_in
from rig.upstream import CLIENT, SECRET, Stub, open_stub

from greatseal.testing.distributions import install
from greatseal.testing.service import Service, serve
from greatseal_users_file.edit import add

WEAK, STRONG = "urn:example:password", "urn:example:two-factors"
LADDER = [{"value": WEAK, "level": 1, "satisfied_by": ["pwd"]}, {"value": STRONG, "level": 2, "satisfied_by": ["mfa"]}]
OFF = {"auth_rate_limit": 0}


class Walk:
    """Somebody in one window. ``name`` is before those of its pictures."""

    def __init__(self, studio: Studio, service: Service, page: Page, kind: str, name: str) -> None:
        self.service, self.page, self.url = service, page, service.url
        self._studio, self._kind, self._name = studio, kind, name

    async def picture(self, name: str) -> None:
        await self._studio.picture(self.page, f"{self._name}-{name}", self._kind)

    async def signed_in(self, username: str, to: str, password: str = PASSWORD) -> None:
        await self.page.goto(f"{self.url}/ui/auth/login")
        await sign_in(self.page, username, f"{self.url}{to}", password)

    async def click(self, selector: str, to: str) -> None:
        await self.page.click(selector, to=f"{self.url}{to}")


async def walks(studio: Studio, state: Path, features: list[str], name: str, **sections: Any) -> AsyncIterator[Walk]:
    """One in each window; people of all of them are those of ``users.toml``, which is written anew."""
    async for page, kind in studio.windows():
        folder = state / kind
        folder.mkdir()
        users = folder / "users.toml"
        add(users, "ada", PASSWORD, display_name="Ada Example", email="ada@example.org")
        add(users, "ben", PASSWORD, display_name="Ben Example", groups=("staff",))
        given = {"server": OFF, **sections, "users": {"file": str(users), **sections.get("users", {})}}
        async with serve(studio.document(folder, ["idp", "users-file", *features], **given)) as service:
            yield Walk(studio, service, page, kind, name)
        no_complaints(page)


# ---- Other providers


async def of_federation(studio: Studio, state: Path) -> None:
    """A person who signs in with another provider, links an account, and is refused."""
    async with open_stub(lambda: int(time.time())) as stub:
        own = {"issuer": stub.url, "client_id": CLIENT, "client_secret": SECRET, "allow_private_hosts": True, "self_service": True}
        tables = [{**own, "id": "partner", "display_name": "Example Partner"}, {**own, "id": "school", "display_name": "Example School"}]
        async for walk in walks(studio, state, ["federation"], "federation", federation={"upstream_idps": tables}):
            await _federation(walk, stub)


def _answers(stub: Stub, **said: str) -> None:
    """Whoever comes there is sent back with a code, or with what is ``said``, and after a sign-out too."""

    def answer(request: web.Request) -> web.Response | None:
        asked = request.query
        if request.path == "/logout":
            back = asked["post_logout_redirect_uri"]
        elif request.path == "/authorize":
            back = f"{asked['redirect_uri']}?{urlencode({'state': asked['state'], **(said or {'code': stub.code(asked)})})}"
        else:
            return None
        return web.Response(status=303, headers={"Location": back})

    stub.answer = answer


async def _federation(walk: Walk, stub: Stub) -> None:
    page = walk.page
    _answers(stub, error="access_denied")
    await page.goto(f"{walk.url}/ui/auth/login")
    await walk.picture("login")
    await walk.click("#option-partner", "/internal/callback/partner")
    await walk.picture("refused")
    await walk.signed_in("ada", "/account")
    await page.goto(f"{walk.url}/account/connections")
    await walk.picture("none")
    await walk.click("#link-partner button", "/internal/callback/partner")
    await walk.picture("not-linked")
    _answers(stub)
    await page.goto(f"{walk.url}/account/connections")
    await walk.click("#link-partner button", "/account/connections")
    await walk.picture("linked")
    await page.goto(f"{walk.url}/account")
    await walk.picture("account")
    await page.goto(f"{walk.url}/logout")
    await walk.click("#sign-out", "/logout")
    await page.goto(f"{walk.url}/ui/auth/login")
    await walk.click("#option-partner", "/account")
    await page.goto(f"{walk.url}/logout")
    await walk.click("#sign-out", "/auth/external/partner/signed-out")
    await walk.picture("signed-out")


# ---- Second steps


async def of_second_steps(studio: Studio, state: Path) -> None:
    """A person who must have a second step, and one of whom an application wants it."""
    sections = {"otp": {"required_groups": ["staff"], "remember_days": 30}, "acr": LADDER}
    async for walk in walks(studio, state, ["otp"], "step", **sections):
        await walk.signed_in("ben", "/login/enrol/codes")
        await walk.picture("enrol")
        await walk.click("#add", "/login/enrol/codes/add")
        await walk.picture("enrol-new")
        await walk.signed_in("ada", "/account")
        asked = await _asks_for_more(walk)
        await walk.page.goto(asked, to=f"{walk.url}/ui/auth/step-up")
        await walk.picture("up-none")
        code = await _add_app(walk)
        await walk.page.goto(asked, to=f"{walk.url}/ui/auth/step-up")
        await walk.picture("up")
        await walk.page.fill("#code", "000000")
        await walk.click("#prove", "/login/step-up")
        await walk.picture("up-error")
        await walk.page.goto(f"{walk.url}/logout")
        await walk.click("#sign-out", "/logout")
        await walk.signed_in("ada", "/login")
        await walk.picture("code")
        await walk.page.run("document.querySelector('#remember').click()")
        await walk.page.fill("#code", code)
        await walk.click("#sign-in", "/account")
        await walk.page.goto(f"{walk.url}/account/codes")
        await walk.picture("remembered")


async def _asks_for_more(walk: Walk) -> str:
    """The URL of a request that is content with two factors alone."""
    plugin: Any = walk.service.host("idp")
    body = {
        "client_name": "Example Bank",
        "redirect_uris": ["http://localhost/account"],
        "scopes": ["openid"],
        "token_endpoint_auth_method": "none",
        "required_acr_values": [STRONG],
    }
    client = (await plugin._plugin.assembly(plugin).clients.register_body(body, open=False, by="screenshots")).client
    request = {
        "client_id": client.client_id,
        "redirect_uri": f"{walk.url}/account",
        "response_type": "code",
        "scope": "openid",
        "code_challenge": "c" * 43,
        "code_challenge_method": "S256",
    }
    return f"{walk.url}/authorize?{urlencode(request)}"


async def _add_app(walk: Walk) -> str:
    """Give Ada an app, in another browser; a code that is good now."""
    jar = aiohttp.CookieJar(unsafe=True, treat_as_secure_origin=walk.url)
    async with aiohttp.ClientSession(walk.url, cookie_jar=jar, raise_for_status=True) as http:
        await http.post("/api/auth/login", json={"username": "ada", "password": PASSWORD})
        async with http.post("/api/me/otp-tokens", json={"label": "My phone"}) as answer:
            made = await answer.json()
        totp = pyotp.parse_uri(made["otpauth_uri"])
        assert isinstance(totp, pyotp.TOTP)
        now = int(time.time())
        # The step before confirms the app: that of now is good after it.
        await http.post(f"/api/me/otp-tokens/{made['token_id']}/confirm", json={"otp_code": totp.at(now - 30)})
    return str(totp.at(now + 30))


# ---- Links in mails


async def of_mails(studio: Studio, state: Path) -> None:
    """A person who forgot the password, changes it, and confirms the mail address."""
    carrier = install(state, "greatseal-carrier", CARRIER)
    studio.import_from(state)
    async for walk in walks(studio, state, ["notices", carrier], "mail", users={"writable": True}):
        await _forgotten(walk)
        await _own_password(walk)
        await _address(walk)


async def _link(walk: Walk, kind: str) -> str:
    """What the newest notice of the kind leads to."""
    carrier = carrier_of(walk)
    async with asyncio.timeout(20):
        while not (found := [one for one in carrier.letters if one.notice.kind == kind]):
            carrier.came.clear()
            await carrier.came.wait()
    link = found[-1].notice.link
    assert link is not None
    return str(link.value)


async def _forgotten(walk: Walk) -> None:
    page = walk.page
    await page.goto(f"{walk.url}/ui/auth/login")
    await walk.click("#forgot", "/login/forgot")
    await walk.picture("forgot")
    await page.fill("#username", "ada")
    await walk.click("#send", "/login/forgot")
    await walk.picture("forgot-sent")
    link = await _link(walk, "password_reset")
    await page.goto(link)
    await walk.picture("reset")
    await _choose(walk, "short", "/login/reset")
    await walk.picture("reset-error")
    await _choose(walk, "another battery staple", "/login/reset")
    await walk.picture("reset-done")
    await page.goto(link)
    await walk.picture("reset-over")


async def _choose(walk: Walk, password: str, to: str) -> None:
    await walk.page.fill("#new_password", password)
    await walk.page.fill("#new_password_again", password)
    await walk.click("#change-password", to)


async def _own_password(walk: Walk) -> None:
    await walk.signed_in("ada", "/account", "another battery staple")
    await walk.picture("account")
    await walk.page.goto(f"{walk.url}/account/password")
    await walk.picture("own-password")
    await walk.page.fill("#old_password", "wrong")
    await _choose(walk, "a third battery staple", "/account/password")
    await walk.picture("own-password-error")


async def _address(walk: Walk) -> None:
    page = walk.page
    await page.goto(f"{walk.url}/account/mail")
    await walk.picture("ask")
    await walk.click("#send", "/account/mail")
    await walk.picture("sent")
    link = await _link(walk, "mail_confirm")
    await page.goto(link)
    await walk.picture("confirm")
    await walk.click("#confirm", "/account/mail")
    await walk.picture("done")
    await page.goto(link)
    await walk.picture("over")


# ---- The log of certificates


async def of_log(studio: Studio, state: Path) -> None:
    """The page of a log beside an identity provider, and of a CA alone."""
    (state / "users.toml").touch(mode=0o600)
    beside: Mapping[str, Any] = {"users": {"file": str(state / "users.toml")}}
    for name, more, sections in (("log", ("idp", "users-file"), beside), ("log-alone", (), {})):
        (state / name).mkdir()
        async with _starter(studio, state / name) as start, logged_site(start, *more, **sections) as site:
            await _log(studio, site, name)


@asynccontextmanager
async def _starter(studio: Studio, folder: Path) -> AsyncIterator[Callable[..., Awaitable[Service]]]:
    async with AsyncExitStack() as stack:

        async def start(*features: str, **sections: Any) -> Service:
            return await stack.enter_async_context(serve(studio.document(folder, list(features), **sections)))

        yield start


async def _log(studio: Studio, site: LoggedSite, name: str) -> None:
    _, certificate = await site.logged("www.localhost", "mail.localhost")
    for number in range(6):
        await site.logged(f"host{number}.localhost")
    await site.checkpoint()
    serial = f"{x509.load_der_x509_certificate(certificate).serial_number:x}"
    url = f"{site.site.url}/log"
    async for page, kind in studio.windows():
        for picture, query in ((name, ""), (f"{name}-found", f"?serial={serial}"), (f"{name}-unknown", "?serial=1234")):
            await page.goto(f"{url}{query}")
            await studio.picture(page, picture, kind)
        no_complaints(page)


WALKS = (of_federation, of_second_steps, of_mails, of_log)
