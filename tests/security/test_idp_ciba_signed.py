"""Signed requests at the backchannel (CIBA Core s7.1.1)."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec
from security.idp_ciba import Caller, caller_of, open_callers
from security.idp_desk import Desk

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import sign_compact
from greatseal.jose.jwk import jwk_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
KEY = ec.generate_private_key(ec.SECP256R1())
JWKS = {"keys": [jwk_of(KEY.public_key())]}
ALG = "backchannel_authentication_request_signing_alg"
REFUSED = (400, "invalid_request")
"""CIBA Core s13 has no code for request objects."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with open_callers(tmp_path_factory.mktemp("idp"), "resolver", "jar") as (desk, *_):
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def caller(desk: Desk) -> Caller:
    return await caller_of(desk, jwks=JWKS, **{ALG: "ES256"})


def signed(desk: Desk, caller: Caller, *, alg: str = "ES256", key: Any = KEY, **changes: Any) -> str:
    now = desk.clock.now() // 1_000_000
    whole = {
        "iss": caller.client["client_id"],
        "aud": desk.url,
        "iat": now,
        "nbf": now,
        "exp": now + 60,
        "jti": "one",
        "scope": "openid",
        "login_hint": "ann",
        **changes,
    }
    claims = {name: value for name, value in whole.items() if value is not None}
    return sign_compact({"alg": alg}, json.dumps(claims).encode(), lambda message: ALGORITHMS[alg].sign(key, message))


async def asked(desk: Desk, caller: Caller, form: dict[str, str]) -> Any:
    return await desk.form("/bc-authorize", form, by=caller.client)


async def test_a_signed_request_is_good_once(desk, caller):
    metadata = (await desk.get("/.well-known/openid-configuration")).json
    assert "ES256" in metadata["backchannel_authentication_request_signing_alg_values_supported"]
    text = signed(desk, caller)

    first = await asked(desk, caller, {"request": text, "login_hint": "ben"})
    assert first.status == 200, first.text
    assert "auth_req_id" in first.json
    assert (await asked(desk, caller, {"request": text})).outcome == REFUSED


async def test_what_is_not_signed_as_registered_is_refused(desk, caller):
    assert (await asked(desk, caller, {"scope": "openid", "login_hint": "ann"})).outcome == (400, "invalid_request")
    now = desk.clock.now() // 1_000_000
    wrong = [{name: None} for name in ("iss", "aud", "iat", "nbf", "exp", "jti")]
    wrong += [{"jti": ""}, {"jti": 7}, {"jti": "x" * 257}, {"jti": "\0"}, {"exp": now + 7200}, {"client_id": "another"}]
    for number, changes in enumerate(wrong):
        text = signed(desk, caller, **{"jti": f"wrong{number}", **changes})
        refused = await asked(desk, caller, {"request": text})
        assert refused.outcome == REFUSED, changes
    other = signed(desk, caller, jti="other", key=ec.generate_private_key(ec.SECP256R1()))
    assert (await asked(desk, caller, {"request": other})).outcome == REFUSED
    assert (await desk.register(jwks=JWKS, **{ALG: "none"})).outcome == (400, "invalid_client_metadata")


async def test_a_client_that_registered_another_algorithm_is_held_to_it(desk):
    caller = await caller_of(desk, jwks=JWKS, **{ALG: "PS256", "request_object_signing_alg": "ES256"})

    assert (await asked(desk, caller, {"request": signed(desk, caller)})).outcome == REFUSED


async def test_a_client_that_registered_none_may_sign_or_not(desk):
    caller = await caller_of(desk, jwks=JWKS)

    assert (await asked(desk, caller, {"request": signed(desk, caller)})).status == 200
    assert (await asked(desk, caller, {"scope": "openid", "login_hint": "ann"})).status == 200
