"""The profile against services that lack something. Over HTTP, module by module: tests/system/oidc/test_fapi2_security_profile.py."""

from types import SimpleNamespace

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from greatseal.api.authorization import Ask, Extension, Granting, Terms
from greatseal.api.clients import Client, ClientAuthMethod, InvalidClientMetadata, Registration
from greatseal.api.http import Parameters
from greatseal.api.problems import BadRequest, Unavailable
from greatseal.api.tokens import InvalidGrant, TokenBinding
from greatseal.jose.jwk import jwk_of
from greatseal.testing.extensions import ExtensionContract
from greatseal_fapi import Plugin
from greatseal_fapi.installation import Installation
from greatseal_fapi.profile import Fapi
from greatseal_fapi.settings import Lifetimes, Way

JWKS = {"keys": [jwk_of(ec.generate_private_key(ec.SECP256R1()).public_key())]}
JAR = {
    "request-objects": SimpleNamespace(opens="request", response_modes={}),
    "jarm": SimpleNamespace(opens=None, response_modes={"jwt": "query"}),
}
CERTIFICATE = "tls_client_certificate_bound_access_tokens"


def host_of(
    *, bindings=("jkt", "x5t#S256"), methods=("private_key_jwt",), extensions=JAR, base_url="https://id.example", tls="x", **seconds
):
    found = {TokenBinding: dict.fromkeys(bindings), ClientAuthMethod: dict.fromkeys(methods), Extension: extensions}
    settings = {Lifetimes: Lifetimes(**seconds), Way: Way(tls_cert_file=tls)}
    return SimpleNamespace(components=found.__getitem__, settings=settings.__getitem__, base_url=base_url)


def fapi(**about):
    return Fapi(Installation(host_of(**about)))


def client(profile="fapi2", **more):
    return Client(
        client_id="c1", token_endpoint_auth_method="private_key_jwt", jwks=JWKS, scopes=("openid",), more={"profile": profile, **more}
    )


def asked(by, at="par", mode=None, **given):
    parameters = Parameters({"redirect_uri": "https://app.example/cb", **given}.items())
    return Ask(at=at, client=by, given=parameters, sent=parameters, remote="192.0.2.1", response_mode=mode)


class TestFapi(ExtensionContract):
    parameters = (("redirect_uri", "https://app.example/cb"), ("response_mode", "jwt"))
    client = client()
    cnf = {"jkt": "k1"}  # noqa: RUF012  # the contract's

    def extension(self):
        return fapi()


def test_one_word_is_every_switch():
    more = fapi().complete(client("fapi2_message_signing")).more

    assert more == {
        "profile": "fapi2_message_signing",
        "require_pushed_authorization_requests": True,
        "require_pkce": True,
        "strict_assertion_audience": True,
        "rotate_refresh_tokens": False,
        "require_signed_request_object": True,
        "strict_request_object": True,
        "dpop_bound_access_tokens": True,
        "allowed_signing_algs": ["PS256", "ES256", "Ed25519"],
        "id_token_signed_response_alg": "ES256",
        "introspection_signed_response_alg": "ES256",
        "access_token_signed_response_alg": "ES256",
        "authorization_signed_response_alg": "ES256",
    }


def test_the_security_profile_asks_for_no_signed_request_and_nothing_of_a_plugin_that_is_not_there():
    more = fapi(extensions={}).complete(client(**{CERTIFICATE: True})).more

    assert "require_signed_request_object" not in more
    assert "authorization_signed_response_alg" not in more
    assert "dpop_bound_access_tokens" not in more, "a token is bound to one key"


LACKING = [
    ({"bindings": ("x5t#S256",)}, {}, "no enabled plugin binds tokens to jkt; enable dpop"),
    ({"bindings": ("jkt",)}, {CERTIFICATE: True}, "no enabled plugin binds tokens to x5t#S256; enable client-auth-mtls"),
    ({"extensions": {}}, {"profile": "fapi2_message_signing"}, "no enabled plugin reads signed requests and signs answers; enable jar"),
    ({"extensions": {"jarm": JAR["jarm"]}}, {"profile": "fapi2_message_signing"}, "enable jar"),
    ({"extensions": {"o": JAR["request-objects"]}}, {"profile": "fapi2_message_signing"}, "enable jar"),
    ({"code_ttl": 61}, {}, "[tokens] code_ttl is 61; 60 is the most"),
    ({"par_ttl": 600}, {}, "[tokens] par_ttl is 600; 599 is the most"),
]


