"""What ends access tokens before their time: their client is deleted, their person may not sign in any more."""

from typing import Any

import pytest

from greatseal.api.directory import AccountState


@pytest.mark.parametrize("format", ["jwt", "opaque"])
async def test_nothing_that_a_deleted_client_got_is_live(desk: Any, format: str) -> None:
    client = await desk.client(more={"access_token_format": format})
    server = await desk.client(scopes=("introspect",), redirect_uris=(), grant_types=("client_credentials",))
    held = [
        (await desk.own_token(client, scope="api")).json["access_token"],
        (await desk.tokens(client))["access_token"],
        (await desk.tokens(client, scopes=("openid", "email")))["access_token"],
    ]
    assert [await desk.is_live(server, token) for token in held] == [True] * 3

    await desk.provider.clients.delete(client.client_id, by="test")

    assert [await desk.is_live(server, token) for token in held] == [False] * 3
    assert (await desk.userinfo(held[2])).status == 401


@pytest.mark.parametrize("state", ["disabled", "locked", "expired"])
async def test_the_claims_of_somebody_who_may_not_sign_in_are_not_told(desk: Any, client: Any, state: str) -> None:
    token = (await desk.tokens(client))["access_token"]
    desk.people.states["alice"] = AccountState(**{state: True})

    answer = await desk.userinfo(token)

    assert (answer.status, answer.error) == (401, "invalid_token")
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
    desk.people.states["alice"] = AccountState()
    assert (await desk.userinfo(token)).status == 200


async def test_the_claims_of_somebody_who_is_gone_are_not_told(desk: Any, client: Any) -> None:
    token = (await desk.tokens(client))["access_token"]
    del desk.people.states["alice"]

    assert (await desk.userinfo(token)).status == 401
