"""An application at the authorization endpoint, and a browser that follows nothing by itself."""

from base64 import b64encode
from typing import Any
from urllib.parse import urlencode

import pytest

from greatseal.testing.desk import CALLBACK, CHALLENGE, VERIFIER, hidden_fields, told

SCOPES = ("openid", "profile", "email", "offline_access")


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
        return page, hidden_fields(page, "consent-form")

    async def decide(self, cookie: str, fields: dict[str, str], decision: str = "approve", **more: Any) -> Any:
        return await self.desk.post("/api/auth/consent", cookie=cookie, data={**fields, "decision": decision}, **more)

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
        registered = await desk.provider.clients.register_body(body, open=False, by="test")
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
