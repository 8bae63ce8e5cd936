"""Request objects, good and forged, and the clients that may send them. Over HTTP: tests/system/oidc."""

import json
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.authorization import Ask
from greatseal.api.clients import Client, InvalidClientMetadata, Registration
from greatseal.api.http import Parameters
from greatseal.api.problems import BadRequest, Unavailable
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_encode, sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.net import RemoteKeys
from greatseal.testing import FakeClock
from greatseal.testing.extensions import ExtensionContract, wish_of
from greatseal.testing.resolver import FakeResolver
from greatseal_jar.decryption import RequestKeys
from greatseal_jar.objects import LEEWAY, LONGEST, TYPE, InvalidRequestObject, RequestObjects

ISSUER = "https://id.example"
NOW = 1_800_000_000
KEY, OTHER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
RSA = rsa.generate_private_key(65537, 2048)

# OpenID Connect Core s6.1, whose key is that of the example in RFC 9101 s4.
EXAMPLE_KEY = (
    "y9Lqv4fCp6Ei-u2-ZCKq83YvbFEk6JMs_pSj76eMkddWRuWX2aBKGHAtKlE5P7_vn__PCKZWePt3vGkB6ePgzAFu08NmKemwE5bQI0e6kIChtt_6KzT5OaaXDFI6qCLJmk"
    "51Cc4VYFaxgqevMncYrzaW_50mZ1yGSFIQzLYP8bijAHGVjdEFgZaZEN9lsn_GdWLaJpHrB3ROlS50E45wxrlg9xMncVb8qDPuXZarvghLL0HzOuYRadBJVoWZowDNTpKp"
    "k2RklZ7QaBO7XDv3uR7s_sf2g-bAjSYxYUGsqkNA9b3xVW53am_UZZ3tZbFTIh557JICWKHlWj5uzeJXaw"
)
EXAMPLE = (
    "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsyYmRjIn0.ew0KICJpc3MiOiAiczZCaGRSa3F0MyIsDQogImF1ZCI6ICJodHRwczovL3NlcnZlci5leGFtcGxlLmNvbSIsDQogIn"
    "Jlc3BvbnNlX3R5cGUiOiAiY29kZSBpZF90b2tlbiIsDQogImNsaWVudF9pZCI6ICJzNkJoZFJrcXQzIiwNCiAicmVkaXJlY3RfdXJpIjogImh0dHBzOi8vY2xpZW50LmV4"
    "YW1wbGUub3JnL2NiIiwNCiAic2NvcGUiOiAib3BlbmlkIiwNCiAic3RhdGUiOiAiYWYwaWZqc2xka2oiLA0KICJub25jZSI6ICJuLTBTNl9XekEyTWoiLA0KICJtYXhfYW"
    "dlIjogODY0MDAsDQogImNsYWltcyI6IA0KICB7DQogICAidXNlcmluZm8iOiANCiAgICB7DQogICAgICJnaXZlbl9uYW1lIjogeyJlc3NlbnRpYWwiOiB0cnVlfSwNCiAg"
    "ICAgIm5pY2tuYW1lIjogbnVsbCwNCiAgICAgImVtYWlsIjogeyJlc3NlbnRpYWwiOiB0cnVlfSwNCiAgICAgImVtYWlsX3ZlcmlmaWVkIjogeyJlc3NlbnRpYWwiOiB0cn"
    "VlfSwNCiAgICAgInBpY3R1cmUiOiBudWxsDQogICAgfSwNCiAgICJpZF90b2tlbiI6IA0KICAgIHsNCiAgICAgImdlbmRlciI6IG51bGwsDQogICAgICJiaXJ0aGRhdGUi"
    "OiB7ImVzc2VudGlhbCI6IHRydWV9LA0KICAgICAiYWNyIjogeyJ2YWx1ZXMiOiBbInVybjptYWNlOmluY29tbW9uOmlhcDpzaWx2ZXIiXX0NCiAgICB9DQogIH0NCn0.nw"
    "wnNsk1-ZkbmnvsF6zTHm8CHERFMGQPhos-EJcaH4Hh-sMgk8ePrGhw_trPYs8KQxsn6R9Emo_wHwajyFKzuMXZFSZ3p6Mb8dkxtVyjoy2GIzvuJT_u7PkY2t8QU9hjBcHs"
    "68PkgjDVTrG1uRTx0GxFbuPbj96tVuj11pTnmFCUR6IEOXKYr7iGOCRB3btfJhM0_AKQUfqKnRlrRscc8Kol-cSLWoYE9l5QqholImzjT_cMnNIznW9E7CDyWXTsO70xnB"
    "4SkG6pXfLSjLLlxmPGiyon_-Te111V8uE83IlzCYIb_NMXvtTIVc1jpspnTSD7xMbpL-2QgwUsAlMGzw"
)


