"""An application at the authorization endpoint, and a browser that follows nothing by itself."""

import hashlib
import re
from base64 import b64encode, urlsafe_b64encode
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

CALLBACK = "https://app.example/callback"
VERIFIER = "correct-horse-battery-staple-correct-horse-battery"
CHALLENGE = urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
SCOPES = ("openid", "profile", "email", "offline_access")


def fields_of(text: str, form: str) -> dict[str, str]:
    """The hidden fields of a form."""
    inside = re.search(rf'<form id="{form}".*?</form>', text, re.DOTALL)
    assert inside is not None, text
    hidden = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', inside[0])
    return {name: unescape(value) for name, value in hidden}


def members(location: str) -> dict[str, str]:
    """What a redirect tells the client; nothing may be there twice."""
    parts = urlsplit(location)
    pairs = parse_qsl(parts.fragment or parts.query, keep_blank_values=True, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def told(answer: Any) -> dict[str, str]:
    """The authorization response of a redirect to the client."""
    assert answer.status in {302, 303}, (answer.status, answer.text)
    assert answer.location.startswith(CALLBACK), answer.location
    return members(answer.location)


class App:
    """A registered client. ``ask`` sends its authorization request, with changes; None leaves a parameter out."""

    CALLBACK = CALLBACK
    VERIFIER = VERIFIER
    SCOPES = SCOPES

    def __init__(self, desk: Any, client_id: str, secret: str | None) -> None:
        self.desk = desk
        self.client_id = client_id
        self.secret = secret
        self.request = {
            "client_id": client_id,
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid profile",
            "state": "st/a+te",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
        }

    @property
    def credentials(self) -> dict[str, str]:
        return {"Authorization": f"Basic {b64encode(f'{self.client_id}:{self.secret}'.encode()).decode()}"}

    def parameters(self, **changes: str | None) -> dict[str, str]:
        return {name: value for name, value in {**self.request, **changes}.items() if value is not None}

    async def ask(self, cookie: str = "", *, html: bool = False, headers: Any = None, **changes: str | None) -> Any:
        sent = {**({"Accept": "text/html"} if html else {}), **(headers or {})}
        return await self.desk.get(f"/authorize?{urlencode(self.parameters(**changes))}", cookie=cookie, headers=sent)

    async def push(self, **changes: str | None) -> Any:
        return await self.desk.post("/par", data=self.parameters(**changes), headers=self.credentials)

    async def redeem(self, code: str, **changes: str) -> Any:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER, **changes}
        return await self.desk.post("/token", data=form, headers=self.credentials)

    async def consent_of(self, cookie: str, **changes: str | None) -> tuple[Any, dict[str, str]]:
        """The consent page that a request leads to, and the fields of its form."""
        asked = await self.ask(cookie, **changes)
        assert asked.status == 303, asked.text
        assert asked.location.startswith("/api/auth/consent?"), asked.location
        page = await self.desk.get(asked.location, cookie=cookie, headers={"Accept": "text/html"})
        assert page.status == 200, page.text
        return page, fields_of(page.text, "consent-form")

    async def decide(self, cookie: str, fields: dict[str, str], decision: str = "approve", **more: Any) -> Any:
        return await self.desk.post("/api/auth/consent", cookie=cookie, data={**fields, "decision": decision}, **more)

    fields_of = staticmethod(fields_of)
    members = staticmethod(members)
    told = staticmethod(told)

    async def allowed(self, cookie: str, **changes: str | None) -> Any:
        """Ask and approve; the answer to the approval."""
        _, fields = await self.consent_of(cookie, **changes)
        return await self.decide(cookie, fields)


@pytest.fixture
def register_app(open_idp):
    """``await register_app(desk, scopes=..., token_endpoint_auth_method=...)``."""

    async def register(desk: Any, **fields: Any) -> App:
        body = {
            "client_name": "The shop",
            "redirect_uris": [CALLBACK],
            "scopes": list(SCOPES),
            "token_endpoint_auth_method": "client_secret_basic",
            "client_secret": "s" * 43,
            **fields,
        }
        if body["token_endpoint_auth_method"] == "none":
            body.pop("client_secret")
        registered = await desk.provider.clients.create(body, by="test")
        secret = registered.client_secret
        return App(desk, registered.client.client_id, secret.value if secret else body.get("client_secret"))

    return register


@pytest.fixture
async def desk(open_idp) -> Any:
    return await open_idp()


@pytest.fixture
async def app(desk, register_app) -> App:
    return await register_app(desk)


@pytest.fixture
async def cookie(desk) -> str:
    """Alice is signed in."""
    return await desk.cookie("alice")
