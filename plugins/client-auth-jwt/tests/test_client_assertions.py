"""private_key_jwt and client_secret_jwt against a real key server, replayed, forged and confused."""

import hmac
import json
import ssl
from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256
from types import SimpleNamespace

import pytest
import trustme
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.clients import Client, ClientRequest, InvalidClient, InvalidClientMetadata, Registration
from greatseal.api.declarations import Secret
from greatseal.api.http import Parameters
from greatseal.api.problems import Unavailable
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_encode, sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.testing.resolver import FakeResolver
from greatseal_client_auth_jwt.assertion import TYPE
from greatseal_client_auth_jwt.jwks import ClientKeys, chosen, keys_of
from greatseal_client_auth_jwt.methods import ClientSecretJwt, PrivateKeyJwt

AUDIENCES = ("https://id.example", "https://id.example/token")
SECRET = "0123456789abcdef0123456789abcdef"
KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)


@pytest.fixture
async def host(start_service):
    kernel = (await start_service()).kernel
    return SimpleNamespace(clock=kernel.clock, db=kernel.store, strikes=kernel.strikes, blocked_keys=kernel.blocked_keys)


class Keyring:
    """The part of the client registry that client_secret_jwt asks."""

    def secret(self, client):
        return Secret(SECRET)


def client(**members):
    method = members.pop("method", "private_key_jwt")
    return Client(client_id="c1", token_endpoint_auth_method=method, **members)


def claims(host, **changes):
    now = host.clock.now() // 1_000_000
    whole = {"iss": "c1", "sub": "c1", "aud": AUDIENCES[0], "exp": now + 60, "iat": now, "jti": "j1"} | changes
    return {name: value for name, value in whole.items() if value is not None}


def signed(body, *, key=KEY, alg="ES256", **header):
    sign = ALGORITHMS[alg].sign
    return sign_compact({"alg": alg, **header}, json.dumps(body).encode(), lambda message: sign(key, message))


def macked(body, *, secret=SECRET, alg="HS256"):
    return sign_compact({"alg": alg}, json.dumps(body).encode(), lambda message: hmac.digest(secret.encode(), message, "sha" + alg[2:]))


def request(assertion, **form):
    pairs = {"client_assertion": assertion, "client_assertion_type": TYPE, **form}
    return ClientRequest(call=None, form=Parameters(pairs.items()), audiences=AUDIENCES)


def inline(*keys, **members):
    return client(jwks={"keys": [jwk_of(key.public_key()) | members for key in keys]})


def private_key_jwt(host):
    return PrivateKeyJwt(host, ClientKeys(FakeResolver({}), host.clock, allow_private=True))


async def prove(method, assertion, registered, **form):
    credentials = method.credentials(request(assertion, **form))
    assert credentials is not None
    assert method.client_id(credentials) == "c1"
    return await method.verify(credentials, registered)


@pytest.mark.parametrize("audience", [*AUDIENCES, [AUDIENCES[1]]])
async def test_idp_026_an_assertion_of_the_clients_key_proves_it(host, audience):
    match = await prove(private_key_jwt(host), signed(claims(host, aud=audience)), inline(KEY))

    assert (match.client.client_id, match.subject) == ("c1", "c1")


async def test_idp_027_a_secret_proves_the_client_by_its_mac(host):
    method = ClientSecretJwt(host, Keyring())

    for alg in ("HS256", "HS384", "HS512"):
        assert (await prove(method, macked(claims(host, jti=alg), alg=alg), client(method="client_secret_jwt"))).subject == "c1"
    with pytest.raises(InvalidClient):
        await prove(method, macked(claims(host, jti="x"), secret="another secret of thirty-two bytes"), client(method="client_secret_jwt"))


def test_each_method_leaves_the_other_ones_assertions_alone(host):
    by_key, by_secret = private_key_jwt(host), ClientSecretJwt(host, Keyring())

    assert by_key.credentials(request(macked(claims(host)))) is None
    assert by_secret.credentials(request(signed(claims(host)))) is None
    assert by_key.credentials(ClientRequest(call=None, form=Parameters([]), audiences=AUDIENCES)) is None