NO_KEYS = SimpleNamespace(ring=lambda _purpose: SimpleNamespace(all=tuple))


def host_of():
    blocked: set[str] = set()

    async def find(name):
        return SimpleNamespace(reason="leaked") if name in blocked else None

    clock = FakeClock(NOW * 1_000_000)
    return SimpleNamespace(clock=clock, issuer=ISSUER, blocked_keys=SimpleNamespace(find=find, names=blocked), keys=NO_KEYS)


def objects_of(host):
    return RequestObjects(host, RemoteKeys(FakeResolver({}), host.clock, allow_private=True), RequestKeys(host))


@pytest.fixture
def host():
    return host_of()


@pytest.fixture
def objects(host):
    return objects_of(host)


def client(*keys, jwks_uri=None, jwks=None, **more):
    listed = [jwk_of(key.public_key()) for key in keys or (KEY, RSA)]
    inline = None if jwks_uri else {"keys": listed} if jwks is None else jwks or None
    return Client(client_id="c1", token_endpoint_auth_method="none", jwks=inline, jwks_uri=jwks_uri, more=more)


def claims(**changes):
    whole = {"iss": "c1", "aud": ISSUER, "client_id": "c1", "response_type": "code", "scope": "openid", **changes}
    return {name: value for name, value in whole.items() if value is not None}


def signed(body=None, *, key=KEY, alg="ES256", **header):
    said = {name: value for name, value in {"alg": alg, "typ": TYPE, **header}.items() if value is not None}
    payload = body if isinstance(body, bytes) else json.dumps(claims() if body is None else body).encode()
    return sign_compact(said, payload, lambda message: ALGORITHMS[alg].sign(key, message))


def ask(text, by=None, at="authorize", **outside):
    sent = Parameters({"client_id": "c1", **({} if text is None else {"request": text}), **outside}.items())
    return Ask(at=at, client=by or client(), given=sent, sent=sent, remote="192.0.2.1")


async def opened(objects, text, by=None, **outside):
    return await objects.open(ask(text, by, **outside))


class TestRequestObjects(ExtensionContract):
    parameters = (("request", signed()),)
    client = client(require_signed_request_object=True, request_object_signing_alg="ES256")

    def extension(self):
        return objects_of(host_of())


async def test_the_members_are_the_request_and_nothing_outside_of_it_counts(objects):
    named = ["https://a.example/", "urn:b"]
    inside = claims(max_age=60, claims={"userinfo": {"name": None}}, resource=named, nonce="n", state=None, jti="j", exp=NOW + 9)

    found = await opened(objects, signed(inside), state="outside", nonce="other", prompt="none")

    assert found.all("resource") == ("https://a.example/", "urn:b")
    assert {name: found[name] for name in found.keys() - {"resource"}} == {
        "client_id": "c1",
        "response_type": "code",
        "scope": "openid",
        "max_age": "60",
        "claims": '{"userinfo":{"name":null}}',
        "nonce": "n",
    }


async def test_the_published_example_is_read(host, objects):
    host.issuer = "https://server.example.com"
    jwks = {"keys": [{"kty": "RSA", "kid": "k2bdc", "n": EXAMPLE_KEY, "e": "AQAB"}]}
    by = Client(client_id="s6BhdRkqt3", token_endpoint_auth_method="none", jwks=jwks)

    found = await opened(objects, EXAMPLE, by)

    assert json.loads(found["claims"])["id_token"]["acr"] == {"values": ["urn:mace:incommon:iap:silver"]}
    assert (found["redirect_uri"], found["state"], found["max_age"]) == ("https://client.example.org/cb", "af0ifjsldkj", "86400")
    with pytest.raises(InvalidRequestObject, match="no registered key"):
        await opened(objects, EXAMPLE[:-4] + "AAAA", by)


async def test_a_client_uses_the_algorithms_that_it_registered_alone(objects):
    by = client(allowed_signing_algs=["PS256"])

    assert await opened(objects, signed(key=RSA, alg="PS256"), by)
    for key, alg in ((RSA, "RS256"), (KEY, "ES256")):
        with pytest.raises(InvalidRequestObject, match="alg"):
            await opened(objects, signed(key=key, alg=alg), by)


async def test_a_null_asks_for_nothing_and_a_list_is_json(objects):
    details = [{"type": "payment"}]
    found = await opened(objects, signed({**claims(), "authorization_details": details, "login_hint": None, "resource": "urn:a"}))

    assert found["authorization_details"] == '[{"type":"payment"}]'
    assert "login_hint" not in found
    assert found.all("resource") == ("urn:a",)


