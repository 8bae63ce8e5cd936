"""A browser that follows redirects and fills in forms, and a relying party that verifies what it gets: both without scripts."""

import json
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import aiohttp
import msgspec
from joserfc import jwt
from joserfc.jwk import KeySet
from rig.forms import Form, forms_of

CALLBACK = "https://rp.example/callback"
LOGGED_OUT = "https://rp.example/logged-out"
USER, PASSWORD = "alice", "correct horse battery"


class Page(msgspec.Struct, frozen=True):
    """Where the browser stands: a page of the provider, or a URL of the relying party that it was sent to."""

    url: str
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def forms(self) -> dict[str, Form]:
        return forms_of(self.text)

    @property
    def answer(self) -> dict[str, str]:
        """The parameters that the relying party gets: from query, fragment or an auto-submitted form."""
        parts = urlsplit(self.url)
        if self.url.startswith(CALLBACK) or self.url.startswith(LOGGED_OUT):
            return dict(parse_qsl(parts.fragment or parts.query, keep_blank_values=True))
        (form,) = (form for form in self.forms.values() if form.action.startswith(CALLBACK))
        return form.fields


class Browser:
    """Keeps cookies, follows redirects within the provider, stops at the relying party."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        self.shown: list[Page] = []

    async def open(self, url: str, *, data: Mapping[str, str] | None = None, same_site: bool = True) -> Page:
        """Load ``url`` and follow: redirects, then stop at a page or outside of the provider."""
        method = "GET" if data is None else "POST"
        headers = {"Accept": "text/html"}
        if data is not None:
            headers["Origin"] = self.issuer if same_site else "https://rp.example"
        while True:
            if not url.startswith(self.issuer):
                return self._at(Page(url, 0, {}, ""))
            async with self.session.request(method, url, data=data, headers=headers, allow_redirects=False) as reply:
                text = await reply.text()
                assert reply.status not in {307, 308}
                if reply.status in {302, 303}:
                    url, method, data, headers = urljoin(url, reply.headers["Location"]), "GET", None, {"Accept": "text/html"}
                    continue
                return self._at(Page(url, reply.status, reply.headers, text))

    async def submit(self, page: Page, form: str, button: str | None = None, **values: str) -> Page:
        found = page.forms[form]
        pressed = dict([found.buttons[button]]) if button else {}
        return await self.open(urljoin(page.url, found.action), data={**found.fields, **pressed, **values})

    async def finish(self, page: Page, *, decision: str = "approve") -> Page:
        """Sign in and consent where the pages ask for it."""
        while page.forms:
            if "login-form" in page.forms:
                page = await self.submit(page, "login-form", username=USER, password=PASSWORD)
            elif "consent-form" in page.forms:
                page = await self.submit(page, "consent-form", decision)
            else:
                break
        return page

    def _at(self, page: Page) -> Page:
        self.shown.append(page)
        return page

    def saw(self, form: str) -> bool:
        """Whether a page with that form was shown since :meth:`forget`."""
        return any(form in page.forms for page in self.shown)

    def forget(self) -> None:
        self.shown.clear()


class RelyingParty:
    """A registered client with its browser."""

    def __init__(self, browser: Browser, metadata: Mapping[str, Any], client: Mapping[str, Any]) -> None:
        self.browser = browser
        self.metadata = metadata
        self.client_id = client["client_id"]
        self.secret = client.get("client_secret", "")
        self.post = client["token_endpoint_auth_method"] == "client_secret_post"
        self.form_post = False

    def request(self, **changes: str | None) -> dict[str, str]:
        """The parameters of an authorization request; None takes one out."""
        whole: dict[str, str | None] = {
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid",
            "state": secrets.token_urlsafe(8),
            "nonce": secrets.token_urlsafe(8),
        }
        if self.form_post:
            whole["response_mode"] = "form_post"
        return {name: value for name, value in (whole | changes).items() if value is not None}

    async def begin(self, parameters: Mapping[str, str]) -> Page:
        return await self.browser.open(f"{self.metadata['authorization_endpoint']}?{urlencode(parameters)}")

    async def authorize(self, **changes: str | None) -> tuple[dict[str, str], dict[str, str]]:
        """A whole authorization: the request and the response."""
        parameters = self.request(**changes)
        page = await self.browser.finish(await self.begin(parameters))
        answer = page.answer
        assert answer.get("state") == parameters.get("state")
        assert answer["iss"] == self.metadata["issuer"]
        return parameters, answer

    async def token(self, **form: str) -> tuple[int, dict[str, Any]]:
        return await self.call("token_endpoint", form)

    async def call(self, endpoint: str, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        headers = {} if self.post else {"Authorization": aiohttp.encode_basic_auth(self.client_id, self.secret)}
        data = {**form, **({"client_id": self.client_id, "client_secret": self.secret} if self.post else {})}
        async with self.browser.session.post(self.metadata[endpoint], data=data, headers=headers) as reply:
            text = await reply.text()
            return reply.status, json.loads(text) if text else {}

    async def redeem(self, code: str, **more: str) -> tuple[int, dict[str, Any]]:
        return await self.token(grant_type="authorization_code", code=code, redirect_uri=CALLBACK, **more)

    async def sign_in(self, **changes: str | None) -> dict[str, Any]:
        """Tokens of a whole flow, the ID token verified; its claims are under ``claims``."""
        parameters, answer = await self.authorize(**changes)
        status, tokens = await self.redeem(answer["code"])
        assert status == 200, tokens
        assert tokens["token_type"] == "Bearer"
        claims = await self.verify(tokens["id_token"])
        assert claims.get("nonce") == parameters.get("nonce")
        return {**tokens, "claims": claims}

    async def verify(self, id_token: str) -> dict[str, Any]:
        """OpenID Connect Core s3.1.3.7."""
        async with self.browser.session.get(self.metadata["jwks_uri"]) as reply:
            keys = KeySet.import_key_set(await reply.json(content_type=None))
        token = jwt.decode(id_token, keys, algorithms=["ES256", "RS256"])
        claims = token.claims
        assert claims["iss"] == self.metadata["issuer"]
        assert claims["aud"] == self.client_id
        assert claims["exp"] > claims["iat"]
        return claims

    async def userinfo(self, access_token: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {access_token}"}
        async with self.browser.session.get(self.metadata["userinfo_endpoint"], headers=headers) as reply:
            assert reply.status == 200, await reply.text()
            claims: dict[str, Any] = await reply.json()
            return claims
