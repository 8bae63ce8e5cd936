"""An OpenID provider of somebody else that says what a test has it say, lies included."""

import hmac
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, quote_plus, urlsplit
from uuid import uuid4

import msgspec
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_encode, sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.testing.service import free_port

CLIENT, SECRET = "greatseal", "a secret: 50% of it & more"
ES256 = ALGORITHMS["ES256"]
LOGOUT: dict[str, dict[str, str]] = {"http://schemas.openid.net/event/backchannel-logout": {}}


class Stub:
    """``metadata``, ``claims`` and ``userinfo`` are what it says besides; the functions ``token`` and ``forge`` change an answer.

    ``asked`` has every request but those for metadata and keys. ``now`` gives its seconds.
    """

    def __init__(self, url: str, now: Callable[[], int]) -> None:
        self.url = url
        self.now = now
        self.key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey = ec.generate_private_key(ec.SECP256R1())
        self.alg = "ES256"
        self.metadata: dict[str, Any] = {}
        self.claims: dict[str, Any] = {}
        self.userinfo: Any = {}
        self.emails: Any = []
        self.token: Callable[[dict[str, Any]], Any] = lambda answer: answer
        self.forge: Callable[[dict[str, Any], dict[str, Any]], str] | None = None
        self.answer: Callable[[web.Request], web.Response | None] = lambda _request: None
        self.asked: list[tuple[str, dict[str, str], Mapping[str, str]]] = []
        self.fetched: list[str] = []
        self.pushed: dict[str, dict[str, str]] = {}
        self.secret = SECRET
        self._codes: dict[str, dict[str, str]] = {}

    @property
    def jwks(self) -> dict[str, Any]:
        return {"keys": [{**jwk_of(self.key.public_key()), "kid": "stub-1", "use": "sig", "alg": self.alg}]}

    def document(self) -> dict[str, Any]:
        """Its metadata."""
        own = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/jwks",
            "end_session_endpoint": f"{self.url}/logout",
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        return {name: value for name, value in {**own, **self.metadata}.items() if value is not None}

    def sign(self, claims: Mapping[str, Any], **header: Any) -> str:
        whole = {"alg": self.alg, "kid": "stub-1", "typ": "JWT", **header}
        head = {name: value for name, value in whole.items() if value is not None}
        return sign_compact(head, msgspec.json.encode(claims), lambda message: ALGORITHMS[self.alg].sign(self.key, message))

    def code(self, request: Mapping[str, str]) -> str:
        """Somebody signed in there for a request, and allowed it."""
        if "request_uri" in request:
            request = self.pushed.pop(request["request_uri"])
        code = uuid4().hex
        self._codes[code] = dict(request)
        return code

    def logout_token(self, **changes: Any) -> str:
        now = self.now()
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 120, "jti": uuid4().hex, "events": LOGOUT, **changes}
        return self.sign({name: value for name, value in claims.items() if value is not None}, typ="logout+jwt")

    def id_token(self, request: Mapping[str, str], access_token: str) -> str:
        now = self.now()
        half = sha256(access_token.encode()).digest()[:16]
        claims = {
            "iss": self.url,
            "sub": "ada-1",
            "aud": CLIENT,
            "exp": now + 300,
            "iat": now,
            "nonce": request.get("nonce"),
            "at_hash": b64url_encode(half),
            "sid": "sid-1",
            **({"auth_time": now} if "max_age" in request else {}),
            **self.claims,
        }
        said = {name: value for name, value in claims.items() if value is not None}
        return self.sign(said) if self.forge is None else self.forge(said, {"alg": "ES256", "kid": "stub-1", "typ": "JWT"})

    def _is_ours(self, request: web.Request, form: Mapping[str, str]) -> bool:
        pair = f"{quote_plus(CLIENT)}:{quote_plus(self.secret)}".encode()
        basic = f"Basic {b64encode(pair).decode()}"
        return request.headers.get("Authorization") == basic or (form.get("client_id"), form.get("client_secret")) == (CLIENT, self.secret)

    def _role(self, path: str) -> str:
        """Which of its endpoints has the path."""
        if path.endswith("/.well-known/openid-configuration"):
            return "metadata"
        urls = {"emails_endpoint": f"{self.url}/emails", **self.document()}
        return next((name for name, url in urls.items() if isinstance(url, str) and urlsplit(url).path == path and name != "issuer"), "")

    async def handle(self, request: web.Request) -> web.Response:
        form, role = dict(parse_qsl(await request.text())), self._role(request.path)
        if (said := self.answer(request)) is not None:
            self.fetched.append(request.path)
            return said
        if role in {"metadata", "jwks_uri"}:
            self.fetched.append(request.path)
            return web.json_response(self.document() if role == "metadata" else self.jwks)
        self.asked.append((request.path, form, request.headers))
        match role:
            case "pushed_authorization_request_endpoint":
                return self._push(request, form)
            case "userinfo_endpoint":
                told = {"sub": self.claims.get("sub", "ada-1"), **self.userinfo} if isinstance(self.userinfo, dict) else self.userinfo
                return web.json_response(told)
            case "emails_endpoint":
                return web.json_response(self.emails)
            case "token_endpoint":
                return self._tokens(request, form)
        return web.Response(status=500)

    def _push(self, request: web.Request, form: dict[str, str]) -> web.Response:
        if not self._is_ours(request, form):
            return web.json_response({"error": "invalid_client"}, status=400)
        uri = f"urn:ietf:params:oauth:request_uri:{uuid4().hex}"
        self.pushed[uri] = form
        return web.json_response({"request_uri": uri, "expires_in": 60}, status=201)

    def _tokens(self, request: web.Request, form: Mapping[str, str]) -> web.Response:
        if not self._is_ours(request, form) and "client_assertion" not in form:
            return web.json_response({"error": "invalid_client"}, status=401)
        begun = self._codes.pop(form.get("code", ""), None)
        challenge = b64url_encode(sha256(form.get("code_verifier", "").encode()).digest())
        if begun is None or not hmac.compare_digest(begun["code_challenge"], challenge) or begun["redirect_uri"] != form["redirect_uri"]:
            return web.json_response({"error": "invalid_grant", "error_description": "code or verifier"}, status=400)
        access_token = uuid4().hex
        answer = {"access_token": access_token, "token_type": "Bearer", "expires_in": 300}
        if "openid" in begun["scope"].split():
            answer["id_token"] = self.id_token(begun, access_token)
        said = self.token(answer)
        return said if isinstance(said, web.Response) else web.json_response(said)


@asynccontextmanager
async def open_stub(now: Callable[[], int]) -> AsyncIterator[Stub]:
    """It listens on loopback until the block ends."""
    port = free_port()
    stub = Stub(f"http://localhost:{port}", now)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stub.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield stub
    finally:
        await runner.cleanup()


def request_of(location: str) -> dict[str, str]:
    """The parameters that a browser is sent to a provider with."""
    pairs = parse_qsl(urlsplit(location).query, keep_blank_values=True, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs), location
    return dict(pairs)
