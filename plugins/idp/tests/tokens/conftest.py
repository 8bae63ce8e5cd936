"""A running identity provider whose people a test can change, and the steps of its clients."""

import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from joserfc import jwt as joserfc_jwt
from joserfc.jwk import KeySet

from greatseal.api.clients import Client, Registration
from greatseal.api.declarations import Secret
from greatseal.testing import FakeClock
from greatseal.testing.desk import Answer, forgetful
from greatseal.testing.distributions import install
from greatseal.testing.people import PEOPLE, PeopleDesk
from greatseal.testing.service import Service
from greatseal_idp import tables as t
from greatseal_idp.token.codes import CodeOrder

REDIRECT = "https://app.example/cb"


class Desk(PeopleDesk):
    """The identity provider, seen by its clients."""

    def __init__(self, service: Service, http: aiohttp.ClientSession) -> None:
        super().__init__(service, http)
        self.url = f"http://{service.addresses['main']}"
        self.host = service.host("idp")
        self.clock = self.host.clock
        self.provider = service.kernel.hooks.instances["idp"].assembly(self.host)
        # The last two are dropped: a claim of the token itself, and an empty one.
        self.people.claims["alice"] |= {"email_verified": True, "groups": ["staff"], "updated_at": 7, "exp": 1, "nickname": ""}
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
        # What only an administrator gives; else the way of /register, whose secrets are made and quick to check.
        chosen = Secret("chosen by an administrator") if "introspect" in asked.scopes else None
        asking = Registration(client=asked, open=chosen is None, client_secret=chosen)
        made = await self.provider.clients.register(asking, by="test")
        if secret := made.client_secret or chosen:
            self._secrets[made.client.client_id] = secret.value
        return made.client

    async def session(self, id: str) -> None:
        """A session of alice."""

        def make(tx: Any) -> None:
            tx.put(
                t.SESSION, id, digest=id.encode(), subject="alice@LOCALHOST", username="alice", realm="LOCALHOST", groups="[]", amr="[]",
                acr=None, auth_time=tx.now, remote="", user_agent=None, upstream=None, clients="[]", created_at=tx.now,
                last_seen_at=tx.now, expires_at=tx.now + 10**12,
            )  # fmt: skip

        await self.host.db.write(make)

    async def code(self, client: Client, **order: Any) -> Any:
        """An authorization code of alice."""
        values = {
            "client_id": client.client_id,
            "redirect_uri": REDIRECT,
            "subject": "alice@LOCALHOST",
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

    async def form(self, path: str, client: Client | None, form: Any, headers: Mapping[str, str] | None = None) -> Answer:
        proof, members = self.credentials(client) if client else ({}, {})
        pairs = [*(form.items() if isinstance(form, Mapping) else form), *members.items()]
        return await self.post(path, data=aiohttp.FormData(pairs)(), headers={**proof, **(headers or {})})

    async def redeem(self, client: Client, code: str, **form: str) -> Answer:
        return await self.form("/token", client, {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT, **form})

    async def refresh(self, client: Client, token: str, **form: str) -> Answer:
        return await self.form("/token", client, {"grant_type": "refresh_token", "refresh_token": token, **form})

    async def own_token(self, client: Client, **form: str) -> Answer:
        return await self.form("/token", client, {"grant_type": "client_credentials", **form})

    async def tokens(self, client: Client, **order: Any) -> Any:
        """What a fresh code of alice gives."""
        answer = await self.redeem(client, await self.code(client, **order))
        assert answer.status == 200, answer.text
        return answer.json

    async def introspect(self, client: Client, token: str) -> Any:
        answer = await self.form("/introspect", client, {"token": token})
        assert answer.status == 200, answer.text
        return answer.json

    async def is_live(self, client: Client, token: str) -> Any:
        return (await self.introspect(client, token))["active"]

    def read(self, token: str) -> Any:
        """A JWT, read by another library with the published key set: ``header`` and ``claims``."""
        keys = KeySet.import_key_set(json.loads(self.provider.signing.jwks()))
        return joserfc_jwt.decode(token, keys, algorithms=["ES256", "RS256"])

    async def families(self) -> Any:
        return await self.rows(t.family)


StartDesk = Callable[..., Any]


@pytest.fixture
async def start_desk(open_people: Any) -> StartDesk:
    """``await start_desk(*features, **sections)``."""

    async def start(*features: str, **sections: Any) -> Desk:
        desk: Desk = await open_people("idp", *features, desk=Desk, clock=FakeClock(), **sections)
        await desk.provider.scopes.put("api", "Use the API", [], by="test")
        return desk

    return start


@pytest.fixture
async def start_desks(tmp_path: Path, start_nodes: Any) -> AsyncIterator[StartDesk]:
    """``nodes, n1, n2 = await start_desks()``: the same provider at two nodes, and the wires between them."""
    feature = install(tmp_path / "nodes", "greatseal-people", PEOPLE)
    async with forgetful() as http:

        async def start() -> tuple[Any, ...]:
            nodes, services = await start_nodes(feature, "idp", collections=[t.CLIENT, t.SESSION, t.SCOPE, t.CONSENT])
            return nodes, *(Desk(service, http) for service in services.values())

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
