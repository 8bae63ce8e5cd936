"""The modules of the public FAPI-CIBA plan that ask for no signed request and no certificate, one test each, named after it."""

import pytest
from security.idp_ciba import DENIED, ENDPOINT, EXPIRED, GRANT, INVALID, MINE, PENDING, SLOW, caller_of, notified, open_callers


@pytest.fixture
async def ciba(tmp_path):
    async with open_callers(tmp_path, oauth={"allow_private_notification_hosts": True}) as (desk, caller, ann):
        yield desk, caller, ann


async def test_fapi_ciba_id1_discovery_end_point_verification(ciba):
    desk, _, _ = ciba
    found = (await desk.get("/.well-known/openid-configuration")).json

    assert found["backchannel_authentication_endpoint"] == f"{found['issuer']}{ENDPOINT}"
    assert set(found["backchannel_token_delivery_modes_supported"]) <= {"poll", "ping", "push"}
    assert GRANT in found["grant_types_supported"]
    assert found["backchannel_user_code_parameter_supported"] is False


@pytest.mark.parametrize("mode", ["poll", "ping"])
async def test_fapi_ciba_id1(ciba, mode):
    desk, _, ann = ciba
    async with notified() as endpoint:
        caller = await caller_of(
            desk, backchannel_token_delivery_mode=mode, backchannel_client_notification_endpoint=endpoint.url if mode == "ping" else None
        )
        handle = await caller.begin()
        assert (await caller.poll()).outcome == PENDING
        await caller.decide(ann)
        if mode == "ping":
            await endpoint.came.wait()
            assert endpoint.pings == [(f"Bearer {MINE}", {"auth_req_id": handle})]
        tokens = (await caller.poll()).json

    claims = desk.provider.signing.identity(tokens["id_token"])
    assert claims["aud"] == caller.client["client_id"]
    assert tokens["token_type"] == "Bearer"
    assert (await caller.poll()).outcome == INVALID, "an auth_req_id is used once"


async def test_fapi_ciba_id1_user_rejects_authentication(ciba):
    _, caller, ann = ciba
    await caller.begin()
    await caller.decide(ann, "deny")

    assert (await caller.poll()).outcome == DENIED


async def test_fapi_ciba_id1_auth_req_id_expired(ciba):
    desk, caller, _ = ciba
    await caller.begin(requested_expiry="30")
    desk.clock.advance(31)

    assert (await caller.poll()).outcome == EXPIRED


async def test_fapi_ciba_id1_multiple_call_to_token_endpoint(ciba):
    _, caller, _ = ciba
    await caller.begin()

    assert [(await caller.poll()).outcome for _ in range(3)] == [PENDING, SLOW, SLOW]


async def test_fapi_ciba_id1_ensure_authorization_request_with_binding_message_succeeds(ciba):
    _, caller, ann = ciba
    await caller.begin(binding_message="1234")

    assert (await caller.waiting(ann))[0]["binding_message"] == "1234"


async def test_fapi_ciba_id1_ensure_authorization_request_with_potentially_bad_binding_message(ciba):
    _, caller, _ = ciba
    long = "1234 \U0001f44d\U0001f3ff " + "a" * 200

    assert (await caller.ask(binding_message=long)).outcome == (400, "invalid_binding_message")


async def test_fapi_ciba_id1_ensure_authorization_request_with_multiple_hints_fails(ciba):
    _, caller, ann = ciba
    id_token = (await caller.tokens(ann))["id_token"]

    assert (await caller.ask(id_token_hint=id_token)).outcome == (400, "invalid_request")


async def test_fapi_ciba_id1_ensure_other_scope_order_succeeds(ciba):
    _, caller, ann = ciba

    assert (await caller.tokens(ann, scope="profile openid"))["id_token"]


async def test_fapi_ciba_id1_ensure_requested_expiry_as_string_succeeds(ciba):
    _, caller, _ = ciba

    assert (await caller.ask(requested_expiry="180")).json["expires_in"] == 180


async def test_fapi_ciba_id1_ensure_wrong_authentication_request_id_in_token_endpoint_request(ciba):
    _, caller, ann = ciba
    handle = await caller.begin()
    await caller.decide(ann)

    assert (await caller.poll(f"{handle[:-2]}__")).outcome == INVALID


async def test_fapi_ciba_id1_ensure_wrong_client_id_in_token_endpoint_request(ciba):
    desk, caller, ann = ciba
    another = await caller_of(desk)
    await caller.begin()
    await caller.decide(ann)

    assert (await caller.poll(by=another.client)).outcome == INVALID
