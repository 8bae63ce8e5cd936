"""The modules of the public plans FAPI 2.0 Security Profile Final and Message Signing Final, one test each, named after it.

The names are without ``fapi2-security-profile-final-``. Each runs for every way of proving the client and of binding its tokens. The
modules about request objects alone are in test_fapi2_message_signing.py; those of single countries and of grant management are left out.
"""

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from security.idp_desk import Desk, open_desk
from security.test_idp_mtls import CA, OTHER
from system.oidc.fapi import CALLBACK, KEYS, VARIANTS, VERIFIER, FapiClient, Variant, error_of, of, refused, registration

from greatseal.jose.jwk import jwk_of, thumbprint_of
from greatseal.testing.desk import told

pytestmark = pytest.mark.asyncio(loop_scope="module")
FEATURES = ("resolver", "client-auth-jwt", "client-auth-mtls", "dpop", "jar", "fapi")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    folder = tmp_path_factory.mktemp("idp")
    CA.cert_pem.write_to_path(folder / "cas.pem")
    sections = {"server": {"trusted_proxies": ["127.0.0.1/32"]}, "oauth": {"client_ca_file": str(folder / "cas.pem")}}
    async with open_desk(folder, *FEATURES, **sections) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clients(desk: Desk) -> dict[Variant, FapiClient]:
    return {variant: await FapiClient.registered(desk, variant) for variant in VARIANTS}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(desk: Desk) -> str:
    return await desk.cookie("ann")


@pytest.fixture(params=VARIANTS, ids=str)
def rp(request: pytest.FixtureRequest, clients: dict[Variant, FapiClient]) -> FapiClient:
    return clients[request.param]


@pytest_asyncio.fixture(loop_scope="module")
async def other(desk: Desk, rp: FapiClient) -> FapiClient:
    """Another client of the same kind."""
    return await FapiClient.registered(desk, rp.variant)


# ---- Well behaved clients


async def test_discovery_end_point_verification(rp):
    metadata = (await rp.desk.get("/.well-known/openid-configuration")).json

    assert {"private_key_jwt", "tls_client_auth", "self_signed_tls_client_auth"} <= set(metadata["token_endpoint_auth_methods_supported"])
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["authorization_response_iss_parameter_supported"] is True
    assert metadata["tls_client_certificate_bound_access_tokens"] is True
    assert metadata["pushed_authorization_request_endpoint"] == f"{rp.desk.url}/par"
    for name in ("dpop", "request_object", "token_endpoint_auth"):
        assert {"PS256", "ES256", "EdDSA"} <= set(metadata[f"{name}_signing_alg_values_supported"])
        assert "none" not in metadata[f"{name}_signing_alg_values_supported"]


async def test_happy_flow(rp, other, ann):
    tokens = await rp.tokens(ann)

    assert tokens["token_type"] == ("DPoP" if rp.variant.bound == "dpop" else "Bearer")
    claims = await rp.verified(tokens["id_token"])
    assert (claims["sub"], claims["aud"], claims["nonce"]) == ("ann@LOCALHOST", rp.client_id, "nonce-1")
    bound = {"jkt": thumbprint_of(rp.key.public_key())} if rp.variant.bound == "dpop" else {"x5t#S256": rp.certificate.thumbprint}
    assert (await rp.verified(tokens["access_token"]))["cnf"] == bound
    answer = await rp.userinfo(tokens["access_token"])
    assert (answer.status, answer.json["sub"]) == (200, "ann@LOCALHOST")
    other.certificate = OTHER
    assert (await other.userinfo(tokens["access_token"])).status == 401, "another client's key"


async def test_user_rejects_authentication(rp, ann):
    pushed = await rp.push(prompt="consent")

    answer = await rp.answered(await rp.decided(await rp.begin(pushed.json["request_uri"], ann), ann, "deny"))

    assert (answer["error"], answer["state"]) == ("access_denied", "state-1")
    assert "code" not in answer


async def test_ensure_authorization_request_without_state_success(rp, ann):
    answer = await rp.authorized(ann, state=None)

    assert "state" not in answer
    assert "code" in answer


async def test_ensure_authorization_request_without_nonce_success(rp, ann):
    tokens = await rp.tokens(ann, nonce=None)

    assert "nonce" not in await rp.verified(tokens["id_token"])


