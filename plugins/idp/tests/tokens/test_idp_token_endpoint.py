"""POST /token before any grant: what it reads and in which order it refuses."""

from typing import Any

import pytest


async def test_get_is_not_allowed(desk: Any) -> None:
    answer = await desk.get("/token")

    assert (answer.status, answer.error) == (405, "method_not_allowed")


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({}, "invalid_request"),
        ({"grant_type": ""}, "invalid_request"),
        ({"grant_type": "password", "username": "a", "password": "b"}, "unsupported_grant_type"),
        ({"grant_type": "refresh_token"}, "invalid_request"),
        ({"grant_type": "authorization_code", "code": "x"}, "invalid_request"),
        ({"grant_type": "authorization_code", "redirect_uri": "x"}, "invalid_request"),
        ([("grant_type", "client_credentials"), ("grant_type", "client_credentials")], "invalid_request"),
        ([("grant_type", "client_credentials"), ("scope", "api"), ("scope", "api")], "invalid_request"),
        ([("grant_type", "client_credentials"), ("unknown", "a"), ("unknown", "b")], "invalid_request"),
        ([("grant_type", "client_credentials"), ("client_id", "a"), ("client_id", "b")], "invalid_request"),
    ],
)
async def test_s008_b14_what_is_no_token_request(desk: Any, client: Any, form: Any, error: str) -> None:
    answer = await desk.form("/token", client, form)

    assert (answer.status, answer.error) == (400, error)


async def test_a_repeated_parameter_is_refused_and_its_name_not_repeated(desk: Any, client: Any) -> None:
    answer = await desk.form("/token", client, [("grant_type", "client_credentials"), ("evil", "a"), ("evil", "b")])

    assert answer.json["error_description"] == "a parameter was given twice (RFC 6749 s3.2)"


async def test_b25_resource_and_audience_may_repeat(desk: Any, client: Any) -> None:
    form = [("grant_type", "client_credentials"), ("scope", "api"), ("resource", "https://a"), ("resource", "https://b")]

    answer = await desk.form("/token", client, form)

    assert answer.status == 200
    # Resource indicators are not offered: a parameter that nobody knows never widens what a token is for.
    assert desk.read(answer.json["access_token"]).claims["aud"] == desk.service.url


async def test_a_grant_that_the_client_is_not_registered_for(desk: Any) -> None:
    client = await desk.client(grant_types=("authorization_code",))

    answer = await desk.own_token(client, scope="api")

    assert (answer.status, answer.error) == (400, "unauthorized_client")


async def test_the_client_is_proven_before_the_grant_is_looked_at(desk: Any, client: Any) -> None:
    desk._secrets[client.client_id] = "wrong"

    answer = await desk.form("/token", client, {"grant_type": "password"})

    assert (answer.status, answer.error) == (401, "invalid_client")
    assert answer.headers["WWW-Authenticate"].startswith("Basic ")


async def test_b16_scripts_of_any_origin_may_call_and_read_refusals(desk: Any, client: Any) -> None:
    origin = {"Origin": "https://spa.example"}

    preflight = await desk.ask("OPTIONS", "/token", headers={**origin, "Access-Control-Request-Method": "POST"})
    good = await desk.form("/token", client, {"grant_type": "client_credentials"}, origin)
    bad = await desk.form("/token", client, {"grant_type": "password"}, origin)
    plain = await desk.own_token(client)

    assert preflight.status == 204
    assert "POST" in preflight.headers["Access-Control-Allow-Methods"]
    for answer in (preflight, good, bad):
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in answer.headers
    assert (good.status, bad.status) == (200, 400)
    assert "Access-Control-Allow-Origin" not in plain.headers
