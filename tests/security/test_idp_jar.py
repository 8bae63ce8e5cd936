"""Request objects (RFC 9101) as an attacker makes them: nothing that the client did not sign is in force, and nothing is fetched."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from security.idp_desk import Desk, open_desk

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_encode, sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import CALLBACK, told

pytestmark = pytest.mark.asyncio(loop_scope="module")
UNSIGNED = b64url_encode(b'{"alg":"none"}')
KEY, EVIL = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path_factory.mktemp("idp"), "resolver", "jar") as desk:
        desk.client = await desk.registered(jwks={"keys": [jwk_of(KEY.public_key())]}, redirect_uris=[CALLBACK, f"{CALLBACK}2"])
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(desk: Desk) -> str:
    return await desk.cookie("ann")


def by(key: Any) -> Callable[[bytes], bytes]:
    return lambda message: ALGORITHMS["ES256"].sign(key, message)


def claims(desk: Desk, **changes: Any) -> dict[str, Any]:
    asked = dict(parse_qsl(desk.query()))
    return {**asked, "iss": asked["client_id"], "aud": desk.url, **changes}


def signed(desk: Desk, key: Any = KEY, header: Any = None, **changes: Any) -> str:
    return sign_compact({"alg": "ES256", **(header or {})}, json.dumps(claims(desk, **changes)).encode(), by(key))


async def test_s021_a_forged_request_object_is_refused_and_nothing_is_fetched(desk, ann):
    fetched: list[bytes] = []

    async def trap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fetched.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(trap, "127.0.0.1", 0)
    place = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/k"
    public = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    payload = json.dumps(claims(desk)).encode()
    other = (await desk.registered())["client_id"]
    evil = jwk_of(EVIL.public_key())
    forged = {
        "alg none": f"{UNSIGNED}.{b64url_encode(payload)}.",
        "the public key as a secret": sign_compact({"alg": "HS256"}, payload, lambda message: hmac.digest(public, message, "sha256")),
        "a key that it brings": signed(desk, EVIL, {"jwk": evil}),
        "a key elsewhere": signed(desk, EVIL, {"jku": place, "x5u": place}),
        "a path as kid": signed(desk, KEY, {"kid": "../../etc/passwd"}),
        "a critical extension": signed(desk, KEY, {"crit": ["exp"], "exp": 1}),
        "another type": signed(desk, KEY, {"typ": "at+jwt"}),
        "another client's": signed(desk, client_id=other, iss=other),
        "another server's": signed(desk, aud="https://other.example"),
        "an object in it": signed(desk, request=signed(desk)),
        "a place in it": signed(desk, request_uri=place),
    }
    try:
        for why, request in forged.items():
            assert told(await desk.authorize(ann, request=request))["error"] == "invalid_request_object", why
            assert (await desk.push(request=request)).outcome == (400, "invalid_request_object"), why
        assert told(await desk.authorize(ann, request_uri=place))["error"] == "request_uri_not_supported"
    finally:
        server.close()
        await server.wait_closed()
    assert fetched == []


async def test_s021_what_stands_beside_the_object_counts_for_nothing(desk, ann):
    wide = await desk.authorize(ann, request=signed(desk, scope="openid", state="in"), scope="openid profile email", state="out")
    assert told(wide)["state"] == "in"
    tokens = (await desk.redeem(told(wide)["code"])).json
    assert tokens["scope"] == "openid"

    elsewhere = await desk.authorize(ann, request=signed(desk, redirect_uri=f"{CALLBACK}2"))
    assert elsewhere.location.startswith(f"{CALLBACK}2?")


async def test_s021_an_unregistered_redirect_uri_is_told_here_wherever_it_stands(desk, ann):
    for where in (
        {"request": signed(desk, redirect_uri="https://evil.example/")},
        {"request": "x", "redirect_uri": "https://evil.example/"},
    ):
        answer = await desk.authorize(ann, **where)
        assert (answer.shown, answer.status) == (True, 400)


async def test_s021_a_refusal_repeats_nothing_of_the_object(desk, ann):
    marked = "MARK-7f3a"

    for request in (signed(desk, iss=marked), signed(desk, exp=marked), signed(desk, KEY, {"typ": marked}), marked, f"{marked}.b.c"):
        answer = await desk.push(request=request)
        assert answer.status == 400
        assert marked not in answer.text


async def test_s050_a_request_object_cannot_be_made_that_would_prove_the_client(desk, ann):
    """With ``sub`` it has all that an assertion of the client has, and whoever sits at the browser reads it (RFC 9101 s10.8)."""
    now = desk.clock.now() // 1_000_000
    both = {"sub": desk.client["client_id"], "exp": now + 60, "jti": "both"}

    assert told(await desk.authorize(ann, request=signed(desk, **both)))["error"] == "invalid_request_object"
    assert (await desk.push(request=signed(desk, **both))).outcome == (400, "invalid_request_object")
    assert "code" in told(await desk.authorize(ann, request=signed(desk, sub="somebody else")))