async def test_s041_the_public_key_is_no_mac_secret(host):
    pem = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    forged = macked(claims(host), secret=pem)

    assert private_key_jwt(host).credentials(request(forged)) is None


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", ""])
async def test_s040_alg_none_is_refused(host, alg):
    head = b64url_encode(json.dumps({"alg": alg}).encode())
    token = f"{head}.{b64url_encode(json.dumps(claims(host)).encode())}."

    with pytest.raises(InvalidClient):
        await prove(private_key_jwt(host), token, inline(KEY))


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": None},
        {"exp": "9999999999"},
        {"exp": -1},
        {"exp": 1},
        {"exp": 1 << 50},
        {"exp": True},
        {"aud": None},
        {"aud": "https://id.example/"},
        {"aud": [*AUDIENCES]},
        {"aud": []},
        {"jti": None},
        {"jti": ""},
        {"jti": 7},
        {"jti": "a\0b"},
        {"jti": "x" * 300},
    ],
    ids=str,
)
async def test_s045_s046_s047_claims_that_are_refused(host, changes):
    with pytest.raises(InvalidClient) as caught:
        await prove(private_key_jwt(host), signed(claims(host, **changes)), inline(KEY))

    assert caught.value.detail == "the client or its credentials are not known"


@pytest.mark.parametrize("changes", [{"sub": "c2"}, {"iss": None}, {"iss": 1}, {"sub": None}])
def test_s046_iss_and_sub_must_be_one_client(host, changes):
    with pytest.raises(InvalidClient):
        private_key_jwt(host).credentials(request(signed(claims(host, **changes))))


@pytest.mark.parametrize("form", [{"client_id": "c2"}, {"client_assertion_type": "urn:other"}, {"client_assertion_type": ""}])
def test_a_form_that_does_not_go_with_the_assertion_is_refused(host, form):
    with pytest.raises(InvalidClient):
        private_key_jwt(host).credentials(request(signed(claims(host)), **form))


@pytest.mark.parametrize("ahead", [{"exp": 601}, {"iat": 61}, {"nbf": 61}])
async def test_s045_times_too_far_ahead_are_refused(host, ahead):
    now = host.clock.now() // 1_000_000
    moved = {name: now + seconds + 5 for name, seconds in ahead.items()}

    with pytest.raises(InvalidClient):
        await prove(private_key_jwt(host), signed(claims(host, **moved)), inline(KEY))


async def test_s047_a_jti_is_used_once(host):
    method = private_key_jwt(host)
    again = claims(host)
    await prove(method, signed(again), inline(KEY))

    for variant in (signed(again), signed(again, typ="JWT"), signed(dict(reversed(again.items())))):
        with pytest.raises(InvalidClient, match="credentials"):
            await prove(method, variant, inline(KEY))


async def test_s047_a_refused_assertion_does_not_burn_the_jti(host):
    method = private_key_jwt(host)
    with pytest.raises(InvalidClient):
        await prove(method, signed(claims(host), key=OTHER), inline(KEY))

    assert (await prove(method, signed(claims(host)), inline(KEY))).subject == "c1"


async def test_s043_keys_are_chosen_by_exact_kid_and_never_by_the_header(host):
    method = private_key_jwt(host)
    registered = inline(KEY, kid="k1")

    assert (await prove(method, signed(claims(host), kid="k1"), registered)).subject == "c1"
    for header in ({"kid": "../../dev/null"}, {"kid": "k2"}, {"kid": ""}):
        with pytest.raises(InvalidClient):
            await prove(method, signed(claims(host, jti=str(header)), **header), registered)
    with pytest.raises(InvalidClient):
        await prove(method, signed(claims(host, jti="own"), key=OTHER, jwk=jwk_of(OTHER.public_key())), registered)


async def test_s050_another_typ_is_refused(host):
    method = private_key_jwt(host)

    for typ in ("at+jwt", "logout+jwt", "dpop+jwt", 3):
        with pytest.raises(InvalidClient):
            await prove(method, signed(claims(host, jti=str(typ)), typ=typ), inline(KEY))
    assert (await prove(method, signed(claims(host), typ="client-authentication+jwt"), inline(KEY))).subject == "c1"