async def test_ensure_authorization_request_with_64_char_nonce_success(rp, ann):
    tokens = await rp.tokens(ann, nonce="n" * 64)

    assert (await rp.verified(tokens["id_token"]))["nonce"] == "n" * 64


async def test_ensure_other_scope_order_succeeds(rp, ann):
    tokens = await rp.tokens(ann, scope="offline_access email profile openid")

    assert set(tokens["scope"].split()) == {"openid", "profile", "email", "offline_access"}


async def test_test_claims_parameter_identity_claims(rp, ann):
    tokens = await rp.tokens(ann, claims=json.dumps({"id_token": {"auth_time": {"essential": True}}}))

    assert "auth_time" in await rp.verified(tokens["id_token"])


async def test_access_token_type_header_case_sensitivity(rp, ann):
    token = (await rp.tokens(ann))["access_token"]

    for scheme in ("DPoP", "dpop", "DPOP") if rp.variant.bound == "dpop" else ("Bearer", "bearer", "BEARER"):
        assert (await rp.userinfo(token, scheme=scheme)).status == 200


async def test_ensure_authorization_request_with_long_nonce(rp, ann):
    tokens = await rp.tokens(ann, nonce="n" * 384)

    assert (await rp.verified(tokens["id_token"]))["nonce"] == "n" * 384


async def test_ensure_authorization_request_with_long_state(rp, ann):
    assert (await rp.authorized(ann, state="s" * 1000))["state"] == "s" * 1000


async def test_refresh_token(rp, ann):
    """The token stays the same (FAPI 2.0 s5.3.2.1), and needs the key or the client."""
    first = await rp.tokens(ann)

    answers = [await rp.refresh(first["refresh_token"]) for _ in range(3)]

    assert [answer.status for answer in answers] == [200] * 3
    assert {answer.json.get("refresh_token", first["refresh_token"]) for answer in answers} == {first["refresh_token"]}
    assert (await rp.userinfo(answers[-1].json["access_token"])).status == 200


@of(method="private_key_jwt")
async def test_ensure_client_id_in_token_endpoint(rp, ann):
    """It may be there, and must be the right one then."""
    assert (await rp.redeem(await rp.code(ann), client_id=rp.client_id)).status == 200
    wrong = await rp.redeem(await rp.code(ann), client_id="another")
    assert wrong.status in {400, 401}, wrong.text


@of(method="tls_client_auth")
async def test_ensure_client_id_in_token_endpoint_with_a_certificate(rp, ann):
    refused(await rp.redeem(await rp.code(ann), proven={}), "invalid_client", 401)


# ---- DPoP


@of(bound="dpop")
async def test_check_dpop_proof_nbf_exp(rp, ann):
    code = await rp.code(ann)
    for wrong in ({"exp": rp.now - 1}, {"nbf": rp.now + 3600}):
        refused(await rp.redeem(code, headers=rp.proof("POST", "/token", **wrong)), "invalid_dpop_proof")

    assert (await rp.redeem(code, headers=rp.proof("POST", "/token", nbf=rp.now - 10, exp=rp.now + 60))).status == 200


@pytest.mark.parametrize("apart", [-10, 10], ids=["before", "after"])
@of(bound="dpop")
async def test_ensure_dpop_proof_with_iat_10_seconds_before_or_after_succeeds(rp, ann, apart):
    answer = await rp.redeem(await rp.code(ann), headers=rp.proof("POST", "/token", iat=rp.now + apart))

    assert answer.status == 200, answer.text
    assert (await rp.userinfo(answer.json["access_token"], iat=rp.now + apart)).status == 200


@of(bound="dpop")
async def test_a_dpop_proof_of_more_than_a_minute_ahead_is_refused(rp, ann):
    refused(await rp.redeem(await rp.code(ann), headers=rp.proof("POST", "/token", iat=rp.now + 61)), "invalid_dpop_proof")


@of(bound="dpop")
async def test_ensure_mismatched_dpop_jkt_fails(rp):
    jkt = thumbprint_of(ec.generate_private_key(ec.SECP256R1()).public_key())

    refused(await rp.push(headers=rp.proof("POST", "/par"), dpop_jkt=jkt), "invalid_dpop_proof")