@pytest.mark.parametrize(("about", "more", "reason"), LACKING)
async def test_what_the_service_lacks_refuses_the_client_when_it_is_stored_and_later(about, more, reason):
    one, mine = fapi(**about), client(**more)

    with pytest.raises(InvalidClientMetadata) as refused:
        one.check(Registration(client=mine, open=False))
    assert refused.value.detail.startswith("profile: this service cannot keep fapi2")
    assert reason in refused.value.detail
    for at in ("authorize", "par", "token"):
        with pytest.raises(Unavailable) as later:
            await one.ask(asked(mine, at, "jwt"))
        assert reason in later.value.cause
        assert reason not in later.value.detail, "the client is told nothing of the configuration"
    assert await one.ask(asked(msgspec.structs.replace(mine, more={}), "par")) is None


async def test_redirect_uri_and_a_signed_answer():
    one, signing = fapi(), client("fapi2_message_signing")

    for mine, mode in ((client(), "query"), (client(), None), (signing, "jwt"), (signing, "form_post.jwt")):
        assert await one.ask(asked(mine, mode=mode)) is None
    for mine, mode, given in ((signing, "query", {}), (signing, None, {}), (signing, "jwtx", {})):
        with pytest.raises(BadRequest, match="signed answers"):
            await one.ask(asked(mine, mode=mode, **given))
    missing = msgspec.structs.replace(asked(client()), given=Parameters(()))
    with pytest.raises(BadRequest, match="redirect_uri"):
        await one.ask(missing)
    assert await one.ask(msgspec.structs.replace(missing, at="token")) is None
    assert await one.ask(msgspec.structs.replace(missing, client=client("default"))) is None


@pytest.mark.parametrize("basis", ["authorization", "client", "exchange"])
def test_no_token_without_a_key(basis):
    def granting(mine, cnf=None):
        return Granting(grant_type="x", client=mine, subject="s", cnf=cnf, proven={}, basis=basis)

    terms = Terms(scopes=("openid",))

    with pytest.raises(InvalidGrant):
        fapi().grant(None, None, terms, granting(client()))
    assert fapi().grant(None, None, terms, granting(client(), {"jkt": "k"})) is terms
    assert fapi().grant(None, None, terms, granting(client("default"))) is terms


@pytest.mark.parametrize(
    ("about", "notes"),
    [
        ({}, []),
        ({"bindings": ()}, ["no client can have a profile: no enabled plugin binds tokens to keys; enable dpop or client-auth-mtls"]),
        ({"bindings": ("jkt",), "methods": ("none",)}, ["no client can have a profile: it needs private_key_jwt or"]),
        ({"extensions": {}}, ["no client can have the profile fapi2_message_signing: no enabled plugin reads signed requests"]),
        (
            {"code_ttl": 300, "par_ttl": 3600},
            ["no client can have a profile: [tokens] code_ttl is 300", "no client can have a profile: [tokens] par_ttl"],
        ),
        ({"base_url": "http://localhost:8080"}, ["[server] base_url is no https URL"]),
        ({"tls": None}, ["the TLS is that of a proxy: TLS 1.2 or newer"]),
    ],
)
def test_the_notes_say_what_lacks_and_what_to_do(about, notes):
    found = Plugin().notes(host_of(**about))

    assert len(found) == len(notes), found
    for note, said in zip(found, notes, strict=True):
        assert note.startswith(f"FAPI 2.0: {said}"), note


def test_keys_that_are_none_are_refused_and_those_behind_a_url_are_not_looked_at():
    remote = msgspec.structs.replace(client("fapi2_message_signing"), jwks=None, jwks_uri="https://app.example/keys")
    fapi().check(Registration(client=remote, open=False))

    for jwks in ({"keys": []}, {"keys": [{**JWKS["keys"][0], "d": "x"}]}, {}):
        with pytest.raises(InvalidClientMetadata, match="jwks: "):
            fapi().check(Registration(client=msgspec.structs.replace(remote, jwks=jwks, jwks_uri=None), open=False))


def test_a_client_without_a_profile_is_left_alone():
    plain = msgspec.structs.replace(client("default"), token_endpoint_auth_method="none", jwks=None)

    fapi(bindings=()).check(Registration(client=plain, open=False))

    assert fapi().complete(plain) is plain
