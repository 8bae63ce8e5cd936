"""private_key_jwt and client_secret_jwt, forged and confused. Replays, header tricks and key servers: tests/security."""

import hmac
import json
import math
from itertools import count
from types import SimpleNamespace

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.clients import Client, ClientRequest, InvalidClient, InvalidClientMetadata, Registration, StoredSecret
from greatseal.api.declarations import Secret
from greatseal.api.http import Parameters
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_encode, sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.net import RemoteKeys
from greatseal.testing.clients import ClientAuthMethodContract, FakeClients
from greatseal.testing.resolver import FakeResolver
from greatseal_client_auth_jwt.assertion import TYPE
from greatseal_client_auth_jwt.methods import ClientSecretJwt, PrivateKeyJwt

AUDIENCES = ("https://id.example", "https://id.example/token")
SECRET = "0123456789abcdef0123456789abcdef"
KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)


@pytest.fixture
async def host(start_service):
    kernel = (await start_service()).kernel
    return SimpleNamespace(
        clock=kernel.clock, db=kernel.store, strikes=kernel.strikes, blocked_keys=kernel.blocked_keys, issuer=AUDIENCES[0]
    )


SEALED = StoredSecret(form="sealed", value=b"")


def by_secret(host):
    return ClientSecretJwt(host, FakeClients(secrets={"c1": SECRET}))


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


def confidential(**members):
    return client(method="client_secret_jwt", secret=SEALED, **members)


def request(assertion, **form):
    pairs = {"client_assertion": assertion, "client_assertion_type": TYPE, **form}
    return ClientRequest(call=None, form=Parameters(pairs.items()), audiences=AUDIENCES)


def inline(*keys, **members):
    return client(jwks={"keys": [jwk_of(key.public_key()) | members for key in keys]})


def private_key_jwt(host):
    return PrivateKeyJwt(host, RemoteKeys(FakeResolver({}), host.clock, allow_private=True))


async def prove(method, assertion, registered, **form):
    credentials = method.credentials(request(assertion, **form))
    assert credentials is not None
    assert method.client_id(credentials) == "c1"
    return await method.verify(credentials, registered)


@pytest.mark.parametrize("audience", [*AUDIENCES, [AUDIENCES[1]]])
async def test_idp_026_an_assertion_of_the_clients_key_proves_it(host, audience):
    match = await prove(private_key_jwt(host), signed(claims(host, aud=audience)), inline(KEY))

    assert match.subject == "c1"


async def test_idp_027_a_secret_proves_the_client_by_its_mac(host):
    method = by_secret(host)

    for alg in ("HS256", "HS384", "HS512"):
        assert (await prove(method, macked(claims(host, jti=alg), alg=alg), confidential())).subject == "c1"
    with pytest.raises(InvalidClient):
        await prove(method, macked(claims(host, jti="x"), secret="another secret of thirty-two bytes"), confidential())


def test_each_method_leaves_the_other_ones_assertions_alone(host):
    by_key, by_mac = private_key_jwt(host), by_secret(host)

    assert by_key.credentials(request(macked(claims(host)))) is None
    assert by_mac.credentials(request(signed(claims(host)))) is None
    assert by_key.credentials(ClientRequest(call=None, form=Parameters([]), audiences=AUDIENCES)) is None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("exp", (None, "9999999999", -1, 1, 1 << 50, 10**26, True, [], math.nan, math.inf)),
        ("iat", ("0", 1 << 50, [])),
        ("nbf", ({}, "0", 1 << 50)),
        ("aud", (None, 7, [], [[AUDIENCES[0]]], [*AUDIENCES], [AUDIENCES[0], "x"], "https://other.example")),
        ("aud", ("https://id.example/", "https://id.example/token/", "https://id.example/par")),
        ("jti", (None, "", 7, ["j"], "a\0b", "x" * 300)),
    ],
)
async def test_s045_s046_s047_claims_that_are_refused(host, name, values):
    for value in values:
        with pytest.raises(InvalidClient) as caught:
            await prove(private_key_jwt(host), signed(claims(host, **{name: value})), inline(KEY))

        assert caught.value.detail == "the client or its credentials are not known"