@of(bound="dpop")
async def test_ensure_token_endpoint_fails_with_mismatched_dpop_proof_jkt(rp, ann):
    code = await rp.code(ann, headers=rp.proof("POST", "/par"))

    refused(await rp.redeem(code, headers=rp.proof("POST", "/token", key=ec.generate_private_key(ec.SECP256R1()))), "invalid_grant")


@of(bound="dpop")
async def test_ensure_token_endpoint_fails_with_mismatched_dpop_jkt(rp, ann):
    code = await rp.code(ann, dpop_jkt=thumbprint_of(rp.key.public_key()))

    refused(await rp.redeem(code, headers=rp.proof("POST", "/token", key=ec.generate_private_key(ec.SECP256R1()))), "invalid_grant")


@of(bound="dpop")
async def test_ensure_dpop_proof_at_par_endpoint_binding_success(rp, ann):
    assert (await rp.redeem(await rp.code(ann, headers=rp.proof("POST", "/par")))).status == 200


@of(bound="dpop")
async def test_ensure_dpop_auth_code_binding_success(rp, ann):
    assert (await rp.redeem(await rp.code(ann, dpop_jkt=thumbprint_of(rp.key.public_key())))).status == 200


@of(bound="dpop")
async def test_dpop_negative_tests(rp, ann):
    code, weak = await rp.code(ann), rsa.generate_private_key(65537, 2048)
    for proof in (
        rp.proof("GET", "/token"),
        rp.proof("POST", "/userinfo"),
        rp.proof("POST", "/token", jti=None),
        rp.proof("POST", "/token", iat=rp.now - 3600),
        rp.proof("POST", "/token", alg="RS256", key=weak),
        rp.proof("POST", "/token", alg="EdDSA", key=ed448.Ed448PrivateKey.generate()),
        {"DPoP": "x"},
    ):
        refused(await rp.redeem(code, headers=proof), "invalid_dpop_proof")

    answer = await rp.redeem(code, headers=rp.proof("POST", "/token", alg="PS256", key=weak))

    rp.key, before = weak, rp.key
    assert (await rp.userinfo(answer.json["access_token"], alg="PS256", key=weak)).status == 200
    assert (await rp.userinfo(answer.json["access_token"], alg="RS256", key=weak)).status == 401, "at resources too"
    rp.key = before


async def test_ensure_holder_of_key_required(rp, ann):
    code, certificate = await rp.code(ann), rp.certificate
    rp.certificate = None if rp.variant.bound == "mtls" else certificate

    answer = await rp.redeem(code, headers={})

    rp.certificate = certificate
    wanted = "invalid_dpop_proof" if rp.variant.bound == "dpop" else "invalid_client" if "tls" in rp.variant.method else "invalid_request"
    refused(answer, wanted, 401 if wanted == "invalid_client" else 400)
    assert (await rp.redeem(code)).status == 200, "and the code is not used up"


# ---- The authorization request


async def test_ensure_request_object_without_redirect_uri_fails(rp):
    refused(await rp.push(redirect_uri=None, scope="profile"))


async def test_ensure_redirect_uri_in_authorization_request(rp):
    refused(await rp.push(redirect_uri=None))


async def test_ensure_registered_redirect_uri(rp):
    refused(await rp.push(redirect_uri=f"{CALLBACK}?dummy=x"))


async def test_ensure_unsigned_authorization_request_without_using_par_fails(rp, ann):
    for parameters in (rp.asked(), rp.request(rp.asked())):
        sent = {"redirect_uri": CALLBACK, **parameters}
        answer = await rp.desk.get(f"/authorize?{urlencode(sent)}", cookie=ann)
        assert "code" not in answer.headers.get("Location", "code")
        told_of = await rp.verified(told(answer)["response"]) if "response=" in answer.location else told(answer)
        assert told_of["error"] == "invalid_request"


@pytest.mark.parametrize("response_type", ["code id_token", "token"])
async def test_ensure_response_type_code_id_token_or_token_fails(rp, response_type):
    refused(await rp.push(response_type=response_type), "unsupported_response_type")


@of(signing=True)
async def test_an_answer_that_is_not_signed_is_refused(rp):
    for mode in (None, "query", "fragment", "form_post"):
        refused(await rp.push(response_mode=mode))


