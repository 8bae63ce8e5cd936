"""Forged JWTs at every place that reads one: S040 to S050."""

import asyncio
import hmac
import json
import time
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from security.idp_desk import PARALLEL, Desk, open_desk
from security.idp_places import TOO_OFTEN, Place, assertion_of, places_of, present

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_encode
from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import told

pytestmark = pytest.mark.asyncio(loop_scope="module")

OTHER = ec.generate_private_key(ec.SECP256R1())
RSA, ED25519 = rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
ED25519_ORDER = 2**252 + 27742317777372353535851937790883648493


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


def forms_of(key: Any) -> list[bytes]:
    """The bytes of a public key that somebody could take for a secret."""
    jwk = jwk_of(key)
    whole = [json.dumps(jwk).encode(), json.dumps(jwk, separators=(",", ":"), sort_keys=True).encode()]
    encoded = [key.public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo) for encoding in (Encoding.PEM, Encoding.DER)]
    return [*whole, *encoded, encoded[0].strip(), next(jwk[name] for name in ("n", "x") if name in jwk).encode()]


async def test_s041_a_public_key_is_no_secret(place):
    for key in place.public:
        for secret in forms_of(key):
            for alg in ("HS256", "HS384", "HS512"):
                forged = place.token(alg=alg, sign=lambda message, s=secret, a=alg: hmac.digest(s, message, f"sha{a[2:]}"))
                assert not await place.taken(forged), (alg, secret[:20])


async def test_s041_a_client_has_the_family_of_algorithms_that_it_registered(desk):
    rsa_place = await assertion_of(desk, "RS256", RSA)
    only = await assertion_of(desk, "PS256", RSA, token_endpoint_auth_signing_alg="PS256")

    assert await rsa_place.taken(rsa_place.token())
    assert await only.taken(only.token())
    assert not await only.taken(only.token(alg="RS256", sign=lambda message: ALGORITHMS["RS256"].sign(RSA, message)))
    for secret in forms_of(RSA.public_key()):
        assert not await rsa_place.taken(rsa_place.token(alg="HS256", sign=lambda m, s=secret: hmac.digest(s, m, "sha256")))


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
    for header in (
        {"crit": ["x"], "x": 1},
        {"crit": []},
        {"crit": ["exp"], "exp": 1},
        {"b64": False},
        {"b64": False, "crit": ["b64"]},
        {"b64": True},
    ):
        assert not await place.taken(place.token(header)), header
    twice = (
        head[:-1] + b', "alg": "none"}',
        head[:-1] + b', "kid": "other"}',
        b'{"alg": "none", ' + head[1:],
        b'{"\\u0061lg": "none", ' + head[1:],
    )
    for raw in (*twice, b"[" + head + b"]", b"\xef\xbb\xbf" + head, head + b"x", head[:-1], b"", b"null", head[:-1] + b', "x": NaN}'):
        assert not await place.taken(place.token(raw)), raw


async def test_s045_s046_claims_twice_or_unreadable(place):
    body = json.dumps(place.claims()).encode()
    for raw in (body[:-1] + b', "sub": "other"}', body[:-1] + b', "\\u0073ub": "other"}', body[:-1], b"[]", b"null", b"", body + body):
        assert not await place.taken(place.token(claims=raw)), raw


@pytest.mark.parametrize("iss", ["{}/", "{}#", " {}", None, 7, ["{}"]])
async def test_s046_another_issuer(place, iss):
    right = place.claims()["iss"]
    changed = iss.format(right) if isinstance(iss, str) else [right] if isinstance(iss, list) else iss
    assert not await place.taken(place.token(claims={"iss": changed}))


# ---- The claims of assertions


@pytest.mark.parametrize(
    "ahead",
    [
        {"exp": None}, {"exp": -1}, {"exp": 601}, {"exp": 10**9}, {"iat": 61}, {"nbf": 61}, {"iat": 10**9}, {"exp": b"1e999"},
        {"exp": b'"9999999999"'}, {"exp": b"-1"}, {"exp": b"true"}, {"exp": b"[]"}, {"exp": b"NaN"}, {"iat": b'"0"'}, {"nbf": b"{}"},
        {"exp": b"1e400"}, {"exp": b"99999999999999999999999999"},
    ],
    ids=str,
)  # fmt: skip
async def test_s045_times_that_are_refused(desk, places, ahead):
    place = places["assertion"]
    now = desk.clock.now() // 1_000_000
    ((name, value),) = ahead.items()
    claims = place.claims()
    if isinstance(value, bytes):
        claims.pop(name, None)
        raw = json.dumps(claims).encode()[:-1] + b', "' + name.encode() + b'": ' + value + b"}"
        assert not await place.taken(place.token(claims=raw))
    else:
        assert not await place.taken(place.token(claims={name: None if value is None else now + value}))


async def test_s045_a_clock_may_be_a_minute_ahead(desk, places):
    place = places["assertion"]
    now = desk.clock.now() // 1_000_000

    for claims in ({"iat": now + 60, "nbf": now + 60}, {"exp": now + 600}, {"exp": now + 0.5 + 1}, {"iat": None}):
        assert await place.taken(place.token(claims=claims)), claims