@pytest.mark.parametrize("audience", [[AUDIENCES[0]], AUDIENCES[1]])
async def test_a_client_may_be_held_to_the_issuer_alone_as_audience(host, audience):
    strict = msgspec.structs.replace(inline(KEY), more={"strict_assertion_audience": True})

    with pytest.raises(InvalidClient):
        await prove(private_key_jwt(host), signed(claims(host, aud=audience)), strict)
    await prove(private_key_jwt(host), signed(claims(host)), strict)


@pytest.mark.parametrize("changes", [{"sub": "c2"}, {"sub": "c1/"}, {"sub": ["c1"]}, {"iss": None}, {"iss": 1}, {"sub": None}])
def test_s046_iss_and_sub_must_be_one_client(host, changes):
    with pytest.raises(InvalidClient):
        private_key_jwt(host).credentials(request(signed(claims(host, **changes))))


@pytest.mark.parametrize("form", [{"client_id": "c2"}, {"client_assertion_type": "urn:other"}, {"client_assertion_type": ""}])
def test_a_form_that_does_not_go_with_the_assertion_is_refused(host, form):
    with pytest.raises(InvalidClient):
        private_key_jwt(host).credentials(request(signed(claims(host)), **form))


async def test_s047_a_refused_assertion_does_not_burn_the_jti(host):
    method = private_key_jwt(host)
    with pytest.raises(InvalidClient):
        await prove(method, signed(claims(host), key=OTHER), inline(KEY))

    assert (await prove(method, signed(claims(host)), inline(KEY))).subject == "c1"


async def test_s050_another_typ_is_refused(host):
    method = private_key_jwt(host)

    for typ in ("at+jwt", "logout+jwt", "dpop+jwt", "secevent+jwt", 3, ["JWT"], {"JWT": 1}, True, "A" * 30_000):
        with pytest.raises(InvalidClient) as refused:
            await prove(method, signed(claims(host, jti=str(typ)[:9]), typ=typ), inline(KEY))
        assert len(refused.value.cause) < 100, "what a stranger wrote is not for the log"
    assert (await prove(method, signed(claims(host), typ="client-authentication+jwt"), inline(KEY))).subject == "c1"


async def test_s041_a_registered_algorithm_is_the_only_one(host):
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
    registration = Registration(client=confidential(), open=False, client_secret=Secret("short"))

    with pytest.raises(InvalidClientMetadata, match="32 bytes"):
        ClientSecretJwt(None, None).check(registration)


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


class AssertionContract(ClientAuthMethodContract):
    """What both methods bring; each assertion is of its own."""

    @pytest.fixture(autouse=True)
    def _host(self, host):
        self.host = host
        self.numbers = count()

    def sign(self, body, *, right):
        raise NotImplementedError

    def send(self, call, form, *, right):
        body = claims(self.host, aud="https://issuer.example/token", jti=f"j{next(self.numbers)}")
        form |= {"client_assertion": self.sign(body, right=right), "client_assertion_type": TYPE}


class TestPrivateKeyJwt(AssertionContract):
    refused = tuple(Registration(client=client(**members), open=True) for members in ({}, {"jwks_uri": "http://a.example"}, {"jwks": {}}))

    def method(self):
        return private_key_jwt(self.host)

    def client(self):
        return inline(KEY)

    def sign(self, body, *, right):
        return signed(body, key=KEY if right else OTHER)


class TestClientSecretJwt(AssertionContract):
    refused = (Registration(client=confidential(), open=True, client_secret=Secret("x" * 31)),)

    def method(self):
        return by_secret(self.host)

    def client(self):
        return confidential()

    def sign(self, body, *, right):
        return macked(body, secret=SECRET if right else SECRET[::-1])