@pytest.mark.parametrize(
    ("key", "alg", "header"),
    [
        (KEY, "ES256", {}),
        (RSA, "PS256", {}),
        (RSA, "RS256", {"typ": None}),
        (KEY, "ES256", {"typ": "JWT"}),
        (KEY, "ES256", {"typ": "application/OAUTH-authz-req+jwt"}),
        (KEY, "ES256", {"jwk": jwk_of(OTHER.public_key()), "jku": "https://evil.example/jwks", "x5u": "https://evil.example/"}),
    ],
)
async def test_what_a_registered_key_signed_is_good(objects, key, alg, header):
    assert (await opened(objects, signed(key=key, alg=alg, **header)))["scope"] == "openid"


@pytest.mark.parametrize("audience", [ISSUER, [ISSUER], ["https://other.example", ISSUER]])
async def test_aud_is_the_issuer_or_a_list_with_it(objects, audience):
    assert await opened(objects, signed(claims(aud=audience)))


UNSIGNED = f"{b64url_encode(json.dumps({'alg': 'none'}).encode())}.{b64url_encode(json.dumps(claims()).encode())}."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "no signed JWT"),
        ("a.b.c.d.e", "no signed JWT"),
        (signed(b"[]"), "no signed JWT"),
        (signed(b'{"iss":"c1","iss":"c1"}'), "member twice"),
        (signed(crit=["exp"]), "crit"),
        (UNSIGNED, "alg"),
        (signed(typ="at+jwt"), "typ"),
        (signed(typ="client-authentication+jwt"), "typ"),
        (signed(typ=7), "typ"),
        (signed(key=OTHER), "no registered key"),
        (signed(key=OTHER, jwk=jwk_of(OTHER.public_key())), "no registered key"),
        (signed(kid="another"), "no registered key"),
        (signed()[:-4] + "AAAA", "no registered key"),
        (signed(claims(iss=None)), "iss"),
        (signed(claims(iss="c2")), "iss"),
        (signed(claims(client_id=None)), "client_id"),
        (signed(claims(client_id="c2")), "client_id"),
        (signed(claims(aud=None)), "aud"),
        (signed(claims(aud="https://other.example")), "aud"),
        (signed(claims(aud=[])), "aud"),
        (signed(claims(aud={ISSUER: 1})), "aud"),
        (signed(claims(request="x.y.z")), "must not"),
        (signed(claims(request_uri="urn:x")), "must not"),
        (signed(claims(exp=NOW)), "expired"),
        (signed(claims(exp=NOW - 1)), "expired"),
        (signed(claims(nbf=NOW + LEEWAY + 1)), "not valid yet"),
        (signed(claims(iat=NOW + LEEWAY + 1)), "not valid yet"),
        (signed(claims(exp="soon")), "NumericDate"),
        (signed(claims(exp=True)), "NumericDate"),
        (signed(claims(nbf=-1)), "NumericDate"),
        (signed(claims(exp=1 << 41)), "NumericDate"),
    ],
)
async def test_another_object_is_an_invalid_request_object_that_says_why(objects, text, said):
    with pytest.raises(InvalidRequestObject, match=said) as refused:
        await opened(objects, text)

    assert refused.value.error == "invalid_request_object"


async def test_moments_within_the_leeway_are_good(objects):
    assert await opened(objects, signed(claims(exp=NOW + 1, nbf=NOW + LEEWAY, iat=float(NOW + LEEWAY))))


async def test_a_client_may_register_one_algorithm(objects):
    by = client(request_object_signing_alg="PS256")

    assert await opened(objects, signed(key=RSA, alg="PS256"), by)
    with pytest.raises(InvalidRequestObject, match="registered"):
        await opened(objects, signed(key=RSA, alg="RS256"), by)


async def test_a_blocked_key_signs_no_request(host, objects):
    host.blocked_keys.names.add(spki_sha256(KEY.public_key()))

    with pytest.raises(InvalidRequestObject, match="blocked"):
        await opened(objects, signed())


async def test_a_client_without_keys_signs_no_request(objects):
    with pytest.raises(InvalidRequestObject, match="no keys"):
        await opened(objects, signed(), client(jwks={}))


async def test_keys_that_cannot_be_had_now_are_no_fault_of_the_request(objects):
    with pytest.raises(Unavailable):
        await opened(objects, signed(), client(jwks_uri="https://keys.example/jwks"))


