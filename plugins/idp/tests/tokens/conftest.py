"""A running identity provider with people whose accounts a test can change, and the steps of its clients."""

import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from joserfc import jwt as joserfc_jwt
from joserfc.jwk import KeySet
from sqlalchemy import select

from greatseal.api.clients import Client, Registration
from greatseal.testing import FakeClock
from greatseal.testing.distributions import install
from greatseal.testing.plugin import StartService
from greatseal.testing.store import audit
from greatseal_idp import tables as t
from greatseal_idp.token.codes import CodeOrder

REDIRECT = "https://app.example/cb"
PEOPLE = """
from greatseal import hookimpl
from greatseal.api.directory import AccountState, Directory, DirectoryUnavailable, Tier, User
from greatseal.api.identity import AccessDenied
from greatseal.api.tokens import ClaimsProvider, GrantCheck


class People(Directory):
    name = "people"
    tier = Tier.STATIC
    realm = "EXAMPLE"

    def __init__(self):
        self.states = {"alice": AccountState(), "bob": AccountState()}
        self.password_changed_at = None
        self.down = False
        self.asked = 0

    async def user(self, username):
        self.asked += 1
        if self.down:
            raise DirectoryUnavailable(cause="down")
        state = self.states.get(username)
        if state is None:
            return None
        return User(username=username, realm="EXAMPLE", source="people", state=state, password_changed_at=self.password_changed_at)

    async def group(self, name):
        return None


class Known(ClaimsProvider):
    name = "people"
    claims = frozenset({"name", "email", "email_verified", "groups", "updated_at", "exp", "nickname"})

    async def of(self, subject, wanted):
        values = {"name": "Alice A.", "email": "alice@example.org", "email_verified": True, "groups": ["staff"], "updated_at": 7,
                  "exp": 1, "nickname": ""}
        return {name: value for name, value in values.items() if name in wanted} if subject == "alice@EXAMPLE" else {}


class Check(GrantCheck):
    name = "people"

    def __init__(self):
        self.refused = frozenset()
        self.questions = []

    async def check(self, question):
        self.questions.append(question)
        return question.scopes - self.refused


class Plugin:
    def __init__(self):
        self.people, self.check = People(), Check()

    @hookimpl
    def directories(self, host):
        return [self.people]

    @hookimpl
    def claims(self, host):
        return [Known()]

    @hookimpl
    def grant_checks(self, host):
        return [self.check]
"""


