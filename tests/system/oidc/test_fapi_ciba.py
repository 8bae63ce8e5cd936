"""The modules of the public FAPI-CIBA plan about signed requests, proofs of the client, bound tokens and pings, one test each.

The names are without ``fapi-ciba-id1-``. The others are in test_oidc_ciba.py; those of single countries are left out.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec
from security.idp_ciba import API, ENDPOINT, GRANT, MINE, Notified, notified
from security.idp_desk import Desk, open_desk
from security.test_idp_mtls import CA, OTHER
from system.oidc.fapi import JWKS, KEYS, FapiClient, Variant, refused

from greatseal.testing.desk import Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")
VARIANTS = (Variant("fapi2", "private_key_jwt", "mtls", "PS256"), Variant("fapi2", "tls_client_auth", "mtls"))
SIGNED = "oauth-authz-req+jwt"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    folder = tmp_path_factory.mktemp("idp")
    CA.cert_pem.write_to_path(folder / "cas.pem")
    sections = {
        "server": {"trusted_proxies": ["127.0.0.1/32"]},
        "oauth": {"client_ca_file": str(folder / "cas.pem"), "allow_private_notification_hosts": True},
    }
    async with open_desk(folder, "resolver", "client-auth-jwt", "client-auth-mtls", "jar", "fapi", "ciba", **sections) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(desk: Desk) -> str:
    return await desk.cookie("ann")


async def registered(desk: Desk, variant: Variant, **changes: Any) -> FapiClient:
    more: dict[str, Any] = {
        "jwks": JWKS,
        "grant_types": [GRANT, "refresh_token"],
        "redirect_uris": [],
        "backchannel_token_delivery_mode": "poll",
        "backchannel_authentication_request_signing_alg": variant.alg,
    }
    return await FapiClient.registered(desk, variant, **{**more, **changes})


@pytest_asyncio.fixture(params=VARIANTS, ids=str, scope="module", loop_scope="module")
async def rp(request: pytest.FixtureRequest, desk: Desk) -> FapiClient:
    return await registered(desk, request.param)


def asked(rp: FapiClient, *, alg: str | None = None, key: Any = None, **changes: Any) -> str:
    """A signed request; None takes a claim out."""
    claims = {
        "iss": rp.client_id,
        "aud": rp.desk.url,
        "iat": rp.now,
        "nbf": rp.now,
        "exp": rp.now + 60,
        "jti": secrets.token_urlsafe(),
        "scope": "openid profile offline_access",
        "login_hint": "ann",
        **changes,
    }
    return rp.signed(SIGNED, claims, alg=alg, key=key)


async def begin(rp: FapiClient, text: str, *, proven: Mapping[str, str] | None = None) -> Answer:
    return await rp.post(ENDPOINT, {"request": text}, proven=proven)


async def poll(rp: FapiClient, handle: str, *, proven: Mapping[str, str] | None = None) -> Answer:
    return await rp.post("/token", {"grant_type": GRANT, "auth_req_id": handle}, proven=proven)


async def decide(rp: FapiClient, cookie: str) -> None:
    (waiting, *_) = (await rp.desk.ask("GET", API, cookie=cookie)).json
    decided = await rp.desk.ask("POST", f"{API}/{waiting['id']}", cookie=cookie, json={"decision": "approve"})
    assert decided.status == 200, decided.text


async def allowed(rp: FapiClient, ann: str) -> str:
    """The auth_req_id of a request that the person allowed."""
    answer = await begin(rp, asked(rp))
    assert answer.status == 200, answer.text
    await decide(rp, ann)
    handle: str = answer.json["auth_req_id"]
    return handle


# ---- Request objects


@pytest.mark.parametrize(
    "module",
    [
        "ensure_request_object_missing_aud_fails",
        "ensure_request_object_bad_aud_fails",
        "ensure_request_object_missing_iss_fails",
        "ensure_request_object_bad_iss_fails",
        "ensure_request_object_missing_exp_fails",
        "ensure_request_object_expired_exp_fails",
        "ensure_request_object_exp_is_70_minutes_in_future_fails",
        "ensure_request_object_missing_iat_fails",
        "ensure_request_object_missing_nbf_fails",
        "ensure_request_object_nbf_is_10_minutes_in_future_fails",
        "ensure_request_object_nbf_is_70_minutes_in_past_fails",
        "ensure_request_object_missing_jti_fails",
        "ensure_request_object_signature_algorithm_is_bad_fails",
        "ensure_request_object_signature_algorithm_is_rs256_fails",
        "ensure_request_object_signed_by_other_client_fails",
        "ensure_different_client_id_and_issuer_in_backchannel_authorization_request",
    ],
)
async def test_a_request_object_that_is_refused(rp: FapiClient, module: str) -> None:
    now = rp.now
    changes: dict[str, Any] = {
        "ensure_request_object_missing_aud_fails": {"aud": None},
        "ensure_request_object_bad_aud_fails": {"aud": "https://other.example"},
        "ensure_request_object_missing_iss_fails": {"iss": None},
        "ensure_request_object_bad_iss_fails": {"iss": "another"},
        "ensure_request_object_missing_exp_fails": {"exp": None},
        "ensure_request_object_expired_exp_fails": {"nbf": now - 600, "exp": now - 300},
        "ensure_request_object_exp_is_70_minutes_in_future_fails": {"exp": now + 4200},
        "ensure_request_object_missing_iat_fails": {"iat": None},
        "ensure_request_object_missing_nbf_fails": {"nbf": None},
        "ensure_request_object_nbf_is_10_minutes_in_future_fails": {"nbf": now + 600, "exp": now + 900},
        "ensure_request_object_nbf_is_70_minutes_in_past_fails": {"nbf": now - 4200},
        "ensure_request_object_missing_jti_fails": {"jti": None},
        "ensure_request_object_signature_algorithm_is_bad_fails": {"alg": "EdDSA", "key": KEYS["EdDSA"]},
        "ensure_request_object_signature_algorithm_is_rs256_fails": {"alg": "RS256", "key": KEYS["PS256"]},
        "ensure_request_object_signed_by_other_client_fails": {"alg": "ES256", "key": ec.generate_private_key(ec.SECP256R1())},
        "ensure_different_client_id_and_issuer_in_backchannel_authorization_request": {"client_id": "another"},
    }[module]

    refused(await begin(rp, asked(rp, **changes)))


async def test_ensure_request_object_signature_algorithm_is_none_fails(rp: FapiClient) -> None:
    header, claims, _ = asked(rp).split(".")

    refused(await begin(rp, f"eyJhbGciOiJub25lIn0.{claims}."))
    refused(await begin(rp, f"{header}.{claims}."))


async def test_ensure_unsigned_backchannel_authorization_request_fails(rp: FapiClient) -> None:
    refused(await rp.post(ENDPOINT, {"scope": "openid", "login_hint": "ann"}))


# ---- Who asks


async def test_ensure_wrong_client_id_in_backchannel_authorization_request(desk: Desk, rp: FapiClient) -> None:
    other = await registered(desk, rp.variant)

    refused(await begin(other, asked(rp)))


async def test_ensure_wrong_client_id_in_token_endpoint_request(desk: Desk, rp: FapiClient, ann: str) -> None:
    refused(await poll(await registered(desk, rp.variant), await allowed(rp, ann)), "invalid_grant")


async def test_ensure_without_client_assertion_fails(rp: FapiClient, ann: str) -> None:
    """In both requests; of a client with a certificate: without that."""
    own, rp.certificate = rp.certificate, OTHER
    try:
        nobody = {"client_id": rp.client_id}
        refused(await begin(rp, asked(rp), proven=nobody), "invalid_client", 401)
    finally:
        rp.certificate = own
    handle = await allowed(rp, ann)
    rp.certificate = OTHER
    try:
        refused(await poll(rp, handle, proven={"client_id": rp.client_id}), "invalid_client", 401)
    finally:
        rp.certificate = own


@pytest.mark.parametrize("rp", VARIANTS[:1], indirect=True, ids=str)
async def test_ensure_client_assertion_signature_algorithm_is_rs256_fails(rp: FapiClient, ann: str) -> None:
    """In both requests."""
    wrong = {"alg": "RS256", "key": KEYS["PS256"], "kid": "PS256"}

    refused(await begin(rp, asked(rp), proven=rp.assertion(**wrong)), "invalid_client", 401)
    refused(await poll(rp, await allowed(rp, ann), proven=rp.assertion(**wrong)), "invalid_client", 401)


@pytest.mark.parametrize("rp", VARIANTS[:1], indirect=True, ids=str)
async def test_ensure_client_assertion_with_iss_aud_to_token_endpoint_succeeds(rp: FapiClient, ann: str) -> None:
    answer = await poll(rp, await allowed(rp, ann), proven=rp.assertion(aud=rp.desk.url))

    assert answer.status == 200, answer.text


# ---- What it gets


async def test_ensure_mtls_holder_of_key_required(rp: FapiClient, ann: str) -> None:
    handle, own = await allowed(rp, ann), rp.certificate
    rp.certificate = None
    try:
        answer = await poll(rp, handle)
    finally:
        rp.certificate = own

    refused(answer, *(("invalid_client", 401) if rp.variant.method == "tls_client_auth" else ("invalid_request", 400)))
    tokens = (await poll(rp, handle)).json
    assert own is not None
    assert (await rp.verified(tokens["access_token"]))["cnf"] == {"x5t#S256": own.thumbprint}


async def test_refresh_token(rp: FapiClient, ann: str) -> None:
    tokens = (await poll(rp, await allowed(rp, ann))).json

    fresh = await rp.refresh(tokens["refresh_token"])

    assert fresh.status == 200, fresh.text
    assert (await rp.verified(fresh.json["access_token"]))["sub"] == "ann@LOCALHOST"


# ---- Pings


@pytest_asyncio.fixture(loop_scope="module")
async def endpoint() -> AsyncIterator[Notified]:
    async with notified() as endpoint:
        yield endpoint


@pytest.mark.parametrize(
    ("module", "status"),
    [
        ("ping_backchannel_notification_endpoint_returns_a_body", 200),
        ("ping_backchannel_notification_endpoint_response_401", 401),
        ("ping_backchannel_notification_endpoint_response_403", 403),
        ("ping_backchannel_notification_endpoint_return_redirect_request", 302),
    ],
)
async def test_a_ping_that_is_answered_so(desk: Desk, ann: str, endpoint: Notified, module: str, status: int) -> None:
    """That the service tries again after none of them at once, and after a refusal never, test_ciba.py shows by the clock."""
    endpoint.statuses = [status]
    ping = {"backchannel_token_delivery_mode": "ping", "backchannel_client_notification_endpoint": endpoint.url}
    rp = await registered(desk, VARIANTS[0], **ping)
    answer = await begin(rp, asked(rp, client_notification_token=MINE))
    await decide(rp, ann)
    async with asyncio.timeout(30):
        await endpoint.came.wait()

    assert endpoint.pings == [(f"Bearer {MINE}", {"auth_req_id": answer.json["auth_req_id"]})], module
    assert (await poll(rp, answer.json["auth_req_id"])).status == 200
