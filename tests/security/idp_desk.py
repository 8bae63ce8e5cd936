"""The identity provider as an attacker meets it: requests that carry what a test says and nothing else."""

from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import aiohttp
from rig.people import drop_password, write_users

from greatseal.clock import SystemClock
from greatseal.testing import FakeClock
from greatseal.testing import desk as testing
from greatseal.testing.desk import CALLBACK, CHALLENGE, VERIFIER, Answer, forgetful, hidden_fields, told
from greatseal.testing.service import Service, document, serve

PASSWORD = "correct horse battery"
SECRET = "s" * 43
PARALLEL = 50
Asked = str | tuple[str, ...] | None
"""A parameter; one with several values is sent as often."""
Form = Mapping[str, str | None] | Sequence[tuple[str, str | None]]
BROWSER = {"Accept": "text/html,application/xhtml+xml"}


class Desk(testing.Desk):
    """The server, a client, and the steps of its flows. ``by`` is another client that takes a step."""

    def __init__(self, service: Service, http: aiohttp.ClientSession, clock: FakeClock, folder: Path) -> None:
        super().__init__(service, http)
        self.folder = folder
        self.clock = clock
        self.admin = ""
        self.client: dict[str, Any] = {}

    async def cookie(self, username: str) -> str:
        """Of a new session."""
        return (await self.login(username, PASSWORD)).cookie

    async def register(self, **fields: Any) -> Answer:
        body = {
            "client_name": "The app",
            "redirect_uris": [CALLBACK],
            "scopes": ["openid", "profile", "email", "offline_access"],
            "token_endpoint_auth_method": "client_secret_basic",
            "client_secret": SECRET,
            **fields,
        }
        if body["token_endpoint_auth_method"] in {"none", "private_key_jwt"}:
            del body["client_secret"]
        return await self.ask("POST", "/api/admin/clients", cookie=self.admin, json=body)

    async def registered(self, **fields: Any) -> dict[str, Any]:
        """A client whose people are not asked, unless ``consent`` says so."""
        answer = await self.register(**{"consent": "implicit", **fields})
        assert answer.status == 201, answer.text
        client: dict[str, Any] = answer.json
        return client

    async def put(self, client: Mapping[str, Any], **fields: Any) -> Answer:
        return await self.ask("PUT", f"/api/admin/clients/{client['client_id']}", cookie=self.admin, json=fields)

    def query(self, **changes: Asked) -> str:
        asked: dict[str, Asked] = {
            "client_id": self.client["client_id"],
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid profile",
            "state": "state-1",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **changes,
        }
        return urlencode({name: value for name, value in asked.items() if value is not None}, doseq=True, quote_via=quote)

    async def authorize(self, cookie: str = "", *, headers: Mapping[str, str] | None = None, **changes: Asked) -> Answer:
        return await self.ask("GET", f"/authorize?{self.query(**changes)}", cookie=cookie, headers=headers)

    async def push(self, *, by: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None, **changes: Asked) -> Answer:
        client = by or self.client
        form = parse_qsl(self.query(**{"client_id": client["client_id"], **changes}))
        return await self.form("/par", form, by=client, headers=headers)

    async def consent(self, cookie: str, **changes: str | None) -> tuple[Answer, dict[str, str]]:
        """The consent page of a request, and the hidden fields of its form."""
        asked = await self.authorize(cookie, **changes)
        page = await self.ask("GET", asked.location, cookie=cookie, headers=BROWSER)
        return page, hidden_fields(page)

    async def approve(self, cookie: str, fields: Mapping[str, str]) -> Answer:
        return await self.ask("POST", "/api/auth/consent", cookie=cookie, data={**fields, "decision": "approve"})

    async def code(self, cookie: str, **changes: Asked) -> str:
        """The code of a request, which the person allows where they are asked."""
        asked = await self.authorize(cookie, **changes)
        if asked.location.startswith("/api/auth/consent"):
            page = await self.ask("GET", asked.location, cookie=cookie, headers=BROWSER)
            asked = await self.approve(cookie, hidden_fields(page))
        return told(asked)["code"]

    async def form(self, path: str, form: Form, *, by: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        """A form of a client that proves itself."""
        client = by or self.client
        pairs = form.items() if isinstance(form, Mapping) else form
        sent = [(name, value) for name, value in pairs if value is not None]
        proof = {} if client["token_endpoint_auth_method"] == "none" else credentials_of(client)
        if not proof:
            sent = [("client_id", client["client_id"]), *(pair for pair in sent if pair[0] != "client_id")]
        return await self.ask("POST", path, data=sent, headers={**proof, **(headers or {})})

    async def redeem(self, code: str, *, by: Mapping[str, Any] | None = None, **changes: str | None) -> Answer:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER, **changes}
        return await self.form("/token", form, by=by)

    async def refresh(self, token: str, *, by: Mapping[str, Any] | None = None, **changes: str | None) -> Answer:
        return await self.form("/token", {"grant_type": "refresh_token", "refresh_token": token, **changes}, by=by)

    async def tokens(self, cookie: str, **changes: str | None) -> dict[str, Any]:
        """What a fresh code gives."""
        answer = await self.redeem(await self.code(cookie, **{"scope": "openid profile offline_access", **changes}))
        assert answer.status == 200, answer.text
        tokens: dict[str, Any] = answer.json
        return tokens

    async def introspect(self, token: str, *, by: Mapping[str, Any] | None = None) -> Any:
        return (await self.form("/introspect", {"token": token}, by=by)).json

    @property
    def credentials(self) -> dict[str, str]:
        return credentials_of(self.client)

    @property
    def provider(self) -> Any:
        """The parts of the running provider: the keys that forgers do not have."""
        return self.service.kernel.hooks.instances["idp"].assembly(self.service.host("idp"))


def credentials_of(client: Mapping[str, Any], secret: str = SECRET) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{client['client_id']}:{secret}".encode()).decode()}


@asynccontextmanager
async def open_desk(
    folder: Path,
    *features: str,
    shown: str | None = None,
    clock: Any = None,
    elsewhere: Sequence[str] = (),
    groups: Mapping[str, Sequence[str]] | None = None,
    **sections: Any,
) -> AsyncIterator[Desk]:
    """A running provider with ann, ben and an administrator, whose names are ``shown``; passwords of some are ``elsewhere``.

    Its clock moves when a test says so.
    """
    people: dict[str, dict[str, str | Sequence[str]]] = {
        name: {**({"display_name": shown} if shown else {}), **({"groups": groups[name]} if groups and name in groups else {})}
        for name in ("ann", "ben", "admin")
    }
    users = write_users(folder / "users.toml", PASSWORD, people)
    for name in elsewhere:
        drop_password(users, name)
    role = {"name": "admin", "permissions": ["*"], "users": ["admin"]}
    whole = {"users": {"file": str(users)}, "rbac": {"role": [role]}, "server": {"auth_rate_limit": 0}}
    for name, section in sections.items():
        whole[name] = section if isinstance(section, list) else {**whole.get(name, {}), **section}
    clock = clock or FakeClock(SystemClock().now())
    config = document(folder, ["idp", "users-file", *features], **whole)
    async with serve(config, clock=clock) as service, forgetful() as http:
        desk = Desk(service, http, clock, folder)
        desk.admin = await desk.cookie("admin")
        desk.client = await desk.registered()
        yield desk