@pytest.mark.parametrize(
    ("body", "header", "said"),
    [
        (claims(nbf=NOW, exp=NOW + 60), {"typ": None}, "typ"),
        (claims(nbf=NOW, exp=NOW + 60), {"typ": "JWT"}, "typ"),
        (claims(exp=NOW + 60), {}, "need nbf and exp"),
        (claims(nbf=NOW), {}, "need nbf and exp"),
        (claims(nbf=NOW, exp=NOW + LONGEST + 1), {}, "3600 s"),
        (claims(nbf=NOW - LONGEST - 1, exp=NOW - 1 + 2), {}, "3600 s"),
    ],
)
async def test_a_strict_client_sends_fresh_and_typed_objects_alone(objects, body, header, said):
    strict = client(strict_request_object=True)

    assert await opened(objects, signed(claims(nbf=NOW, exp=NOW + LONGEST)), strict)
    with pytest.raises(InvalidRequestObject, match=said):
        await opened(objects, signed(body, **header), strict)


@pytest.mark.parametrize("at", ["authorize", "par", "backchannel"])
async def test_a_client_that_must_sign_is_refused_without(objects, at):
    must = client(require_signed_request_object=True)

    with pytest.raises(BadRequest, match="RFC 9101"):
        await wish_of(objects, ask(None, must, at))
    assert await wish_of(objects, ask(signed(), must, at)) is None
    assert await wish_of(objects, ask(None, client(), at)) is None
    assert await wish_of(objects, ask(None, must, "token")) is None
    assert await wish_of(objects, ask(None, must, "device")) is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (client(request_object_signing_alg="HS256"), "request_object_signing_alg"),
        (client(request_object_signing_alg="none"), "request_object_signing_alg"),
        (client(jwks={}, request_object_signing_alg="ES256"), "needs the keys"),
        (client(jwks={}, require_signed_request_object=True), "needs the keys"),
        (client(jwks={}, strict_request_object=True), "needs the keys"),
        (client(jwks_uri="http://keys.example/jwks"), "https"),
        (client(jwks={"keys": []}, require_signed_request_object=True), "jwks"),
        (client(jwks={"keys": [{"kty": "oct", "k": "AAAA"}]}, request_object_signing_alg="ES256"), "jwks"),
    ],
)
def test_a_registration_that_no_request_could_satisfy_is_refused(objects, asked, said):
    objects.check(Registration(client=client(require_signed_request_object=True, request_object_signing_alg="ES256"), open=False))
    objects.check(Registration(client=client(jwks_uri="https://keys.example/jwks", strict_request_object=True), open=False))
    with pytest.raises(InvalidClientMetadata, match=said):
        objects.check(Registration(client=asked, open=False))


# ---- Whatever is sent

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
NAMES = ("iss", "aud", "client_id", "exp", "nbf", "iat", "scope", "resource", "request", "claims", "max_age", "state", "x")
OURS = objects_of(host_of())


async def read(text, by=None):
    """The parameters of an object, or nothing when it is refused: nothing else may happen."""
    try:
        return await opened(OURS, text, by)
    except InvalidRequestObject:
        return None


@given(st.text(min_size=1, max_size=200) | st.binary(min_size=1, max_size=200).map(b64url_encode))
async def test_any_text_is_refused(text):
    assert await read(text) is None


@given(st.dictionaries(st.sampled_from(["alg", "typ", "kid", "jwk", "crit", "x5t#S256", "x"]), JSON, max_size=5))
async def test_any_header_is_refused_or_read(header):
    payload = json.dumps(claims()).encode()
    signing_input = f"{b64url_encode(json.dumps({'alg': 'ES256', **header}).encode())}.{b64url_encode(payload)}"
    found = await read(f"{signing_input}.{b64url_encode(ALGORITHMS['ES256'].sign(KEY, signing_input.encode()))}")
    assert found is None or found["client_id"] == "c1"


@given(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6))
async def test_any_members_are_refused_or_are_texts(members):
    found = await read(signed({**claims(), **members}))
    if found is not None:
        assert all(isinstance(value, str) for name in found for value in found.all(name))
        assert (found["client_id"], "request" in found) == ("c1", False)


@given(st.integers(0, 10_000), st.characters(codec="ascii"))
async def test_another_character_anywhere_spoils_it(place, character):
    text = signed()
    place %= len(text)
    changed = text[:place] + character + text[place + 1 :]
    assert changed == text or await read(changed) is None


async def test_a_long_and_deep_object_is_refused_at_once():
    for payload in (b"[" * 50_000, b'{"a":' * 50_000, b'{"x":"' + b"a" * 60_000):
        assert await read(signed(payload)) is None
