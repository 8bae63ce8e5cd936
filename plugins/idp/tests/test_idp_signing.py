"""Signing keys: tokens, rotation, revocation, the key set."""

import json
from typing import Any

import orjson
import pytest
from joserfc import jwt as joserfc_jwt
from joserfc.jwk import KeySet
from sqlalchemy import select

from greatseal.api.services import TOKENS
from greatseal.jose.compact import b64url_encode, parse_compact
from greatseal.testing import FakeClock
from greatseal.testing.plugin import StartService
from greatseal.testing.store import audit
from greatseal_idp.signing import Signing, SigningKey

AT = frozenset({"at+jwt"})


@pytest.fixture
async def service(start_service: StartService) -> Any:
    return await start_service("idp")


@pytest.fixture
def signing(service: Any) -> Signing:
    return service.kernel.hooks.instances["idp"].assembly(service.host("idp")).signing


def listed(signing: Signing) -> list[SigningKey]:
    return signing.keys()


def kids(signing: Signing) -> set[str]:
    return {key["kid"] for key in json.loads(signing.jwks())["keys"]}


@pytest.mark.parametrize("alg", ["ES256", "RS256"])
async def test_a_token_verifies_with_the_published_key(service: Any, signing: Signing, alg: str) -> None:
    token = await signing.jwt("at+jwt", {"iss": service.url, "sub": "älice@EXAMPLE"}, alg=alg)

    found = joserfc_jwt.decode(token, KeySet.import_key_set(json.loads(signing.jwks())), algorithms=[alg])

    assert found.claims == {"iss": service.url, "sub": "älice@EXAMPLE"}
    assert found.header == {"alg": alg, "kid": next(key.kid for key in listed(signing) if key.alg == alg), "typ": "at+jwt"}
    assert signing.verify(token, typ=AT) == found.claims


async def test_idp_329_the_algorithm_of_the_settings_is_the_default(start_service: StartService) -> None:
    service = await start_service("idp", server={"jwt_signing_algorithm": "RS256"})
    signing: Signing = service.kernel.hooks.instances["idp"].assembly(service.host("idp")).signing

    assert signing.algorithms == ("RS256", "ES256")
    token = await signing.jwt("JWT", {"iss": service.url})
    assert joserfc_jwt.decode(token, KeySet.import_key_set(json.loads(signing.jwks())), algorithms=["RS256"]).header["alg"] == "RS256"
    assert (await signing.rotate(by="root")).alg == "RS256"


async def test_the_key_set_shows_public_members_alone(signing: Signing) -> None:
    keys = json.loads(signing.jwks())["keys"]

    assert [(key["kty"], key["alg"], key["use"]) for key in keys] == [("EC", "ES256", "sig"), ("RSA", "RS256", "sig")]
    assert set().union(*keys) <= {"kty", "crv", "x", "y", "n", "e", "alg", "use", "kid"}


async def test_keys_stay_the_same_over_a_restart_of_the_parts(service: Any, signing: Signing) -> None:
    before = kids(signing)
    await signing.open()
    assert kids(signing) == before


def with_header(token: str, header: dict[str, Any]) -> str:
    return ".".join([b64url_encode(json.dumps(header).encode()), *token.split(".")[1:]])


async def test_s050_a_token_of_another_type_is_refused(service: Any, signing: Signing) -> None:
    id_token = await signing.jwt("JWT", {"iss": service.url})

    assert signing.verify(id_token, typ=AT) is None
    assert signing.verify(id_token, typ=frozenset({"jwt"})) is not None
    assert signing.verify(await signing.jwt("application/AT+JWT", {"iss": service.url}), typ=AT) is not None


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", "HS256", "ES384", "RS256"])
async def test_s040_s041_the_algorithm_is_that_of_the_key(service: Any, signing: Signing, alg: str) -> None:
    token = await signing.jwt("at+jwt", {"iss": service.url})
    kid = signing.keys()[0].kid
    forged = with_header(token, {"alg": alg, "kid": kid, "typ": "at+jwt"})

    assert signing.verify(forged, typ=AT) is None
    assert signing.verify(forged.rpartition(".")[0] + ".", typ=AT) is None


@pytest.mark.parametrize("kid", [None, "", 7, ["x"], "../../dev/null", "' OR 1=1 --", "x" * 10_000])
async def test_s043_an_unknown_kid_is_refused(service: Any, signing: Signing, kid: object) -> None:
    token = await signing.jwt("at+jwt", {"iss": service.url})
    header = {"alg": "ES256", "typ": "at+jwt"} | ({} if kid is None else {"kid": kid})
    assert signing.verify(with_header(token, header), typ=AT) is None


