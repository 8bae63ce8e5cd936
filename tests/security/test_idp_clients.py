"""Registrations, keys and proofs of clients: S023, S051, S055, S057 and B26."""

import asyncio
import hmac
import json
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
import trustme
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from security.idp_desk import PARALLEL, SECRET, Desk, credentials_of, open_desk

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import CALLBACK, VERIFIER, Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = ec.generate_private_key(ec.SECP256R1())
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
OWN = {"grant_type": "client_credentials"}
MACHINE = {"grant_types": ["client_credentials"], "redirect_uris": [], "scopes": ["groups"]}
HOSTS = {"hosts": {"keys.example": ["127.0.0.1"]}}
NOT_PROVEN = (401, "invalid_client")


def claims_of(desk: Desk, client: Any, jti: str) -> bytes:
    now, me = desk.clock.now() // 1_000_000, client["client_id"]
    return json.dumps({"iss": me, "sub": me, "aud": desk.url, "iat": now, "exp": now + 60, "jti": jti}).encode()


def by_key(desk: Desk, client: Any, jti: str, *, kid: str | None = "k1", key: Any = KEY, **header: Any) -> dict[str, str]:
    """The proof of a client by its key."""

    def sign(message: bytes) -> bytes:
        return ALGORITHMS["ES256"].sign(key, message)

    named = {} if kid is None else {"kid": kid}
    assertion = sign_compact({"alg": "ES256", **named, **header}, claims_of(desk, client, jti), sign)
    return {"client_assertion": assertion, "client_assertion_type": ASSERTION}


# ---- S051: keys behind jwks_uri