async def test_s046_audiences_subjects_and_clients(desk, places):
    place, me = places["assertion"], places["assertion"].claims()["iss"]
    issuer, token = desk.url, f"{desk.url}/token"

    for audience in (
        "https://other.example",
        f"{issuer}/",
        f"{token}/",
        f"{issuer}/par",
        [issuer, token],
        [issuer, "x"],
        [],
        None,
        7,
        [[issuer]],
    ):
        assert not await place.taken(place.token(claims={"aud": audience})), audience
    for claims in ({"sub": "other"}, {"sub": None}, {"sub": f"{me}/"}, {"iss": "other", "sub": "other"}, {"sub": [me]}):
        assert not await place.taken(place.token(claims=claims)), claims
    assert (await present(desk, place.token(), client_id="other")).status in {401, TOO_OFTEN}
    for audience in (issuer, token, [issuer]):
        assert await place.taken(place.token(claims={"aud": audience})), audience


async def test_s047_a_jti_is_used_once_in_every_spelling(desk, places):
    place = places["assertion"]
    for jti in (None, "", 7, ["j"], "x" * 300, "a\0b"):
        assert not await place.taken(place.token(claims={"jti": jti})), jti

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


async def test_s048_encrypted_and_nested_tokens_cost_nothing(place):
    slow = b64url_encode(b'{"alg":"PBES2-HS256+A128KW","enc":"A128GCM","p2c":50000000,"p2s":"c2FsdA"}')
    nested = [place.token()]
    for _ in range(20):
        nested.append(place.token({"cty": "JWT"}, nested[-1].encode()))
    began = time.process_time()
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
    assert time.process_time() - began < 1, "fifty million rounds of a key derivation take many times as long"


def numbers(signature: bytes) -> tuple[int, int]:
    return int.from_bytes(signature[:32]), int.from_bytes(signature[32:])


def high(signature: bytes) -> bytes:
    """The other signature that is as good: n - s."""
    r, s = numbers(signature)
    return r.to_bytes(32) + (P256_ORDER - s).to_bytes(32)


async def test_s049_numbers_of_ecdsa_that_are_none(place):
    n = P256_ORDER
    for r, s in ((0, 0), (0, 1), (1, 0), (1, n), (n, 1), (n, n), (n + 1, 1), (2**256 - 1, 2**256 - 1)):
        assert not await place.taken(place.token(sign=lambda _, r=r, s=s: r.to_bytes(32) + s.to_bytes(32))), (r, s)
    for broken in (lambda sig: sig + b"\0", lambda sig: b"\0" + sig, lambda sig: sig[:32] + b"\0" + sig[32:], lambda sig: sig[:-1]):
        assert not await place.taken(place.token(sign=lambda message, b=broken: b(place.sign(message))))


async def test_s049_a_malleable_signature_is_no_second_use(places):
    place = places["assertion"]
    for first, second in ((place.sign, lambda message: high(place.sign(message))), (lambda message: high(place.sign(message)), place.sign)):
        claims = place.claims()
        taken = [await place.taken(place.token(claims=claims, sign=sign)) for sign in (first, second)]
        assert sum(taken) == 1


async def test_s049_salts_and_scalars(desk):
    pss, edwards = await assertion_of(desk, "PS256", RSA), await assertion_of(desk, "EdDSA", ED25519)

    def salted(message: bytes) -> bytes:
        return RSA.sign(message, padding.PSS(padding.MGF1(hashes.SHA256()), 20), hashes.SHA256())

    def not_canonical(message: bytes) -> bytes:
        signature = ED25519.sign(message)
        return signature[:32] + (int.from_bytes(signature[32:], "little") + ED25519_ORDER).to_bytes(32, "little")

    assert not await pss.taken(pss.token(sign=salted))
    assert not await edwards.taken(edwards.token(sign=not_canonical))
    assert await pss.taken(pss.token())
    assert await edwards.taken(edwards.token())


# ---- S050: every JWT at the place of every other


async def test_s050_one_kind_of_jwt_is_not_another(desk, places):
    await desk.put(desk.client, userinfo_signed_response_alg="ES256")
    tokens = await desk.tokens(await desk.cookie("ann"))
    claims = places["hint"].claims()
    event = {"http://schemas.openid.net/event/backchannel-logout": {}}
    kinds = {
        "access": tokens["access_token"],
        "id": tokens["id_token"],
        "userinfo": (await desk.userinfo(tokens["access_token"])).text,
        "logout": await desk.provider.signing.jwt("logout+jwt", {**claims, "events": event, "jti": "x"}),
        "logout with nonce": await desk.provider.signing.jwt("logout+jwt", {**claims, "events": event, "nonce": "n"}),
        "assertion": places["assertion"].token(),
        "authority": await desk.provider.signing.jwt("authority+jwt", {**claims, "atc": {"tktype": "TNAuthList"}}),
        "without a type": places["userinfo"].token(typ=None),
    }
    fits = {("userinfo", "access"), ("introspect", "access"), ("hint", "id"), ("logout", "id"), ("assertion", "assertion")}
    # It says the same person to the same client, under the same type: as a hint it adds nothing.
    fits |= {("hint", "userinfo"), ("logout", "userinfo")}

    for place in places.values():
        for kind, token in kinds.items():
            if (place.name, kind) not in fits:
                assert not await place.taken(token), (place.name, kind)
    for typ in ("at+jwt", "logout+jwt", "dpop+jwt", "secevent+jwt", 3, ["JWT"], {"JWT": 1}, True):
        assert not await places["assertion"].taken(places["assertion"].token(typ=typ)), typ
    answer = await desk.ask("POST", "/backchannel/logout/other", data={"logout_token": kinds["logout"]})
    assert answer.status == 404