class Answer(msgspec.Struct, frozen=True):
    """A reply that was read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json.get("error")


class Desk:
    """The identity provider, seen by its clients."""

    def __init__(self, service: Any, http: aiohttp.ClientSession, clock: FakeClock) -> None:
        self.service = service
        self.http = http
        self.url = f"http://{service.addresses['main']}"
        self.clock = clock
        self.host = service.host("idp")
        self.provider = service.kernel.hooks.instances["idp"].provider(self.host)
        people = service.kernel.hooks.instances["people"]
        self.people, self.check = people.people, people.check
        self._secrets: dict[str, str] = {}

    async def client(self, *, method: str = "client_secret_basic", **fields: Any) -> Any:
        """A registered client; its secret is used from then on."""
        fields = {
            "redirect_uris": (REDIRECT,),
            "scopes": ("openid", "offline_access", "profile", "email", "groups", "api"),
            "grant_types": ("authorization_code", "refresh_token", "client_credentials"),
            **fields,
        }
        asked = Client(client_id="", token_endpoint_auth_method=method, **fields)
        made = await self.provider.clients.register(Registration(client=asked, open=True), by="test")
        if made.client_secret is not None:
            self._secrets[made.client.client_id] = made.client_secret.value
        return made.client

    async def session(self, id: str) -> None:
        """A session of alice."""

        def make(tx: Any) -> None:
            tx.put(
                t.SESSION, id, digest=id.encode(), subject="alice@EXAMPLE", username="alice", realm="EXAMPLE", groups="[]", amr="[]",
                acr=None, auth_time=tx.now, remote="", user_agent=None, upstream=None, clients="[]", created_at=tx.now,
                last_seen_at=tx.now, expires_at=tx.now + 10**12,
            )  # fmt: skip

        await self.host.db.write(make)

    async def code(self, client: Client, **order: Any) -> Any:
        """An authorization code of alice."""
        values = {
            "client_id": client.client_id,
            "redirect_uri": REDIRECT,
            "subject": "alice@EXAMPLE",
            "scopes": ("openid", "offline_access", "email"),
            "auth_time": self.host.clock.now(),
            "amr": ("pwd",),
            **order,
        }
        return await self.host.db.write(self.provider.codes.issue, CodeOrder(**values))

    def credentials(self, client: Client) -> tuple[dict[str, str], dict[str, str]]:
        """Headers and form members that prove the client."""
        secret = self._secrets.get(client.client_id)
        if secret is None:
            return {}, {"client_id": client.client_id}
        if client.token_endpoint_auth_method == "client_secret_post":
            return {}, {"client_id": client.client_id, "client_secret": secret}
        basic = base64.b64encode(f"{client.client_id}:{secret}".encode()).decode()
        return {"Authorization": f"Basic {basic}"}, {}

    async def post(self, path: str, client: Client | None, form: Any, headers: Mapping[str, str] | None = None) -> Answer:
        proof, members = self.credentials(client) if client else ({}, {})
        pairs = [*(form.items() if isinstance(form, Mapping) else form), *members.items()]
        return await self.send("POST", path, data=aiohttp.FormData(pairs)(), headers={**proof, **(headers or {})})

    async def send(self, method: str, path: str, **options: Any) -> Answer:
        async with self.http.request(method, self.url + path, allow_redirects=False, **options) as reply:
            return Answer(reply.status, reply.headers, await reply.read())

    async def redeem(self, client: Client, code: str, **form: str) -> Answer:
        return await self.post("/token", client, {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT, **form})

    async def refresh(self, client: Client, token: str, **form: str) -> Answer:
        return await self.post("/token", client, {"grant_type": "refresh_token", "refresh_token": token, **form})

    async def own_token(self, client: Client, **form: str) -> Answer:
        return await self.post("/token", client, {"grant_type": "client_credentials", **form})

    async def tokens(self, client: Client, **order: Any) -> Any:
        """What a fresh code of alice gives."""
        answer = await self.redeem(client, await self.code(client, **order))
        assert answer.status == 200, answer.body
        return answer.json

    async def introspect(self, client: Client, token: str) -> Any:
        answer = await self.post("/introspect", client, {"token": token})
        assert answer.status == 200, answer.body
        return answer.json

    async def is_live(self, client: Client, token: str) -> Any:
        return (await self.introspect(client, token))["active"]

    async def userinfo(self, token: str) -> Answer:
        return await self.send("GET", "/userinfo", headers={"Authorization": f"Bearer {token}"})

    def read(self, token: str) -> Any:
        """A JWT, read by another library with the published key set: ``header`` and ``claims``."""
        keys = KeySet.import_key_set(json.loads(self.provider.signing.jwks()))
        return joserfc_jwt.decode(token, keys, algorithms=["ES256", "RS256"])

    async def events(self, event_type: str) -> list[Any]:
        rows = await self.host.db.read(lambda tx: tx.all(select(audit).order_by(audit.c.id)))
        return [row for row in rows if row.event_type == event_type]

    async def families(self) -> Any:
        return await self.host.db.read(lambda tx: tx.all(select(t.family)))


StartDesk = Callable[..., Any]


@pytest.fixture
async def start_desk(start_service: StartService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StartDesk]:
    """``await start_desk(**sections)``."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    feature = install(site, "greatseal-people", PEOPLE)
    async with aiohttp.ClientSession() as http:

        async def start(**sections: Any) -> Desk:
            clock = FakeClock()
            desk = Desk(await start_service("idp", feature, clock=clock, **sections), http, clock)
            await desk.provider.scopes.put("api", "Use the API", [], by="test")
            return desk

        yield start


@pytest.fixture
async def desk(start_desk: StartDesk) -> Any:
    return await start_desk()


@pytest.fixture
async def client(desk: Desk) -> Any:
    return await desk.client()


@pytest.fixture
async def both_desks(start_desk: StartDesk, database_url: str) -> Any:
    """On SQLite and on PostgreSQL."""
    return await start_desk(database={"url": database_url})