async def test_tokens_of_another_issuer_and_changed_ones_are_refused(service: Any, signing: Signing) -> None:
    good = await signing.jwt("at+jwt", {"iss": service.url})

    assert signing.verify(await signing.jwt("at+jwt", {"iss": f"{service.url}/"}), typ=AT) is None
    assert signing.verify(await signing.jwt("at+jwt", {}), typ=AT) is None
    head, payload, signature = good.split(".")
    for changed in ("", "a", "a.b", f"{head}.{payload}", f"{good}.x", f"{good}=", f"{head}.{payload}.{signature[:-4]}AAAA", "x" * 20_000):
        assert signing.verify(changed, typ=AT) is None


async def test_a_key_whose_successor_looks_older_leaves_too(start_service: StartService) -> None:
    clock = FakeClock(1_800_000_000_000_000)
    service = await start_service("idp", clock=clock, session={"ttl": 600}, tokens={"access_token_ttl": 900, "id_token_ttl": 300})
    signing: Signing = service.kernel.hooks.instances["idp"].assembly(service.host("idp")).signing
    clock.step(-90)
    await signing.rotate(by="root")

    clock.advance(90 + 900 + 3600)
    await signing.retire()

    assert kids(signing) == {key.kid for key in listed(signing) if key.status == "active"}


async def test_a_jump_ahead_of_the_clock_retires_no_key(start_service: StartService) -> None:
    clock = FakeClock(1_800_000_000_000_000)
    service = await start_service("idp", clock=clock)
    signing: Signing = service.kernel.hooks.instances["idp"].assembly(service.host("idp")).signing
    await signing.rotate(by="root")
    before = kids(signing)

    clock.step(365 * 86_400)
    await signing.retire()

    assert kids(signing) == before


async def test_a_retained_key_leaves_when_its_last_token_has_expired(start_service: StartService) -> None:
    clock = FakeClock(1_800_000_000_000_000)
    service = await start_service("idp", clock=clock, session={"ttl": 600}, tokens={"access_token_ttl": 900, "id_token_ttl": 300})
    signing: Signing = service.kernel.hooks.instances["idp"].assembly(service.host("idp")).signing
    clock.advance(5000)
    rotated = await signing.rotate(by="root")
    old = next(key for key in listed(signing) if key.status == "retained")
    assert old.retire_at == rotated.created_at + 900_000_000

    clock.advance(899 + 3600)
    await signing.retire()
    assert old.kid in kids(signing)

    clock.advance(3600)
    await signing.retire()
    assert kids(signing) == {key.kid for key in listed(signing) if key.status == "active"}
    told = await service.host("idp").db.read(lambda tx: [(row.event_type, row.sub) for row in tx.all(select(audit))])
    assert told == [("key_rotated", "root"), ("key_revoked", None)]


@pytest.mark.parametrize("typ", ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", "application/jwt", ""])
async def test_a_plugin_signs_no_token_that_this_service_takes_back(service: Any, typ: str) -> None:
    with pytest.raises(ValueError, match="come from grants alone"):
        await service.kernel.service(TOKENS).sign(typ, {"sub": "alice@LOCALHOST", "aud": "c1"})


@pytest.mark.parametrize("claims", [{"aud": "c1"}, {"sub": "alice@LOCALHOST"}], ids=["no subject", "no audience"])
async def test_a_jwt_without_a_subject_or_an_audience_is_no_id_token_and_may_be_signed(service: Any, claims: dict[str, str]) -> None:
    token = await service.kernel.service(TOKENS).sign("JWT", {**claims, "iat": 1, "exp": 2})

    assert parse_compact(token).header["typ"] == "JWT"
    signing: Signing = service.kernel.hooks.instances["idp"].assembly(service.host("idp")).signing
    assert signing.identity(token) is None


async def test_a_plugin_signs_tokens_of_its_own_type_as_this_issuer(service: Any) -> None:
    token = await service.kernel.service(TOKENS).sign("token-authority+jwt", {"iss": "https://other.example", "sub": "x"}, alg="RS256")

    jws = parse_compact(token)
    assert (jws.header["typ"], jws.header["alg"]) == ("token-authority+jwt", "RS256")
    assert orjson.loads(jws.payload) == {"iss": service.url, "sub": "x"}