class KeyServer:
    """A client's place for its keys, over TLS on loopback. ``answer`` is what it does next."""

    def __init__(self) -> None:
        self.asked = 0
        self.sent = 0
        self.elsewhere = 0
        self.uri = ""
        self.answer: Callable[[web.Request], Any] = self.keys({"k1": KEY})

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        response: web.StreamResponse = await self.answer(request)
        return response

    async def trapped(self, _request: web.Request) -> web.Response:
        self.elsewhere += 1
        return await self.keys({"k1": KEY})(_request)

    def keys(self, named: dict[str, Any], count: int = 1) -> Callable[[web.Request], Any]:
        async def answer(_request: web.Request) -> web.Response:
            listed = [jwk_of(key.public_key()) | {"kid": kid} for kid, key in named.items()] * count
            return web.json_response({"keys": listed})

        return answer

    def other(self, status: int, body: bytes) -> Callable[[web.Request], Any]:
        async def answer(_request: web.Request) -> web.Response:
            return web.Response(status=status, body=body, content_type="application/json")

        return answer

    def redirect(self, location: str) -> Callable[[web.Request], Any]:
        async def answer(_request: web.Request) -> web.Response:
            return web.Response(status=302, headers={"Location": location})

        return answer

    def endless(self, chunk: bytes, pause: float = 0.0) -> Callable[[web.Request], Any]:
        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            try:
                while True:
                    await response.write(chunk)
                    self.sent += len(chunk)
                    await asyncio.sleep(pause)
            except ConnectionError:
                return response

        return answer


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA) -> AsyncIterator[Desk]:
    """A provider that may ask a key server on loopback."""
    folder = tmp_path_factory.mktemp("idp")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
        async with open_desk(folder, "client-auth-jwt", "resolver", resolver=HOSTS, oauth={"allow_private_jwks_hosts": True}) as desk:
            yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def key_server(authority: trustme.CA) -> AsyncIterator[KeyServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("keys.example").configure_cert(context)
    server = KeyServer()
    app = web.Application()
    app.router.add_get("/jwks", server.handle)
    app.router.add_get("/elsewhere", server.trapped)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    server.uri = f"https://keys.example:{runner.addresses[0][1]}/jwks"
    yield server
    await runner.cleanup()


@pytest_asyncio.fixture(loop_scope="module")
async def jwks(desk: Desk, key_server: KeyServer) -> Desk:
    """With a client that has its keys at the key server."""
    desk.client = await desk.registered(token_endpoint_auth_method="private_key_jwt", jwks_uri=key_server.uri, **MACHINE)
    return desk


@pytest_asyncio.fixture(loop_scope="module")
async def ann(desk: Desk) -> str:
    desk.client = await desk.registered()
    return await desk.cookie("ann")


async def own_token(desk: Desk, jti: str, **proof: Any) -> Answer:
    return await desk.ask("POST", "/token", data={**OWN, **by_key(desk, desk.client, jti, **proof)})


async def test_s051_bad_places_and_bad_answers(jwks, key_server, monkeypatch):
    for uri in (
        "http://keys.example/jwks",
        "ftp://keys.example/jwks",
        "https://user@keys.example/jwks",
        "file:///etc/passwd",
        "//keys.example",
    ):
        registration = {"token_endpoint_auth_method": "private_key_jwt", **MACHINE, "jwks_uri": uri}
        assert (await jwks.register(**registration)).outcome == (400, "invalid_client_metadata"), uri
        assert (await jwks.put(jwks.client, jwks_uri=uri)).outcome == (400, "invalid_client_metadata"), uri

    elsewhere = key_server.uri.replace("/jwks", "/elsewhere")
    bad = {
        "redirect to a private address": key_server.redirect("http://169.254.169.254/latest"),
        "redirect": key_server.redirect(elsewhere),
        "an error": key_server.other(500, json.dumps({"keys": [jwk_of(KEY.public_key()) | {"kid": "k1"}]}).encode()),
        "no JSON": key_server.other(200, b"not json"),
        "no keys": key_server.other(200, b'{"keys": []}'),
        "ten thousand keys": key_server.keys({"k1": KEY}, 10_000),
        "more keys than are read": key_server.keys({"k1": KEY}, 101),
        "without end": key_server.endless(b" " * 65_536),
    }
    for number, (name, answer) in enumerate(bad.items(), 1):
        key_server.answer = answer
        refused = await own_token(jwks, name)
        assert refused.outcome == (503, "unavailable"), name
        assert "keys.example" not in refused.text
        assert key_server.asked == number
        jwks.clock.advance(6)
    assert key_server.elsewhere == 0
    assert key_server.sent < 20_000_000, "of what has no end, no more was taken than fits into buffers"
    monkeypatch.setattr("greatseal.net.remote_keys.FETCH_SECONDS", 1.0)
    key_server.answer = key_server.endless(b" ", pause=0.1)
    assert (await own_token(jwks, "a byte now and then")).outcome == (503, "unavailable")
    jwks.clock.advance(6)

    key_server.answer = key_server.keys({"k1": KEY})
    assert (await own_token(jwks, "good")).status == 200


async def test_s051_a_private_address_is_not_asked_unless_it_is_allowed(tmp_path, key_server):
    async with open_desk(tmp_path, "client-auth-jwt", "resolver", resolver=HOSTS) as desk:
        desk.client = await desk.registered(token_endpoint_auth_method="private_key_jwt", jwks_uri=key_server.uri, **MACHINE)
        assert (await own_token(desk, "j")).outcome == (503, "unavailable")
    assert key_server.asked == 0


async def test_s051_keys_are_kept_and_asked_for_again_seldom(jwks, key_server):
    answers = await asyncio.gather(*(own_token(jwks, f"first-{n}") for n in range(10)))
    assert {answer.status for answer in answers} == {200}
    assert key_server.asked == 1

    other = ec.generate_private_key(ec.SECP256R1())
    key_server.answer = key_server.keys({"k2": other})
    await asyncio.gather(*(own_token(jwks, f"unknown-{n}", kid=f"x{n}") for n in range(PARALLEL)))
    assert key_server.asked == 1, "kids that nobody knows have the keys fetched once in 30 s"
    jwks.clock.advance(31)
    assert (await own_token(jwks, "new", kid="k2", key=other)).status == 200
    assert key_server.asked == 2
    assert (await own_token(jwks, "old")).outcome[0] in {401, 429}


async def test_s051_a_place_that_fails_is_left_alone_for_a_while(jwks, key_server):
    key_server.answer = key_server.redirect("https://keys.example/")

    answers = [await own_token(jwks, f"j{n}") for n in range(10)]
    answers += await asyncio.gather(*(own_token(jwks, f"p{n}") for n in range(PARALLEL)))

    assert {answer.outcome for answer in answers} == {(503, "unavailable")}
    assert key_server.asked == 1
    key_server.answer = key_server.keys({"k1": KEY})
    jwks.clock.advance(5)
    assert (await own_token(jwks, "again")).status == 200


# ---- S055 to S057


async def test_s055_without_registration_there_is_nothing_to_register_at(desk, ann):
    before = (await desk.ask("GET", "/api/admin/clients", cookie=desk.admin)).json
    for method in ("POST", "GET", "PUT", "DELETE"):
        for headers in ({}, {"Authorization": "Bearer x"}):
            for path in ("/register", f"/register/{desk.client['client_id']}"):
                answer = await desk.ask(method, path, cookie=desk.admin, headers=headers, json={"redirect_uris": [CALLBACK]})
                assert answer.outcome == (404, "not_found"), (method, path)
    metadata = (await desk.ask("GET", "/.well-known/openid-configuration")).json
    assert "registration_endpoint" not in metadata
    assert (await desk.ask("GET", "/api/admin/clients", cookie=desk.admin)).json == before


async def test_s057_a_client_of_keys_takes_no_weaker_proof(desk):
    client = await desk.registered(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [jwk_of(KEY.public_key())]}, **MACHINE)
    me = {"client_id": client["client_id"]}

    def macked(secret: bytes) -> dict[str, str]:
        assertion = sign_compact({"alg": "HS256"}, claims_of(desk, client, "mac"), lambda message: hmac.digest(secret, message, "sha256"))
        return {"client_assertion": assertion, "client_assertion_type": ASSERTION}

    weaker = (
        {},
        me,
        {**me, "client_secret": SECRET},
        {**me, "client_secret": "x"},
        macked(SECRET.encode()),
        macked(b""),
        macked(b"\0" * 32),
    )
    for proof in weaker:
        assert (await desk.ask("POST", "/token", data={**OWN, **proof})).outcome == NOT_PROVEN, proof
    for secret in (SECRET, "", client["client_id"]):
        assert (await desk.ask("POST", "/token", data=OWN, headers=credentials_of(client, secret))).outcome == NOT_PROVEN
    several = {**OWN, **by_key(desk, client, "both"), **me, "client_secret": SECRET}
    assert (await desk.ask("POST", "/token", data=several)).outcome == (400, "invalid_request")
    stranger = ec.generate_private_key(ec.SECP256R1())
    for header in ({"x5t#S256": ["x"]}, {"x5t#S256": {}}, {"x5t#S256": 7}, {"x5t": []}):
        odd = by_key(desk, client, "odd", kid=None, key=stranger, **header)
        assert (await desk.ask("POST", "/token", data={**OWN, **odd})).status in {401, 429}, header
    assert (await desk.ask("POST", "/token", data={**OWN, **by_key(desk, client, "right", kid=None)})).status == 200


