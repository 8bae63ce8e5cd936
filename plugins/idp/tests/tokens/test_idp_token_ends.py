"""What ends tokens before their time: their client is deleted, their person may not sign in any more or has a new password."""

from typing import Any

import pytest

from greatseal.api.directory import AccountState

MICROSECOND = 0.000_001


def refused(answer: Any) -> bool:
    return (answer.status, answer.error) == (400, "invalid_grant")


@pytest.mark.parametrize("format", ["jwt", "opaque"])
async def test_s028_nothing_that_a_deleted_client_got_is_live(desk: Any, format: str) -> None:
    client = await desk.client(more={"access_token_format": format})
    server = await desk.client(scopes=("introspect",), redirect_uris=(), grant_types=("client_credentials",))
    tokens, code = await desk.tokens(client), await desk.code(client)
    held = [
        (await desk.own_token(client, scope="api")).json["access_token"],
        tokens["access_token"],
        (await desk.tokens(client, scopes=("openid", "email")))["access_token"],
    ]
    assert [await desk.is_live(server, token) for token in held] == [True] * 3

    await desk.provider.clients.delete(client.client_id, by="test")

    assert [await desk.is_live(server, token) for token in held] == [False] * 3
    assert (await desk.userinfo(held[2])).status == 401
    for answer in (await desk.refresh(client, tokens["refresh_token"]), await desk.redeem(client, code)):
        assert (answer.status, answer.error) == (401, "invalid_client")
    assert [family.revoked_at is None for family in await desk.families()] == [False]


@pytest.mark.parametrize("state", ["disabled", "locked", "expired"])
async def test_the_claims_of_somebody_who_may_not_sign_in_are_not_told(desk: Any, client: Any, state: str) -> None:
    token = (await desk.tokens(client))["access_token"]
    desk.people.change("alice", state=AccountState(**{state: True}))

    answer = await desk.userinfo(token)

    assert (answer.status, answer.error) == (401, "invalid_token")
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
    desk.people.change("alice", state=AccountState())
    assert (await desk.userinfo(token)).status == 200


async def test_the_claims_of_somebody_who_is_gone_are_not_told(desk: Any, client: Any) -> None:
    token = (await desk.tokens(client))["access_token"]
    del desk.people.users["alice"]

    assert (await desk.userinfo(token)).status == 401


async def test_s064_a_new_password_ends_codes_families_and_claims_of_before(desk: Any, client: Any) -> None:
    tokens, code = await desk.tokens(client), await desk.code(client)
    desk.clock.advance(1)

    desk.people.change("alice", password_changed_at=desk.clock.now())

    assert refused(await desk.redeem(client, code))
    assert refused(await desk.refresh(client, tokens["refresh_token"]))
    answer = await desk.userinfo(tokens["access_token"])
    assert (answer.status, answer.error) == (401, "invalid_token")


@pytest.mark.parametrize("later", [0.0, MICROSECOND])
async def test_what_was_begun_with_the_new_password_goes_on_within_the_same_second(desk: Any, client: Any, later: float) -> None:
    desk.clock.advance(0.5)
    before = await desk.code(client)
    desk.clock.advance(MICROSECOND)
    desk.people.change("alice", password_changed_at=desk.clock.now())
    desk.clock.advance(later)

    tokens = await desk.tokens(client)

    assert (await desk.refresh(client, tokens["refresh_token"])).status == 200
    assert (await desk.userinfo(tokens["access_token"])).status == 200
    assert refused(await desk.redeem(client, before))


async def test_a_token_of_a_program_knows_no_password(desk: Any, client: Any) -> None:
    token = (await desk.own_token(client, scope="api")).json["access_token"]
    desk.clock.advance(1)
    desk.people.change("alice", password_changed_at=desk.clock.now())

    assert await desk.is_live(client, token)
    assert (await desk.own_token(client, scope="api")).status == 200
