"""Forged JWTs at every place that reads one: S040 to S050."""

import asyncio
import hmac
import json
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator
from io import BytesIO

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from security.idp_desk import PARALLEL, Desk, open_desk
from security.idp_places import TOO_OFTEN, Place, assertion_of, places_of, present

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_encode
from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import told

pytestmark = pytest.mark.asyncio(loop_scope="module")

OTHER = ec.generate_private_key(ec.SECP256R1())
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path_factory.mktemp("idp"), "client-auth-jwt", "resolver") as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def places(desk: Desk) -> dict[str, Place]:
    return await places_of(desk)


@pytest.fixture(params=["userinfo", "introspect", "hint", "logout", "assertion"])
def place(request: pytest.FixtureRequest, places: dict[str, Place]) -> Place:
    return places[request.param]


# ---- The header and the signature


async def test_s040_unsigned_tokens(place):
    assert await place.taken(place.token())

    for alg in ("none", "None", "NONE", "nOnE", "", "HS256", "ES384", "RS256"):
        assert not await place.taken(place.token(alg=alg)), alg
        assert not await place.taken(place.token(alg=alg, sign=lambda _: b"")), alg
        assert not await place.taken(place.token(alg=alg).rpartition(".")[0]), alg
    assert not await place.taken(place.token(sign=lambda _: b""))


async def test_s041_a_public_key_is_no_secret(place):
    for key in place.public:
        secret = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        for alg in ("HS256", "HS384", "HS512"):
            forged = place.token(alg=alg, sign=lambda message, s=secret, a=alg: hmac.digest(s, message, f"sha{a[2:]}"))
            assert not await place.taken(forged), alg


