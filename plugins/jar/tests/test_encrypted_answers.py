"""Encrypted answers: who may have them, to which key, and that another library reads them. Over HTTP: tests/system/oidc."""

import msgspec
import pytest
from joserfc import jwe
from joserfc.jwk import ECKey, RSAKey

from greatseal.api.authorization import Ask
from greatseal.api.clients import Client, InvalidClientMetadata, Registration
from greatseal.api.http import Parameters
from greatseal.api.problems import Unavailable
from greatseal.jose.keysets import encrypts_alone
from greatseal.net import RemoteKeys
from greatseal.testing import FakeClock
from greatseal.testing.extensions import ExtensionContract, wish_of
from greatseal.testing.resolver import FakeResolver
from greatseal_jar.encryption import ALGORITHMS, ENCRYPTIONS, KINDS, EncryptedAnswers, encrypted

EC = ECKey.generate_key("P-256", {"kid": "e1", "use": "enc"})
RSA = RSAKey.generate_key(2048, {"kid": "r1", "use": "enc"})
SIGNS = ECKey.generate_key("P-256", {"kid": "s1", "use": "sig"})
JWKS = {"keys": [key.as_dict(private=False) for key in (SIGNS, EC, RSA)]}
SIGNED = "eyJhbGciOiJFUzI1NiJ9.e30.c2ln"


def client(*, jwks=JWKS, jwks_uri=None, **more):
    return Client(client_id="c1", token_endpoint_auth_method="none", jwks=jwks, jwks_uri=jwks_uri, more=more)


def answers():
    return EncryptedAnswers(RemoteKeys(FakeResolver({}), FakeClock(), allow_private=True))


class TestEncryptedAnswers(ExtensionContract):
    client = client(id_token_encrypted_response_alg="ECDH-ES")

    def extension(self):
        return answers()


@pytest.mark.parametrize("alg", ALGORITHMS)
@pytest.mark.parametrize("enc", ENCRYPTIONS)
async def test_another_library_decrypts_every_pair_of_algorithms(alg, enc):
    by = client(id_token_encrypted_response_alg=alg, id_token_encrypted_response_enc=enc)

    sealed = await answers().seal("id_token", by, SIGNED)

    key = RSA if alg.startswith("RSA") else EC
    opened = jwe.decrypt_compact(sealed, key, algorithms=[alg, enc])
    assert opened.plaintext == SIGNED.encode()
    said = {name: opened.headers()[name] for name in ("alg", "enc", "cty", "kid")}
    assert said == {"alg": alg, "enc": enc, "cty": "JWT", "kid": key.kid}


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_has_an_algorithm_of_its_own_and_a_default_for_the_content(kind):
    by = client(**{f"{kind}_encrypted_response_alg": "ECDH-ES"})

    sealed = {one: await answers().seal(one, by, SIGNED) for one in KINDS}

    assert {one for one in KINDS if sealed[one] != SIGNED} == {kind}
    opened = jwe.decrypt_compact(sealed[kind], EC, algorithms=["ECDH-ES", "A128CBC-HS256"])
    assert opened.headers()["enc"] == "A128CBC-HS256"


def test_a_set_of_encryption_keys_alone_is_told_from_one_that_signs():
    assert encrypts_alone(only())
    for jwks in (JWKS, {"keys": []}, {}, {"keys": 7}, {"keys": [7]}, {"keys": [SIGNS.as_dict(private=False)]}):
        assert not encrypts_alone(jwks)


def test_a_key_without_a_name_is_named_nowhere():
    key = ECKey.generate_key("P-256")
    sealed = encrypted(SIGNED, key.as_dict(private=False), alg="ECDH-ES", enc="A128GCM")

    assert "kid" not in jwe.decrypt_compact(sealed, key, algorithms=["ECDH-ES", "A128GCM"]).headers()


def only(**members):
    return {"keys": [{**EC.as_dict(private=False), **members}]}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (client(id_token_encrypted_response_enc="A128GCM"), "id_token_encrypted_response_enc"),
        (client(jwks=None, authorization_encrypted_response_alg="ECDH-ES"), "authorization_encrypted_response_alg"),
        (client(jwks={"keys": 7}, authorization_encrypted_response_alg="ECDH-ES"), "authorization_encrypted_response_alg"),
        (client(jwks={"keys": [7]}, id_token_encrypted_response_alg="ECDH-ES"), "key for ECDH-ES"),
        (client(jwks=only(use="sig"), id_token_encrypted_response_alg="ECDH-ES"), "key for ECDH-ES"),
        (client(jwks=only(alg="ECDH-ES+A128KW"), id_token_encrypted_response_alg="ECDH-ES"), "key for ECDH-ES"),
        (client(jwks=only(x="AAAA"), id_token_encrypted_response_alg="ECDH-ES"), "key for ECDH-ES"),
        (client(jwks=only(), introspection_encrypted_response_alg="RSA-OAEP-256"), "key for RSA-OAEP-256"),
        (client(userinfo_encrypted_response_alg="ECDH-ES"), "userinfo_signed_response_alg"),
    ],
)
def test_a_registration_that_could_not_be_kept_is_refused(asked, said):
    kept = {f"{kind}_encrypted_response_alg": "ECDH-ES" for kind in KINDS}
    answers().check(Registration(client=client(**kept, userinfo_signed_response_alg="ES256"), open=False))
    away = client(jwks=None, jwks_uri="https://keys.example/jwks", id_token_encrypted_response_alg="RSA-OAEP-256")
    answers().check(Registration(client=away, open=False))
    with pytest.raises(InvalidClientMetadata, match=said):
        answers().check(Registration(client=asked, open=False))


@pytest.mark.parametrize(("at", "kind"), [("token", "id_token"), ("authorize", "authorization"), ("par", "authorization")])
@pytest.mark.parametrize("jwks_uri", [None, "https://keys.example/jwks"])
async def test_a_key_that_cannot_be_had_is_missed_before_anything_is_consumed(at, kind, jwks_uri):
    nothing = Parameters(())
    gone = client(jwks=None, jwks_uri=jwks_uri, **{f"{kind}_encrypted_response_alg": "ECDH-ES"})
    ask = Ask(at=at, client=gone, given=nothing, sent=nothing, remote="192.0.2.1")

    with pytest.raises(Unavailable):
        await wish_of(answers(), ask)
    assert await wish_of(answers(), msgspec.structs.replace(ask, client=client(**gone.more))) is None
    assert await wish_of(answers(), msgspec.structs.replace(ask, client=client())) is None
