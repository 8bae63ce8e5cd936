"""ID token, UserInfo, introspection and authorization response as a client gets them that registered encryption: signed, then encrypted."""

import json
from typing import Any

import aiohttp
import pytest
from joserfc import jwe, jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

EC = ECKey.generate_key("P-256", {"kid": "e1", "use": "enc"})
RSA = RSAKey.generate_key(2048, {"kid": "r1", "use": "enc"})
KINDS = {"authorization": "ECDH-ES", "id_token": "RSA-OAEP-256", "userinfo": "ECDH-ES+A256KW", "introspection": "ECDH-ES+A128KW"}


@pytest.fixture
def features():
    return ("jar",)


@pytest.fixture
async def rp(party):
    asked = {f"{kind}_encrypted_response_alg": alg for kind, alg in KINDS.items()}
    jwks = {"keys": [key.as_dict(private=False) for key in (EC, RSA)]}
    return await party(jwks=jwks, userinfo_signed_response_alg="ES256", id_token_encrypted_response_enc="A256GCM", **asked)


async def opened(rp: Any, text: str, kind: str) -> Any:
    """The claims inside of a nested JWT."""
    enc = "A256GCM" if kind == "id_token" else "A128CBC-HS256"
    inner = jwe.decrypt_compact(text, RSA if kind == "id_token" else EC, algorithms=[KINDS[kind], enc])
    assert inner.headers()["cty"] == "JWT"
    async with rp.browser.session.get(rp.metadata["jwks_uri"]) as reply:
        keys = KeySet.import_key_set(await reply.json(content_type=None))
    assert inner.plaintext is not None
    claims = jwt.decode(inner.plaintext.decode(), keys, algorithms=["ES256"]).claims
    assert (claims["iss"], claims["aud"]) == (rp.metadata["issuer"], rp.client_id)
    return claims


async def test_every_answer_is_signed_and_then_encrypted(rp):
    page = await rp.browser.finish(await rp.begin(rp.request(response_mode="jwt")))
    answer = await opened(rp, page.answer["response"], "authorization")
    status, tokens = await rp.redeem(answer["code"])
    assert status == 200, tokens
    sub = (await opened(rp, tokens["id_token"], "id_token"))["sub"]

    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    async with rp.browser.session.get(rp.metadata["userinfo_endpoint"], headers=bearer) as reply:
        assert reply.content_type == "application/jwt"
        assert (await opened(rp, await reply.text(), "userinfo"))["sub"] == sub
    asking = {
        "Authorization": aiohttp.encode_basic_auth(rp.client_id, rp.secret),
        "Accept": "application/token-introspection+jwt",
    }
    async with rp.browser.session.post(
        rp.metadata["introspection_endpoint"], data={"token": tokens["access_token"]}, headers=asking
    ) as reply:
        assert reply.content_type == "application/token-introspection+jwt"
        said = await opened(rp, await reply.text(), "introspection")
    assert (said["token_introspection"]["active"], said["token_introspection"]["sub"]) == (True, sub)
    refused = await rp.begin(rp.request(response_mode="jwt", prompt="none", max_age="x"))
    assert (await opened(rp, refused.answer["response"], "authorization"))["error"] == "invalid_request"


async def test_the_metadata_names_what_encrypts(rp):
    for kind in KINDS:
        assert "RSA-OAEP-256" in rp.metadata[f"{kind}_encryption_alg_values_supported"]
        assert "A256GCM" in rp.metadata[f"{kind}_encryption_enc_values_supported"]
    async with rp.browser.session.get(f"{rp.metadata['issuer']}/.well-known/oauth-authorization-server") as reply:
        oauth = json.loads(await reply.text())
    assert {"authorization_encryption_alg_values_supported", "introspection_encryption_enc_values_supported"} <= oauth.keys()
    assert not {"id_token_encryption_alg_values_supported", "userinfo_encryption_enc_values_supported"} & oauth.keys()


async def test_a_key_that_is_gone_burns_no_code(party):
    """The keys are behind a place where nobody listens: whoever waits for them keeps the code."""
    rp = await party(jwks_uri="https://localhost:9/jwks", id_token_encrypted_response_alg="ECDH-ES")
    _, answer = await rp.authorize()

    for _ in range(2):
        status, said = await rp.redeem(answer["code"])
        assert (status, said["error"]) == (503, "unavailable")
