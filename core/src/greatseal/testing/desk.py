"""Requests to a running service that carry what a test says and nothing else, and answers that were read to their end."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import msgspec
from multidict import CIMultiDictProxy
from sqlalchemy import select
from yarl import URL

from greatseal.jose.compact import b64url_encode
from greatseal.testing.service import Service
from greatseal.testing.store import audit

__all__ = ["CALLBACK", "CHALLENGE", "VERIFIER", "Answer", "Desk", "bearer", "forgetful", "hidden_fields", "members_of", "told"]

CALLBACK = "https://app.example/callback"
VERIFIER = "correct-horse-battery-staple-correct-horse-battery"
CHALLENGE = b64url_encode(sha256(VERIFIER.encode()).digest())
"""S256 of the verifier (RFC 7636 s4.2)."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A response."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> str:
        """The code of a refusal, empty where the answer has none."""
        code: str = self.json.get("error", "")
        return code

    @property
    def outcome(self) -> tuple[int, str]:
        """What a program learns from a refusal."""
        return self.status, self.error

    @property
    def location(self) -> str:
        return self.headers["Location"]

    @property
    def shown(self) -> bool:
        """Refused here, and nobody is sent anywhere."""
        return 400 <= self.status < 500 and "Location" not in self.headers

    @property
    def cookies(self) -> tuple[str, ...]:
        """Each ``Set-Cookie``."""
        return tuple(self.headers.getall("Set-Cookie", ()))

    @property
    def cookie(self) -> str:
        """The session cookie that it sets, as a Cookie header."""
        found = [one.partition(";")[0] for one in self.cookies if re.match(r"(?:__Host-)?greatseal_session=", one)]
        assert found, self.headers
        return found[0]


class Desk:
    """A running service. Nothing is followed and no cookie is kept: a test sends what it was given."""

    def __init__(self, service: Service, http: aiohttp.ClientSession) -> None:
        self.service = service
        self.url = service.url
        self.http = http

    async def ask(self, method: str, path: str, *, cookie: str = "", headers: Mapping[str, str] | None = None, **body: Any) -> Answer:
        """``path`` goes out as it is written; ``body`` is ``json=`` or ``data=``."""
        sent = {**({"Cookie": cookie} if cookie else {}), **(headers or {})}
        url = URL(self.url + path, encoded=True)
        async with self.http.request(method, url, headers=sent, allow_redirects=False, **body) as response:
            return Answer(status=response.status, headers=response.headers, body=await response.read())

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, **more: Any) -> Answer:
        return await self.ask("POST", path, **more)

    async def login(self, username: str, password: str, *, body: Mapping[str, Any] | None = None, **more: Any) -> Answer:
        """Sign in by a password; ``body`` are further members of the request."""
        return await self.post("/api/auth/login", json={"username": username, "password": password, **(body or {})}, **more)

    async def userinfo(self, token: str) -> Answer:
        return await self.get("/userinfo", headers=bearer(token))

    async def events(self, *types: str) -> list[Any]:
        """The audit events of those types, the oldest first."""
        rows = await self.service.kernel.store.read(lambda tx: tx.all(select(audit).order_by(audit.c.id)))
        return [row for row in rows if row.event_type in types]

    async def rows(self, table: Any) -> list[Any]:
        """What stands in a table."""
        return list(await self.service.kernel.store.read(lambda tx: tx.all(select(table))))


@asynccontextmanager
async def forgetful() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that keeps no cookies."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        yield http


def bearer(token: str) -> dict[str, str]:
    """The header that presents an access token (RFC 6750 s2.1)."""
    return {"Authorization": f"Bearer {token}"}


def members_of(location: str) -> dict[str, str]:
    """What a redirect tells a client, in query or fragment; nothing may be there twice."""
    parts = urlsplit(location)
    pairs = parse_qsl(parts.fragment or parts.query, keep_blank_values=True, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs), location
    return dict(pairs)


def told(answer: Answer) -> dict[str, str]:
    """The authorization response of a redirect to :data:`CALLBACK`."""
    assert answer.status in {302, 303}, (answer.status, answer.text)
    assert answer.location.startswith(CALLBACK), answer.location
    return members_of(answer.location)


def hidden_fields(page: Answer, form: str = "") -> dict[str, str]:
    """The hidden fields of a page, of one ``form`` alone where it is named."""
    inside = re.search(rf'<form id="{form}".*?</form>', page.text, re.DOTALL) if form else re.search(r".*", page.text, re.DOTALL)
    assert inside is not None, page.text
    hidden = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', inside[0])
    return {name: unescape(value) for name, value in hidden}