async def test_a_registered_algorithm_is_the_only_one(host):
    registered = client(
        jwks={"keys": [jwk_of(KEY.public_key()), jwk_of(RSA.public_key())]}, more={"token_endpoint_auth_signing_alg": "ES256"}
    )

    with pytest.raises(InvalidClient):
        await prove(private_key_jwt(host), signed(claims(host), key=RSA, alg="RS256"), registered)
    assert (await prove(private_key_jwt(host), signed(claims(host)), registered)).subject == "c1"


@given(st.text(max_size=60))
def test_any_text_is_a_refusal(text):
    with pytest.raises(InvalidClient, match="the client or its credentials are not known"):
        PrivateKeyJwt(None, None).credentials(request(text))


# ---- Registration


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"jwks_uri": "https://c.example/jwks", "jwks": {"keys": [jwk_of(KEY.public_key())]}},
        {"jwks_uri": "http://c.example/jwks"},
        {"jwks": {"keys": []}},
        {"jwks": {"keys": [{"kty": "oct", "k": "AAAA"}]}},
        {"jwks": {"keys": [jwk_of(KEY.public_key()) | {"d": "AAAA"}]}},
        {"jwks": {"keys": [jwk_of(KEY.public_key())] * 101}},
        {"jwks": {}},
    ],
)
def test_idp_036_registrations_that_are_refused(members):
    with pytest.raises(InvalidClientMetadata):
        PrivateKeyJwt(None, None).check(Registration(client=client(**members), open=False))


def test_a_short_secret_is_refused_for_a_mac():
    registration = Registration(client=client(method="client_secret_jwt"), open=False, client_secret=Secret("short"))

    with pytest.raises(InvalidClientMetadata, match="32 bytes"):
        ClientSecretJwt(None, None).check(registration)


def test_keys_that_cannot_be_used_are_passed_over():
    strange = [{"kty": "XYZ"}, jwk_of(KEY.public_key()) | {"use": "enc"}, "text"]

    (key,) = keys_of({"keys": [*strange, jwk_of(KEY.public_key()) | {"kid": "k"}]})
    assert key.kid == "k"


# The neutral point: with R of the same and S of 0, a signature of every message.
NEUTRAL = bytes((1, *bytes(31)))
WEAK_JWK = {"kty": "OKP", "crv": "Ed25519", "x": b64url_encode(NEUTRAL)}


def test_a_set_of_weak_keys_alone_is_refused_with_the_reason():
    with pytest.raises(InvalidClientMetadata, match="small order"):
        PrivateKeyJwt(None, None).check(Registration(client=client(jwks={"keys": [WEAK_JWK]}), open=False))


@pytest.mark.parametrize("others", [(), (OTHER,)])
async def test_a_weak_key_that_was_registered_before_proves_nobody(host, others):
    keys = [WEAK_JWK, *(jwk_of(key.public_key()) for key in others)]
    forged = sign_compact({"alg": "EdDSA"}, json.dumps(claims(host)).encode(), lambda _: NEUTRAL + bytes(32))

    with pytest.raises(InvalidClient):
        await prove(private_key_jwt(host), forged, client(jwks={"keys": keys}))


async def test_a_blocked_key_proves_nobody(host):
    method = private_key_jwt(host)
    await host.db.write(host.blocked_keys.block, spki_sha256(KEY.public_key()), reason="keyCompromise", by="alice")

    with pytest.raises(InvalidClient) as refused:
        await prove(method, signed(claims(host)), inline(KEY, OTHER))
    assert refused.value.cause == "the key of the client is blocked (keyCompromise)"
    assert await prove(method, signed(claims(host), key=OTHER), inline(KEY, OTHER))


def certificate_of(key):
    """A self-signed certificate in DER."""
    name, now = x509.Name([]), datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    return builder.not_valid_before(now).not_valid_after(now).sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


async def test_a_certificate_names_its_key_by_x5t_s256(host):
    der = certificate_of(OTHER)
    keys = [jwk_of(KEY.public_key()), jwk_of(OTHER.public_key()) | {"x5c": [b64encode(der).decode()]}]
    thumbprint = b64url_encode(sha256(der).digest())

    assert [key.key for key in chosen(keys_of({"keys": keys}), {"x5t#S256": thumbprint})] == [OTHER.public_key()]
    assert len(chosen(keys_of({"keys": keys}), {"x5t#S256": "another"})) == 2


