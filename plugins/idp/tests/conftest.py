"""A running identity provider with the people alice and bob, and its admin API."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any

import msgspec
import pytest
from aiohttp import web

from greatseal.api.tokens import Authentication, Granted
from greatseal.testing.distributions import install
from greatseal.testing.people import PeopleDesk

ROOT = {"name": "root", "permissions": ["*"], "users": ["alice"]}


class Desk(PeopleDesk):
    @property
    def provider(self) -> Any:
        host: Any = self.service.host("idp")
        return host._plugin.assembly(host)

    async def claims(self, token: str) -> Any:
        """What /userinfo gives for an access token."""
        answer = await self.userinfo(token)
        assert answer.status == 200, answer.text
        return answer.json

    async def deliveries(self) -> None:
        """Wait for the logout notifications that are under way."""
        await asyncio.gather(*(task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == "deliver"))


@pytest.fixture
def open_idp(open_people) -> Any:
    """``await open_idp(clock=..., rbac=..., session=...)``: a :class:`Desk`."""
    return partial(open_people, "idp", desk=Desk)


PARTS = """
from greatseal import hookimpl
from greatseal.api.authorization import Extension
from greatseal.api.clients import ClientAuthMethod
from greatseal.api.http import Discovery, Route
from greatseal.api.services import AUTHORIZATIONS, CLIENTS
from greatseal.api.tokens import Grant, TokenBinding

GIVEN = []


class Plugin:
    requires = (AUTHORIZATIONS, CLIENTS)

    @hookimpl
    def token_bindings(self):
        return [one for one in GIVEN if isinstance(one, TokenBinding)]

    @hookimpl
    def extensions(self):
        return [one for one in GIVEN if isinstance(one, Extension)]

    @hookimpl
    def grants(self):
        return [one for one in GIVEN if isinstance(one, Grant)]

    @hookimpl
    def discovery(self):
        return [one for one in GIVEN if isinstance(one, Discovery)]

    @hookimpl
    def routes(self, host):
        return [one(host) for one in GIVEN if callable(one)]
"""


@pytest.fixture
def parts(tmp_path, monkeypatch) -> Any:
    """``feature = parts(binding, extension, ...)``: another distribution, which brings these; what is callable makes a route of a host."""
    folder = tmp_path / "parts"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    names = (f"greatseal-parts{number}" for number in count())

    def make(*components: object) -> str:
        name = next(names)
        feature = install(folder, name, PARTS)
        import_module(name.replace("-", "_")).GIVEN.extend(components)
        return feature

    return make


class Administrator:
    """Requests to the admin API with the session of one person. ``desk`` is the service."""

    def __init__(self, desk, cookie):
        self.desk = desk
        self.cookie = cookie

    async def ask(self, method, path, body=msgspec.UNSET, **more):
        if body is not msgspec.UNSET:
            more["json"] = body
        return await self.desk.ask(method, f"/api/admin/{path}", cookie=self.cookie, **more)

    async def get(self, path, **more):
        return await self.ask("GET", path, **more)

    async def post(self, path, body=msgspec.UNSET, **more):
        return await self.ask("POST", path, body, **more)

    async def put(self, path, body=msgspec.UNSET, **more):
        return await self.ask("PUT", path, body, **more)

    async def delete(self, path, **more):
        return await self.ask("DELETE", path, **more)

    async def client(self, **fields):
        """A new client, a public one unless the fields say otherwise."""
        body = {
            "client_name": "App",
            "redirect_uris": ["https://app.example/cb"],
            "scopes": ["openid", "offline_access"],
            "token_endpoint_auth_method": "none",
            **fields,
        }
        answer = await self.post("clients", {name: value for name, value in body.items() if value is not msgspec.UNSET})
        assert answer.status == 201, answer.text
        return answer.json

    async def family(self, *, subject="bob@LOCALHOST", client_id="c1", scopes=("openid", "offline_access"), session_id=None):
        """A refresh family with its first token, as the token endpoint opens it."""
        seen = Authentication(auth_time=1, amr=("pwd",), acr=None, session_id=session_id)
        granted = Granted(subject=subject, client_id=client_id, scopes=scopes, authentication=seen, may_refresh=True)
        return await self.write(self.desk.provider.families.open, granted)

    async def write(self, fn, *args):
        return await self.desk.service.host("idp").db.write(fn, *args)


@pytest.fixture
def open_admin(open_idp):
    """``await open_admin(server=...)``: a service whose alice may do everything, and she is signed in."""

    async def start(*features, role=(), **sections):
        desk = await open_idp(*features, rbac={"role": [ROOT, *role]}, **sections)
        return Administrator(desk, await desk.cookie("alice"))

    return start


@pytest.fixture
async def admin(open_admin):
    return await open_admin()


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