# ---- The token endpoint


async def test_ensure_authorization_code_is_bound_to_client(rp, other, ann):
    code = await rp.code(ann)
    other.key = rp.key

    refused(await other.redeem(code), "invalid_grant")
    assert (await rp.redeem(code)).status == 200


async def test_attempt_reuse_authorization_code_after_one_second(rp, ann):
    code = await rp.code(ann)
    tokens = (await rp.redeem(code)).json
    rp.desk.clock.advance(1)

    refused(await rp.redeem(code), "invalid_grant")
    assert (await rp.userinfo(tokens["access_token"])).status == 401, "what it gave is revoked"


async def test_attempt_to_use_expired_auth_code(rp, ann):
    code = await rp.code(ann)
    rp.desk.clock.advance(61)

    refused(await rp.redeem(code), "invalid_grant")


# ---- Assertions


@of(method="private_key_jwt")
async def test_ensure_signed_client_assertion_with_rs256_fails(rp, ann):
    wrong = rp.assertion(alg="RS256", key=KEYS["PS256"], kid="PS256")

    refused(await rp.push(proven=wrong), "invalid_client", 401)
    refused(await rp.redeem(await rp.code(ann), proven=rp.assertion(alg="RS256", key=KEYS["PS256"], kid="PS256")), "invalid_client", 401)


@of(method="private_key_jwt")
async def test_ensure_client_assertion_in_token_endpoint(rp, ann):
    refused(await rp.redeem(await rp.code(ann), proven={"client_id": rp.client_id}), "invalid_client", 401)


@pytest.mark.parametrize(
    "module",
    [
        "ensure_client_assertion_with_exp_is_5_minutes_in_past_fails",
        "ensure_client_assertion_with_wrong_aud_fails",
        "ensure_client_assertion_with_no_sub_fails",
        "par_ensure_jwt_client_assertion_with_iat_nbf_over_60_seconds_in_the_future_fails",
        "par_endpoint_as_array_audience_fails",
        "par_endpoint_as_audience_fails",
        "par_token_endpoint_as_audience_fails",
        "the issuer in an array",
    ],
)
@of(method="private_key_jwt")
async def test_a_client_assertion_that_is_refused(rp, ann, module):
    now, url = rp.now, rp.desk.url
    changes: dict[str, Any] = {
        "ensure_client_assertion_with_exp_is_5_minutes_in_past_fails": {"exp": now - 300},
        "ensure_client_assertion_with_wrong_aud_fails": {"aud": "https://other.example"},
        "ensure_client_assertion_with_no_sub_fails": {"sub": None},
        "par_ensure_jwt_client_assertion_with_iat_nbf_over_60_seconds_in_the_future_fails": {
            "iat": now + 65,
            "nbf": now + 65,
            "exp": now + 90,
        },
        "par_endpoint_as_array_audience_fails": {"aud": [url, f"{url}/token", f"{url}/par"]},
        "par_endpoint_as_audience_fails": {"aud": f"{url}/par"},
        "par_token_endpoint_as_audience_fails": {"aud": f"{url}/token"},
        "the issuer in an array": {"aud": [url]},
    }[module]

    refused(await rp.push(proven=rp.assertion(**changes)), "invalid_client", 401)
    refused(await rp.redeem(await rp.code(ann), proven=rp.assertion(**changes)), "invalid_client", 401)


@of(method="private_key_jwt")
async def test_par_ensure_jwt_client_assertion_with_iat_nbf_8_seconds_in_the_future_is_accepted(rp):
    assert (await rp.push(proven=rp.assertion(iat=rp.now + 8, nbf=rp.now + 8))).status == 201


# ---- PAR


async def test_par_ensure_server_accepts_reused_request_uri_before_authentication_completion(rp, ann):
    uri = (await rp.push(prompt="consent")).json["request_uri"]
    for cookie in ("", "", ann):
        assert "/api/auth/" in (await rp.begin(uri, cookie)).location or "/ui/" in (await rp.begin(uri, cookie)).location

    assert "code" in await rp.answered(await rp.decided(await rp.begin(uri, ann), ann))


async def test_par_attempt_reuse_request_uri(rp, ann):
    uri = (await rp.push()).json["request_uri"]
    assert "code" in await rp.answered(await rp.decided(await rp.begin(uri, ann), ann))

    assert error_of(await rp.begin(uri, ann)) == "shown"