@pytest.mark.parametrize("x5c", [[7], [None], [[]], [], "AAAA", {"0": "AAAA"}, None])
def test_an_odd_chain_of_certificates_is_no_name_of_its_key(x5c):
    (key,) = keys_of({"keys": [jwk_of(KEY.public_key()) | {"x5c": x5c}]})

    assert key.thumbprints == frozenset()


@pytest.mark.parametrize("text", ["!", "é", "AAA"])
def test_a_key_whose_certificate_is_no_base64_is_passed_over(text):
    (key,) = keys_of({"keys": [jwk_of(KEY.public_key()) | {"x5c": [text]}, jwk_of(OTHER.public_key())]})

    assert key.key == OTHER.public_key()


def test_a_certificate_of_an_unknown_version_is_not_looked_into():
    der = certificate_of(KEY).replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07", 1)

    (key,) = keys_of({"keys": [jwk_of(KEY.public_key()) | {"x5c": [b64encode(der).decode()]}]})

    assert key.thumbprints == {b64url_encode(sha256(der).digest())}


@pytest.mark.parametrize("header", [{"x5t#S256": []}, {"x5t#S256": {}}, {"x5t#S256": 7}, {"x5t#S256": None}])
def test_an_odd_thumbprint_chooses_nothing(header):
    keys = keys_of({"keys": [jwk_of(KEY.public_key())]})

    assert chosen(keys, header) == list(keys)


# ---- jwks_uri


class KeyServer:
    """The client's key set over TLS on loopback; counts how often it was asked."""

    def __init__(self):
        self.body = b""
        self.asked = 0
        self.headers = {}
        self.status = 200

    async def answer(self, _request):
        self.asked += 1
        return web.Response(body=self.body, status=self.status, headers=self.headers, content_type="application/json")

    def show(self, *keys):
        self.body = json.dumps({"keys": [jwk_of(key.public_key()) | {"kid": kid} for kid, key in keys]}).encode()


@pytest.fixture
async def key_server(tmp_path, monkeypatch):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("keys.example").configure_cert(context)
    server = KeyServer()
    app = web.Application()
    app.router.add_get("/jwks", server.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    server.uri = f"https://keys.example:{runner.addresses[0][1]}/jwks"
    yield server
    await runner.cleanup()


def fetching(host, *, allow_private=True):
    keys = ClientKeys(FakeResolver({"keys.example": ["127.0.0.1"]}), host.clock, allow_private=allow_private)
    return PrivateKeyJwt(host, keys)


async def test_keys_are_fetched_once_and_again_for_an_unknown_kid_at_most_every_30_seconds(host, key_server, start_service):
    from greatseal.testing import FakeClock

    host.clock = FakeClock(host.clock.now())
    method, registered = fetching(host), client(jwks_uri=key_server.uri)
    key_server.show(("k1", KEY))

    await prove(method, signed(claims(host), kid="k1"), registered)
    await prove(method, signed(claims(host, jti="j2"), kid="k1"), registered)
    assert key_server.asked == 1

    key_server.show(("k2", OTHER))
    with pytest.raises(InvalidClient):
        await prove(method, signed(claims(host, jti="j3"), key=OTHER, kid="k2"), registered)
    assert key_server.asked == 1
    host.clock.advance(31)
    await prove(method, signed(claims(host, jti="j4"), key=OTHER, kid="k2"), registered)
    assert key_server.asked == 2


async def test_s051_a_private_address_is_not_asked_unless_it_is_allowed(host, key_server):
    key_server.show(("k1", KEY))

    with pytest.raises(Unavailable):
        await prove(fetching(host, allow_private=False), signed(claims(host)), client(jwks_uri=key_server.uri))
    assert key_server.asked == 0


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (302, {"Location": "https://keys.example/other"}, b""),
        (500, {}, b"{}"),
        (200, {}, b"not json"),
        (200, {}, b'{"keys": []}'),
        (200, {}, b"x" * (256 * 1024 + 1)),
    ],
)
async def test_s051_answers_that_are_no_key_set_are_refused(host, key_server, status, headers, body):
    key_server.status, key_server.headers, key_server.body = status, headers, body

    with pytest.raises(Unavailable) as caught:
        await prove(fetching(host), signed(claims(host)), client(jwks_uri=key_server.uri))
    assert "keys.example" not in caught.value.detail
