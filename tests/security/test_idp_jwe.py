"""Request objects that are encrypted for the service (RFC 9101 s6.1), and whoever encrypts what nobody signed."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec
from jwcrypto import jwe, jwk
from security.idp_desk import Desk, open_desk
from security.test_idp_jar import KEY, UNSIGNED, claims, signed

from greatseal.jose.compact import b64url_encode
from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import CALLBACK, told
from greatseal_jar.decryption import FRESH, KEPT

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path_factory.mktemp("idp"), "resolver", "jar") as desk:
        desk.client = await desk.registered(jwks={"keys": [jwk_of(KEY.public_key())]})
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def ann(desk: Desk) -> str:
    return await desk.cookie("ann")


async def offered(desk: Desk) -> dict[str, dict[str, Any]]:
    """The keys that the service offers for encryption, by type."""
    keys = (await desk.get("/jwks")).json["keys"]
    assert len({key["kid"] for key in keys}) == len(keys)
    return {key["kty"]: key for key in keys if key["use"] == "enc"}


def sealed(text: str, to: dict[str, Any], *, alg: str | None = None, enc: str = "A256GCM", **header: Any) -> str:
    alg = alg or ("RSA-OAEP-256" if to["kty"] == "RSA" else "ECDH-ES")
    said = {"alg": alg, "enc": enc, "cty": "oauth-authz-req+jwt", "kid": to["kid"], **header}
    said = {name: value for name, value in said.items() if value is not None}
    whole = jwe.JWE(text.encode(), json.dumps(said), algs=[alg, enc, "RSA1_5"])
    whole.add_recipient(jwk.JWK(**to))
    return str(whole.serialize(compact=True))


async def sent(desk: Desk, text: str, cookie: str, client: Any = None) -> dict[str, str]:
    client_id = (client or desk.client)["client_id"]
    return told(await desk.get(f"/authorize?client_id={client_id}&redirect_uri={CALLBACK}&request={text}", cookie=cookie))


async def test_what_is_offered_is_told(desk):
    metadata = (await desk.get("/.well-known/openid-configuration")).json

    assert set(metadata["request_object_encryption_alg_values_supported"]) == {
        "RSA-OAEP", "RSA-OAEP-256", "ECDH-ES", "ECDH-ES+A128KW", "ECDH-ES+A256KW",
    }  # fmt: skip
    assert metadata["request_object_encryption_enc_values_supported"] == ["A128CBC-HS256", "A256CBC-HS512", "A128GCM", "A256GCM"]
    assert not any("d" in key for key in (await offered(desk)).values())


@pytest.mark.parametrize(("kty", "alg"), [("EC", "ECDH-ES"), ("EC", "ECDH-ES+A256KW"), ("RSA", "RSA-OAEP"), ("RSA", "RSA-OAEP-256")])
async def test_an_encrypted_request_is_opened_at_both_endpoints(desk, ann, kty, alg):
    to = (await offered(desk))[kty]

    assert "code" in await sent(desk, sealed(signed(desk), to, alg=alg), ann)
    assert "code" in await sent(desk, sealed(signed(desk), to, alg=alg, kid=None), ann)
    pushed = await desk.form("/par", {"request": sealed(signed(desk), to, alg=alg)})
    assert pushed.status == 201, pushed.text


async def test_s021_encryption_is_no_signature(desk, ann):
    """Anybody has the public key: what is inside has to be signed by the client."""
    to, stranger = (await offered(desk))["EC"], ec.generate_private_key(ec.SECP256R1())
    whole = json.dumps(claims(desk))
    other = {**to, **jwk_of(stranger.public_key())}
    for text in (
        sealed(whole, to),
        sealed(f"{UNSIGNED}.{b64url_encode(whole.encode())}.", to),
        sealed(signed(desk, stranger), to),
        sealed(sealed(signed(desk), to), to),
        sealed(signed(desk), other),
        sealed(signed(desk), to, kid="another"),
        sealed(signed(desk), to, kid=7),
        sealed("\u00e4.b.c", to),
    ):
        assert (await sent(desk, text, ann))["error"] == "invalid_request_object"
        refused = await desk.form("/par", {"request": text})
        assert refused.outcome == (400, "invalid_request_object")
        assert text[-20:] not in refused.text


async def test_s048_a_bomb_is_not_inflated_and_old_algorithms_are_not_offered(desk):
    keys = await offered(desk)
    nested = signed(desk)
    for _ in range(4):
        nested = sealed(nested, keys["EC"])
    for text in (sealed("a" * 5_000_000, keys["EC"], zip="DEF"), sealed(signed(desk), keys["RSA"], alg="RSA1_5"), nested):
        assert len(text) < 65_000
        refused = await desk.form("/par", {"request": text})
        assert refused.outcome == (400, "invalid_request_object"), refused.text
    assert (await desk.form("/par", {"request": "a" * 70_000 + "...."})).status == 413


async def test_a_client_is_held_to_the_algorithms_that_it_registered(desk, ann):
    own = {"request_object_encryption_alg": "ECDH-ES", "request_object_encryption_enc": "A128GCM"}
    client = await desk.registered(jwks={"keys": [jwk_of(KEY.public_key())]}, **own)
    mine, to = signed(desk, client_id=client["client_id"], iss=client["client_id"]), await offered(desk)

    assert "code" in await sent(desk, sealed(mine, to["EC"], enc="A128GCM"), ann, client)
    for other in (sealed(mine, to["EC"], enc="A256GCM"), sealed(mine, to["RSA"], enc="A128GCM")):
        assert (await sent(desk, other, ann, client))["error"] == "invalid_request_object"
    wrong = await desk.register(jwks={"keys": [jwk_of(KEY.public_key())]}, request_object_encryption_enc="A128GCM")
    assert wrong.outcome == (400, "invalid_client_metadata")
    assert (await desk.register(request_object_encryption_alg="RSA1_5")).outcome == (400, "invalid_client_metadata")


async def test_the_keys_are_made_anew_and_old_ones_go_on_for_a_while(desk):
    keys = desk.service.kernel.hooks.instances["jar"]._keys(desk.service.host("jar"))
    before = await offered(desk)
    early = sealed(signed(desk), before["EC"])
    await keys.look()
    assert await offered(desk) == before, "they are young"

    desk.clock.advance(FRESH // 1_000_000)
    await keys.look()

    after = await offered(desk)
    assert {before[kty]["kid"] == after[kty]["kid"] for kty in before} == {False}
    assert (await desk.form("/par", {"request": early})).status == 201
    desk.clock.advance(KEPT // 1_000_000 + 3600)
    await keys.look()
    assert await offered(desk) == after
    assert (await desk.form("/par", {"request": early})).outcome == (400, "invalid_request_object")
    assert [one.event_type for one in await desk.events("request_key_made", "request_key_deleted")] == [
        *["request_key_made"] * 4,
        *["request_key_deleted"] * 2,
    ]