async def test_par_attempt_to_use_expired_request_uri(rp, ann):
    pushed = (await rp.push()).json
    assert 0 < pushed["expires_in"] < 600
    rp.desk.clock.advance(pushed["expires_in"] + 1)

    assert error_of(await rp.begin(pushed["request_uri"], ann)) == "shown"


async def test_par_ensure_request_uri_is_bound_to_client(rp, other, ann):
    uri = (await rp.push()).json["request_uri"]

    assert error_of(await other.begin(uri, ann)) == "shown"


async def test_par_authorization_request_containing_request_uri_form_param(rp):
    uri = (await rp.push()).json["request_uri"]

    refused(await rp.post("/par", {**rp.request(rp.asked()), "request_uri": uri}))


async def test_par_reject_invalid_http_verb(rp):
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        assert (await rp.desk.ask(method, "/par")).status == 405


async def test_par_ensure_pkce_required(rp):
    refused(await rp.push(code_challenge=None, code_challenge_method=None))


async def test_par_ensure_pkce_code_verifier_required(rp, ann):
    refused(await rp.redeem(await rp.code(ann), code_verifier=None), "invalid_grant")


async def test_par_incorrect_pkce_code_verifier_rejected(rp, ann):
    refused(await rp.redeem(await rp.code(ann), code_verifier=VERIFIER[::-1]), "invalid_grant")


async def test_par_ensure_plain_pkce_rejected(rp):
    refused(await rp.push(code_challenge=VERIFIER, code_challenge_method="plain"))


async def test_par_without_duplicate_parameters(rp, ann):
    """Nothing but client_id and request_uri is sent to /authorize."""
    uri = (await rp.push()).json["request_uri"]

    answer = await rp.answered(await rp.decided(await rp.begin(uri, ann), ann))

    assert answer["state"] == "state-1"


# ---- Request objects, of a client with the profile


@pytest.mark.parametrize(
    "module",
    [
        "ensure_request_object_without_exp_fails",
        "ensure_request_object_without_nbf_fails",
        "ensure_expired_request_object_fails",
        "ensure_request_object_with_bad_aud_fails",
        "ensure_request_object_with_exp_over_60_fails",
        "ensure_request_object_with_nbf_over_60_fails",
        "ensure_signed_request_object_with_rs256_fails",
        "ensure_matching_key_in_authorization_request",
        "par_authorization_request_containing_request_uri",
    ],
)
@of(signing=True)
async def test_a_request_object_that_is_refused(rp, module):
    now = rp.now
    changes: dict[str, Any] = {
        "ensure_request_object_without_exp_fails": {"exp": None},
        "ensure_request_object_without_nbf_fails": {"nbf": None},
        "ensure_expired_request_object_fails": {"nbf": now - 600, "exp": now - 300},
        "ensure_request_object_with_bad_aud_fails": {"aud": "https://other.example"},
        "ensure_request_object_with_exp_over_60_fails": {"exp": now + 4200},
        "ensure_request_object_with_nbf_over_60_fails": {"nbf": now - 4200},
        "ensure_signed_request_object_with_rs256_fails": {"alg": "RS256", "key": KEYS["PS256"]},
        "ensure_matching_key_in_authorization_request": {"alg": "ES256", "key": ec.generate_private_key(ec.SECP256R1())},
        "par_authorization_request_containing_request_uri": {"request_uri": "urn:ietf:params:oauth:request_uri:x"},
    }[module]

    refused(await rp.post("/par", rp.request(rp.asked(), **changes)), "invalid_request_object")


@of(signing=True)
async def test_ensure_request_object_with_multiple_aud_and_nbf_8_seconds_in_the_future_is_accepted(rp):
    for changes in ({"aud": [rp.desk.url, "https://other.example"]}, {"nbf": rp.now + 8}):
        assert (await rp.post("/par", rp.request(rp.asked(), **changes))).status == 201


@of(signing=True)
async def test_ensure_unsigned_request_at_par_endpoint_fails(rp):
    refused(await rp.post("/par", rp.asked()))


