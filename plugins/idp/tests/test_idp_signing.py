"""Signing keys: tokens, rotation, revocation, the key set."""

import asyncio
import json
from typing import Any

import pytest
from joserfc import jwt as joserfc_jwt
from joserfc.jwk import KeySet
from sqlalchemy import select

from greatseal.api.problems import BadRequest
from greatseal.jose.compact import b64url_encode
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
    return service.kernel.hooks.instances["idp"].provider(service.host("idp")).signing


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
    signing: Signing = service.kernel.hooks.instances["idp"].provider(service.host("idp")).signing

    assert signing.algorithms == ("RS256", "ES256")
    token = await signing.jwt("JWT", {"iss": service.url})
    assert joserfc_jwt.decode(token, KeySet.import_key_set(json.loads(signing.jwks())), algorithms=["RS256"]).header["alg"] == "RS256"
    assert (await signing.rotate(by="root")).alg == "RS256"


async def test_the_key_set_shows_public_members_alone(signing: Signing) -> None:
    keys = json.loads(signing.jwks())["keys"]

    assert [(key["kty"], key["alg"], key["use"]) for key in keys] == [("EC", "ES256", "sig"), ("RSA", "RS256", "sig")]
    assert set().union(*keys) <= {"kty", "crv", "x", "y", "n", "e", "alg", "use", "kid"}


async def test_idp_114_rotation_makes_a_new_active_key_and_retains_the_old(service: Any, signing: Signing) -> None:
    token = await signing.jwt("at+jwt", {"iss": service.url})
    old = signing.keys()[0]

    rotated = await signing.rotate(by="root@EXAMPLE")

    assert rotated.alg == "ES256"
    assert rotated.previous_kid == old.kid
    assert {key.kid: key.status for key in listed(signing) if key.alg == "ES256"} == {rotated.kid: "active", old.kid: "retained"}
    assert {rotated.kid, old.kid} <= kids(signing)  # at once
    assert signing.verify(token, typ=AT) is not None
    assert (
        joserfc_jwt.decode(await signing.jwt("JWT", {}), KeySet.import_key_set(json.loads(signing.jwks())), algorithms=["ES256"]).header[
            "kid"
        ]
        == rotated.kid
    )
    told = await service.host("idp").db.read(lambda tx: [(row.event_type, row.sub, row.detail) for row in tx.all(select(audit))])
    assert told == [("key_rotated", "root@EXAMPLE", f"kid={rotated.kid} alg=ES256")]


async def test_r3_rotation_of_the_other_algorithm_by_name(signing: Signing) -> None:
    rotated = await signing.rotate("RS256", by="root")

    assert rotated.alg == "RS256"
    assert [key.status for key in listed(signing)] == ["active", "active", "retained"]
    with pytest.raises(BadRequest):
        await signing.rotate("HS256", by="root")


async def test_idp_115_a_revoked_key_leaves_the_key_set_at_once_and_its_tokens_are_dead(service: Any, signing: Signing) -> None:
    token = await signing.jwt("at+jwt", {"iss": service.url})
    rotated = await signing.rotate(by="root")
    assert rotated.previous_kid is not None

    assert await signing.revoke(rotated.previous_kid, by="root")

    assert rotated.previous_kid not in kids(signing)
    assert signing.verify(token, typ=AT) is None
    assert signing.keys()[0].kid == rotated.kid


async def test_idp_117_the_active_key_gets_its_successor_before_it_is_revoked(
    service: Any, signing: Signing, capsys: pytest.CaptureFixture[str]
) -> None:
    active = signing.keys()[0]

    assert await signing.revoke(active.kid, by="root")

    now = signing.keys()[0]
    assert now.status == "active"
    assert now.kid != active.kid
    assert active.kid not in kids(signing)
    assert signing.verify(await signing.jwt("at+jwt", {"iss": service.url}), typ=AT) is not None
    said = capsys.readouterr()
    assert "the active signing key is revoked" in said.out + said.err
    told = await service.host("idp").db.read(lambda tx: [row.event_type for row in tx.all(select(audit))])
    assert told == ["key_rotated", "key_revoked"]


@pytest.mark.parametrize("kid", ["", "../../dev/null", "' OR 1=1 --", "x" * 100_000])
async def test_idp_135_an_unknown_kid_is_not_revoked(signing: Signing, kid: str) -> None:
    assert not await signing.revoke(kid, by="root")
    assert len(signing.keys()) == 2


async def test_twenty_rotations_at_once_leave_one_active_key(signing: Signing) -> None:
    made = await asyncio.gather(*(signing.rotate(by="root") for _ in range(20)))

    assert len({one.kid for one in made}) == 20
    assert [key.status for key in listed(signing) if key.alg == "ES256"].count("active") == 1


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
    signing: Signing = service.kernel.hooks.instances["idp"].provider(service.host("idp")).signing
    clock.step(-90)
    await signing.rotate(by="root")

    clock.advance(90 + 900 + 3600)
    await signing.retire()

    assert kids(signing) == {key.kid for key in listed(signing) if key.status == "active"}


async def test_a_jump_ahead_of_the_clock_retires_no_key(start_service: StartService) -> None:
    clock = FakeClock(1_800_000_000_000_000)
    service = await start_service("idp", clock=clock)
    signing: Signing = service.kernel.hooks.instances["idp"].provider(service.host("idp")).signing
    await signing.rotate(by="root")
    before = kids(signing)

    clock.step(365 * 86_400)
    await signing.retire()

    assert kids(signing) == before


async def test_a_retained_key_leaves_when_its_last_token_has_expired(start_service: StartService) -> None:
    clock = FakeClock(1_800_000_000_000_000)
    service = await start_service("idp", clock=clock, session={"ttl": 600}, tokens={"access_token_ttl": 900, "id_token_ttl": 300})
    signing: Signing = service.kernel.hooks.instances["idp"].provider(service.host("idp")).signing
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