async def test_s057_a_stronger_proof_is_no_way_in_either(desk, ann):
    form = {**OWN, **by_key(desk, desk.client, "j")}

    assert (await desk.ask("POST", "/token", data=form)).outcome == NOT_PROVEN


# ---- Who a token is of, and for whom


async def test_s023_b26_a_confidential_client_proves_itself_everywhere(desk, ann):
    tokens, code = await desk.tokens(ann), await desk.code(ann)
    pushed = {"redirect_uri": CALLBACK, "response_type": "code", "scope": "openid"}
    forms = {
        "/token": {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER},
        "/par": pushed,
        "/revoke": {"token": tokens["refresh_token"]},
        "/introspect": {"token": tokens["access_token"]},
    }
    for path, form in forms.items():
        for proof in ({}, {"client_id": desk.client["client_id"]}, {"client_id": desk.client["client_id"], "client_secret": "s" * 43}):
            answer = await desk.ask("POST", path, data={**form, **proof})
            assert answer.outcome == (401, "invalid_client"), (path, proof)
        wrong = await desk.ask("POST", path, data=form, headers=credentials_of(desk.client, "wrong"))
        assert wrong.outcome == (401, "invalid_client"), path
    assert (await desk.redeem(code)).status == 200
    assert (await desk.refresh(tokens["refresh_token"])).status == 200