# ---- Registration


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"token_endpoint_auth_method": "none"}, "token_endpoint_auth_method: the profile fapi2 needs one of private_key_jwt"),
        ({"token_endpoint_auth_method": "client_secret_basic", "client_secret": "s" * 43}, "token_endpoint_auth_method"),
        ({"token_endpoint_auth_method": "client_secret_jwt", "client_secret": "s" * 43, "jwks": None}, "token_endpoint_auth_method"),
        ({"require_pushed_authorization_requests": False}, "require_pushed_authorization_requests: the profile fapi2 needs true"),
        ({"require_pkce": False}, "require_pkce"),
        ({"strict_assertion_audience": False}, "strict_assertion_audience"),
        ({"rotate_refresh_tokens": True}, "rotate_refresh_tokens: the profile fapi2 needs false"),
        ({"token_endpoint_auth_signing_alg": "RS256"}, "token_endpoint_auth_signing_alg: the profile fapi2 needs one of PS256"),
        ({"request_object_signing_alg": "ES384"}, "request_object_signing_alg"),
        ({"id_token_signed_response_alg": "RS256"}, "id_token_signed_response_alg: the profile fapi2 needs ES256"),
        ({"userinfo_signed_response_alg": "RS256"}, "userinfo_signed_response_alg"),
        ({"access_token_signed_response_alg": "RS256"}, "access_token_signed_response_alg"),
        ({"introspection_signed_response_alg": "RS256"}, "introspection_signed_response_alg"),
        ({"authorization_signed_response_alg": "RS256"}, "authorization_signed_response_alg"),
        ({"allowed_signing_algs": ["RS256"]}, "allowed_signing_algs: the profile fapi2 needs some of PS256"),
        ({"allowed_signing_algs": ["xyz"]}, "allowed_signing_algs: expected some of"),
        (
            {"jwks": {"keys": [jwk_of(ec.generate_private_key(ec.SECP384R1()).public_key())]}},
            "jwks: the profile fapi2 needs a key for PS256",
        ),
        ({"jwks": {"keys": [jwk_of(ed448.Ed448PrivateKey.generate().public_key())]}}, "jwks: the profile"),
        ({"jwks": {"keys": [{**jwk_of(KEYS["PS256"].public_key()), "alg": "RS256"}]}}, "jwks: the profile"),
        ({"profile": "fapi3"}, "profile"),
        ({"profile": "fapi2_message_signing", "token_endpoint_auth_method": "tls_client_auth", "jwks": None}, "jwks: the profile"),
    ],
)
async def test_a_registration_that_is_refused_by_name_and_rule(desk, changes, rule):
    whole = registration(VARIANTS[0], **changes)
    if "tls" in whole["token_endpoint_auth_method"]:
        whole["tls_client_certificate"] = OTHER.pem

    answer = await desk.ask("POST", "/api/admin/clients", cookie=desk.admin, json={k: v for k, v in whole.items() if v is not None})

    refused(answer, "invalid_client_metadata")
    assert answer.json["error_description"].startswith(rule), answer.text


async def test_a_profile_that_is_taken_back_leaves_nothing(desk):
    rp = await FapiClient.registered(desk, VARIANTS[0], id_token_signed_response_alg="ES256")
    shown = (await desk.ask("GET", f"/api/admin/clients/{rp.client_id}", cookie=desk.admin)).json
    assert (shown["require_pushed_authorization_requests"], shown["rotate_refresh_tokens"]) == (True, False)

    assert (await desk.put(rp.client, profile="default")).status == 200

    shown = (await desk.ask("GET", f"/api/admin/clients/{rp.client_id}", cookie=desk.admin)).json
    assert shown["profile"] == "default"
    assert shown["require_pushed_authorization_requests"] is shown["allowed_signing_algs"] is shown["require_pkce"] is None
    assert shown["dpop_bound_access_tokens"] is False
    assert shown["id_token_signed_response_alg"] == "ES256"


async def test_a_narrower_list_of_algorithms_stays_narrower(desk):
    rp = await FapiClient.registered(desk, VARIANTS[0], allowed_signing_algs=["ES256", "RS256"])

    assert (await rp.push(proven=rp.assertion(alg="ES256"))).status == 201
    for alg in ("PS256", "EdDSA"):
        refused(await rp.push(proven=rp.assertion(alg=alg)), "invalid_client", 401)
