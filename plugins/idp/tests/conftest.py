"""A running identity provider with people of a third party's plugin, and a browser without a mind of its own."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from types import ModuleType
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from greatseal.testing.distributions import install
from greatseal.testing.service import Service

PEOPLE = """
from greatseal import hookimpl
from greatseal.api.directory import AccountState, Directory, DirectoryUnavailable, Tier, User
from greatseal.api.identity import Authenticated, Authenticator, Denied, LoginOption, LoginOptions, NotMine, Password, PasswordExpired
from greatseal.api.tokens import ClaimsProvider, GrantCheck
from greatseal.api.identity import AccessDenied, PasswordChanger

REALM = "LOCALHOST"
USERS = {
    "alice": User(
        username="alice", realm=REALM, source="people", display_name="Alice", email="alice@example.com", groups=("staff",), uid_number=7
    ),
    "bob": User(username="bob", realm=REALM, source="people", display_name="Bob", groups=("admins",)),
}
PASSWORDS = {"alice": "wonderland", "bob": "builder"}
FACTS = {"down": False, "refuse": "", "amr": ("pwd",), "upstream": None, "headers": (), "attempts": 0}


class People(Directory):
    name = "people"
    tier = Tier.STATIC
    realm = REALM

    async def user(self, username):
        if FACTS["down"]:
            raise DirectoryUnavailable("the directory cannot be reached")
        return USERS.get(username)

    async def users(self, prefix, limit, after=""):
        return [USERS[name] for name in sorted(USERS) if name.startswith(prefix) and name > after][:limit]

    async def group(self, name):
        return None


class Check(Authenticator):
    name = "people"
    credential = Password

    async def attempt(self, credential, context):
        FACTS["attempts"] += 1
        name = credential.username.partition("@")[0]
        if name not in PASSWORDS:
            return NotMine()
        if credential.password.value != PASSWORDS[name]:
            raise Denied("the password of people is wrong")
        return Authenticated(username=name, realm=REALM, amr=FACTS["amr"], upstream=FACTS["upstream"], headers=FACTS["headers"])


class Changer(PasswordChanger):
    name = "people"

    async def change(self, username, old, new, context):
        PASSWORDS[username] = new.value
        return Authenticated(username=username, realm=REALM, amr=("pwd",))


class Gate(GrantCheck):
    name = "gate"

    async def check(self, question):
        if question.phase == FACTS["refuse"]:
            raise AccessDenied("the gate is shut")
        return question.scopes


class Known(ClaimsProvider):
    name = "people"
    claims = frozenset({"name", "email", "phone_number"})

    async def of(self, subject, wanted):
        values = {"name": "Alice", "email": "alice@example.com", "phone_number": "+1"} if subject == "alice@LOCALHOST" else {}
        return {name: values[name] for name in values.keys() & wanted}


class Elsewhere(LoginOptions):
    name = "elsewhere"

    async def options(self, context):
        if FACTS["down"]:
            raise RuntimeError("no options now")
        return [
            LoginOption(id="other", display_name="Other place", url="/auth/external/other"),
            LoginOption(id="key", display_name="Passkey", url="#", kind="passkey"),
        ]

    async def hint(self, username):
        return "other" if username == "olga" else None


class Plugin:
    @hookimpl
    def directories(self, host):
        return [People()]

    @hookimpl
    def authenticators(self, host):
        return [Check()]

    @hookimpl
    def grant_checks(self, host):
        return [Gate()]

    @hookimpl
    def claims(self, host):
        return [Known()]

    @hookimpl
    def password_changers(self, host):
        return [Changer()]

    @hookimpl
    def login_options(self, host):
        return [Elsewhere()]
"""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A response, read to its end."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.text)

    @property
    def location(self) -> str:
        return self.headers["Location"]

    @property
    def cookie(self) -> str:
        """The session cookie that it sets, as a Cookie header."""
        found = re.match(r"(?:__Host-)?greatseal_session=[^;]*", self.headers.get("Set-Cookie", ""))
        assert found is not None, self.headers
        return found.group()


class Desk:
    """The running service, and requests to it that carry what the test says and nothing else."""

    def __init__(self, service: Service, http: aiohttp.ClientSession, people: ModuleType) -> None:
        self.service = service
        self.url = service.url
        self.people = people
        self._http = http

    @property
    def provider(self) -> Any:
        host: Any = self.service.host("idp")
        return host._plugin.provider(host)

    async def ask(self, method: str, path: str, *, cookie: str = "", headers: Mapping[str, str] | None = None, **body: Any) -> Answer:
        sent = {**({"Cookie": cookie} if cookie else {}), **(headers or {})}
        async with self._http.request(method, self.url + path, headers=sent, allow_redirects=False, **body) as response:
            return Answer(status=response.status, headers=response.headers, text=await response.text())

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, **more: Any) -> Answer:
        return await self.ask("POST", path, **more)

    async def login(self, username: str = "alice", password: str | None = None, **more: Any) -> Answer:
        secret = self.people.PASSWORDS.get(username, "nothing") if password is None else password
        return await self.post("/api/auth/login", json={"username": username, "password": secret, **more.pop("body", {})}, **more)

    async def cookie(self, username: str = "alice") -> str:
        answer = await self.login(username)
        assert answer.status == 200, answer.text
        return answer.cookie

    async def claims(self, token: str) -> Any:
        """What /userinfo gives for an access token."""
        answer = await self.get("/userinfo", headers={"Authorization": f"Bearer {token}"})
        assert answer.status == 200, answer.text
        return answer.json

    async def events(self, *types: str) -> list[Any]:
        from sqlalchemy import select

        from greatseal.testing.store import audit

        rows = await self.service.host("idp").db.read(lambda tx: tx.all(select(audit).order_by(audit.c.id)))
        return [row for row in rows if row.event_type in types]

    async def deliveries(self) -> None:
        """Wait for the logout notifications that are under way."""
        await asyncio.gather(*(task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == "deliver"))

    async def rows(self, table: Any) -> list[Any]:
        return await self.service.host("idp").db.read(lambda tx: tx.all(table.select()))


@pytest.fixture
async def open_idp(start_service, tmp_path, monkeypatch) -> AsyncIterator[Any]:
    """``await open_idp(clock=..., rbac=..., session=...)``: a :class:`Desk` with the people alice and bob."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    feature = install(folder, "greatseal-people", PEOPLE)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()))

        async def start(*features: str, **sections: Any) -> Desk:
            service = await start_service("idp", feature, *features, **sections)
            return Desk(service, http, sys.modules["greatseal_people"])

        yield start


class RelyingParty:
    """An application that takes logout tokens; ``status`` is what it answers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.status = 200
        self.tokens: list[str] = []


@pytest.fixture
async def relying_party() -> AsyncIterator[RelyingParty]:
    """A listening back-channel logout endpoint on loopback."""

    async def told(request: web.Request) -> web.Response:
        form = await request.post()
        party.tokens.append(str(form["logout_token"]))
        return web.Response(status=party.status)

    app = web.Application()
    app.router.add_post("/backchannel", told)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    party = RelyingParty(f"http://127.0.0.1:{port}")
    yield party
    await runner.cleanup()