async def test_s042_a_key_in_the_header_is_not_looked_at(place):
    fetched: list[bytes] = []

    async def trap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fetched.append(await reader.read(10))
        writer.close()

    server = await asyncio.start_server(trap, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    der = OTHER.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    own = {"jwk": jwk_of(OTHER.public_key()), "jku": url, "x5u": url, "x5c": [b64encode(der).decode()]}
    try:
        for header in (own, *({name: value} for name, value in own.items())):
            for kid in (place.header["kid"], None, "mine"):
                forged = place.token({**header, "kid": kid}, sign=lambda message: ALGORITHMS["ES256"].sign(OTHER, message))
                assert not await place.taken(forged), (header.keys(), kid)
    finally:
        server.close()
        await server.wait_closed()
    assert fetched == []


async def test_s043_a_kid_is_the_name_of_one_key_and_nothing_else(desk, place):
    elsewhere = await assertion_of(desk, "ES256", OTHER)
    for kid in ("../../dev/null", "/dev/null", "' OR '1'='1", "k1' --", "k2", "K1", "k1\0", "", 1, ["k1"], {"k1": 1}, True, "x" * 3000):
        assert not await place.taken(place.token(kid=kid)), kid
    # The kid of the right client's key, made with the key of another client that has the same kid.
    assert not await place.taken(place.token(sign=elsewhere.sign))


async def test_s043_a_kid_of_a_megabyte(desk, places):
    long = places["assertion"].token(kid="x" * 1_000_000)
    form = {"Content-Type": "application/x-www-form-urlencoded", **desk.credentials}
    for path, name in (("/token", "client_assertion"), ("/introspect", "token"), ("/revoke", "token")):
        assert (await desk.ask("POST", path, data=BytesIO(f"{name}={long}".encode()), headers=form)).status == 413
    assert (await desk.userinfo(long)).status in {400, 401, 431}


@pytest.mark.parametrize("way", ["revoked", "retired"])
async def test_s043_keys_that_were_revoked_or_have_retired(tmp_path, way):
    async with open_desk(tmp_path) as desk:
        ann = await desk.cookie("ann")
        tokens = await desk.tokens(ann)
        desk.clock.advance(1)
        rotated = (await desk.ask("POST", "/api/admin/keys/rotate", cookie=desk.admin, json={})).json
        assert (await desk.userinfo(tokens["access_token"])).status == 200, "a key that only was superseded still verifies"
        if way == "revoked":
            gone = await desk.ask("DELETE", f"/api/admin/keys/{rotated['previous_kid']}", cookie=desk.admin)
            assert gone.status == 204
        else:
            desk.clock.advance(9 * 3600)
            await desk.provider.signing.retire()
            ann = await desk.cookie("ann")

        assert (await desk.userinfo(tokens["access_token"])).status == 401
        assert not (await desk.introspect(tokens["access_token"]))["active"]
        hinted = await desk.authorize(ann, prompt="none", id_token_hint=tokens["id_token"])
        assert told(hinted)["error"] == "invalid_request"
        assert rotated["previous_kid"] not in (await desk.ask("GET", "/jwks")).text


async def test_s044_a_header_with_more_than_one_meaning(place):
    head = json.dumps(place.header).encode()
    for header in ({"crit": ["x"], "x": 1}, {"crit": []}, {"b64": False, "crit": ["b64"]}):
        assert not await place.taken(place.token(header)), header
    for raw in (b'{"alg": "none", ' + head[1:], head[:-1] + b', "\\u006bid": "other"}', b"[" + head + b"]", head[:-1], b""):
        assert not await place.taken(place.token(raw)), raw


async def test_s045_s046_claims_twice_unreadable_or_of_another_issuer(place):
    body = json.dumps(place.claims()).encode()
    for raw in (body[:-1] + b', "sub": "other"}', body[:-1] + b', "\\u0073ub": "other"}', body[:-1], b"[]", b"null", b"", body + body):
        assert not await place.taken(place.token(claims=raw)), raw
    right = place.claims()["iss"]
    for iss in (f"{right}/", f"{right}#", f" {right}", None, 7, [right]):
        assert not await place.taken(place.token(claims={"iss": iss})), iss


async def test_s045_s046_what_an_assertion_claims_is_checked(desk, places):
    place, now = places["assertion"], desk.clock.now() // 1_000_000

    for wrong in ({"exp": now + 601}, {"iat": now + 61}, {"nbf": now + 61}, {"aud": f"{desk.url}/"}, {"iss": "other", "sub": "other"}):
        assert not await place.taken(place.token(claims=wrong)), wrong
    assert (await present(desk, place.token(), client_id="other")).status in {401, TOO_OFTEN}
    for right in ({"iat": now + 60, "nbf": now + 60}, {"exp": now + 600}, {"exp": now + 0.5 + 1}, {"iat": None}, {"aud": [desk.url]}):
        assert await place.taken(place.token(claims=right)), right


# ---- The claims of assertions


async def test_s047_a_jti_is_used_once_in_every_spelling(desk, places):
    place = places["assertion"]
    claims = place.claims()
    used = place.token(claims=claims)
    assert await place.taken(used)
    again = {
        "the same": used,
        "padded": f"{used}==",
        "other order of the header": place.token(json.dumps(dict(reversed(place.header.items()))).encode(), claims),
        "another header": place.token({"typ": "JWT"}, claims),
        "other order of the claims": place.token(claims=dict(reversed(claims.items()))),
        "white space": place.token(claims=json.dumps(claims, indent=2).encode()),
        "later": place.token(claims={**claims, "exp": claims["exp"] + 100}),
    }
    for name, token in again.items():
        assert not await place.taken(token), name
    for path, form in (("/par", {}), ("/introspect", {"token": "x"}), ("/revoke", {"token": "x"})):
        assert (await present(desk, used, path, **form)).status in {401, TOO_OFTEN}, path
    stranger = await assertion_of(desk, "ES256", OTHER)
    assert await stranger.taken(stranger.token(claims={"jti": claims["jti"]})), "the jti of another client is another one"


async def test_s047_fifty_at_once_with_one_assertion(desk, places):
    token = places["assertion"].token()

    answers = await asyncio.gather(*(present(desk, token) for _ in range(PARALLEL)))

    assert [answer.status for answer in answers if answer.status not in {401, TOO_OFTEN}] == [200]


# ---- What is no such JWT at all


def bomb() -> str:
    """A JWE that says it is deflated, with 50 MB of nothing in a few kilobytes of "ciphertext"."""
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -15)
    content = squeezer.compress(bytes(10_000_000)) + squeezer.flush()
    head = b64url_encode(b'{"alg":"dir","enc":"A128GCM","zip":"DEF"}')
    return f"{head}..{b64url_encode(bytes(12))}.{b64url_encode(content)}.{b64url_encode(bytes(16))}"


async def test_s048_encrypted_and_nested_tokens(place):
    slow = b64url_encode(b'{"alg":"PBES2-HS256+A128KW","enc":"A128GCM","p2c":50000000,"p2s":"c2FsdA"}')
    nested = [place.token()]
    for _ in range(20):
        nested.append(place.token({"cty": "JWT"}, nested[-1].encode()))
    for token in (
        bomb(),
        f"{slow}.a.b.c.d",
        f"{slow}.AAAA.AAAA",
        nested[4],
        nested[20],
        "." * 10_000,
        "a.b.c.d.e",
        place.token(enc="A128GCM", alg="dir"),
    ):
        assert not await place.taken(token)


def high(signature: bytes) -> bytes:
    """The other signature that is as good: n - s."""
    return signature[:32] + (P256_ORDER - int.from_bytes(signature[32:])).to_bytes(32)


async def test_s049_numbers_of_ecdsa_that_are_none(place):
    for r, s in ((0, 0), (1, P256_ORDER), (2**256 - 1, 2**256 - 1)):
        assert not await place.taken(place.token(sign=lambda _, r=r, s=s: r.to_bytes(32) + s.to_bytes(32))), (r, s)
    assert not await place.taken(place.token(sign=lambda message: place.sign(message) + b"\0"))


async def test_s049_a_malleable_signature_is_no_second_use(places):
    place = places["assertion"]
    for first, second in ((place.sign, lambda message: high(place.sign(message))), (lambda message: high(place.sign(message)), place.sign)):
        claims = place.claims()
        taken = [await place.taken(place.token(claims=claims, sign=sign)) for sign in (first, second)]
        assert sum(taken) == 1


# ---- S050: every JWT at the place of every other


async def test_s050_one_kind_of_jwt_is_not_another(desk, places):
    await desk.put(desk.client, userinfo_signed_response_alg="ES256")
    tokens = await desk.tokens(await desk.cookie("ann"))
    claims = places["hint"].claims()
    unaddressed = {name: value for name, value in claims.items() if name != "aud"}
    event = {"http://schemas.openid.net/event/backchannel-logout": {}}
    kinds = {
        "access": tokens["access_token"],
        "id": tokens["id_token"],
        "userinfo": (await desk.userinfo(tokens["access_token"])).text,
        "logout": await desk.provider.signing.jwt("logout+jwt", {**claims, "events": event, "jti": "x"}),
        "logout with nonce": await desk.provider.signing.jwt("logout+jwt", {**claims, "events": event, "nonce": "n"}),
        "assertion": places["assertion"].token(),
        "authority": await desk.provider.signing.jwt("JWT", {**unaddressed, "jti": "n1/x", "atc": {"tktype": "JWTClaimConstraints"}}),
        "without a type": places["userinfo"].token(typ=None),
    }
    fits = {("userinfo", "access"), ("introspect", "access"), ("hint", "id"), ("logout", "id"), ("assertion", "assertion")}
    # It says the same person to the same client, under the same type: as a hint it adds nothing.
    fits |= {("hint", "userinfo"), ("logout", "userinfo")}

    for place in places.values():
        for kind, token in kinds.items():
            if (place.name, kind) not in fits:
                assert not await place.taken(token), (place.name, kind)
    answer = await desk.ask("POST", "/backchannel/logout/other", data={"logout_token": kinds["logout"]})
    assert answer.status == 404
