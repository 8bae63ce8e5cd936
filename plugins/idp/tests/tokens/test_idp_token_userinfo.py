"""Userinfo, the Bearer scheme, and the claims of ID tokens."""

from hashlib import sha256
from typing import Any

import pytest

from greatseal.jose.compact import b64url_encode


def challenged(answer: Any) -> Any:
    return answer.headers["WWW-Authenticate"]


async def test_idp_193_the_claims_of_the_scopes(desk: Any, client: Any) -> None:
    token = (await desk.tokens(client, scopes=("openid", "profile", "email", "groups")))["access_token"]

    answer = await desk.userinfo(token)

    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.json == {
        "sub": "alice@LOCALHOST",
        "name": "Alice",
        "updated_at": 7,
        "email": "alice@example.com",
        "email_verified": True,
        "groups": ["staff"],
    }


async def test_idp_193_idp_347_three_ways_to_present_the_token(desk: Any, client: Any) -> None:
    token = (await desk.tokens(client))["access_token"]
    header = {"Authorization": f"Bearer {token}"}

    answers = [
        await desk.get("/userinfo", headers=header),
        await desk.post("/userinfo", headers=header),
        await desk.post("/userinfo", data={"access_token": token}),
        await desk.get("/userinfo", headers={"authorization": f"bEARER {token}"}),
    ]

    assert [answer.status for answer in answers] == [200] * 4
    assert {answer.json["sub"] for answer in answers} == {"alice@LOCALHOST"}


async def test_r75_no_token_is_a_bare_challenge(desk: Any) -> None:
    for method in ("GET", "POST"):
        answer = await desk.ask(method, "/userinfo")
        assert (answer.status, answer.error) == (401, "unauthenticated")
        assert challenged(answer) == "Bearer"


@pytest.mark.parametrize("token", ["x", "a.b.c", "", "at_n1_" + "A" * 100])
async def test_r75_a_bad_token(desk: Any, token: str) -> None:
    answer = await desk.userinfo(token)

    assert (answer.status, answer.error) == (401, "invalid_token")
    assert challenged(answer).startswith('Bearer error="invalid_token"')


async def test_r75_a_token_without_the_scope(desk: Any, client: Any) -> None:
    answer = await desk.userinfo((await desk.own_token(client)).json["access_token"])

    assert (answer.status, answer.error) == (403, "insufficient_scope")
    assert 'scope="openid"' in challenged(answer)


async def test_two_tokens_at_once_are_invalid_request(desk: Any, client: Any) -> None:
    token = (await desk.tokens(client))["access_token"]

    answer = await desk.post("/userinfo", data={"access_token": token}, headers={"Authorization": f"Bearer {token}"})

    assert (answer.status, answer.error) == (400, "invalid_request")


async def test_a_body_of_a_get_is_not_read(desk: Any, client: Any) -> None:
    token = (await desk.tokens(client))["access_token"]

    assert (await desk.get("/userinfo", data={"access_token": token})).status == 401


async def test_b16_scripts_of_any_origin_may_ask(desk: Any, client: Any) -> None:
    origin = {"Origin": "https://spa.example"}
    token = (await desk.tokens(client))["access_token"]

    good = await desk.get("/userinfo", headers={**origin, "Authorization": f"Bearer {token}"})
    preflight = await desk.ask("OPTIONS", "/userinfo", headers=origin)
    bad = await desk.get("/userinfo", headers={**origin, "Authorization": "Bearer x"})

    assert (bad.status, bad.headers["Access-Control-Allow-Origin"]) == (401, "*")
    assert "WWW-Authenticate" in bad.headers["Access-Control-Expose-Headers"]
    assert good.headers["Access-Control-Allow-Origin"] == preflight.headers["Access-Control-Allow-Origin"] == "*"
    assert "Authorization" in preflight.headers["Access-Control-Allow-Headers"]


async def test_a_signed_userinfo(desk: Any) -> None:
    client = await desk.client(more={"userinfo_signed_response_alg": "RS256"})
    token = (await desk.tokens(client))["access_token"]

    answer = await desk.userinfo(token)

    assert answer.headers["Content-Type"] == "application/jwt"
    read = desk.read(answer.text)
    assert read.header["alg"] == "RS256"
    assert read.claims == {
        "iss": desk.service.url, "aud": client.client_id, "sub": "alice@LOCALHOST", "email": "alice@example.com", "email_verified": True,
    }  # fmt: skip


async def test_core_2_the_claims_of_an_id_token(desk: Any, client: Any) -> None:
    await desk.session("s1")
    tokens = await desk.tokens(client, scopes=("openid",), nonce='n "x"', acr="gold", session_id="s1")

    read = desk.read(tokens["id_token"])

    now = desk.clock.now() // 1_000_000
    assert read.header["typ"] == "JWT"
    assert read.claims == {
        "iss": desk.service.url, "sub": "alice@LOCALHOST", "aud": client.client_id, "iat": now, "exp": now + 900, "auth_time": now,
        "amr": ["pwd"], "acr": "gold", "sid": "s1", "nonce": 'n "x"', "origin": desk.read(tokens["access_token"]).claims["origin"],
        "at_hash": b64url_encode(sha256(tokens["access_token"].encode()).digest()[:16]),
    }  # fmt: skip


async def test_scope_claims_in_the_id_token_are_the_clients_choice(desk: Any, client: Any) -> None:
    lean = await desk.client(more={"id_token_include_scope_claims": False})

    assert desk.read((await desk.tokens(client))["id_token"]).claims["email"] == "alice@example.com"
    assert "email" not in desk.read((await desk.tokens(lean))["id_token"]).claims


async def test_core_5_5_the_claims_parameter(desk: Any, client: Any) -> None:
    asked = {"id_token": {"name": {"essential": True}, "exp": None, "sid": None}, "userinfo": {"email": None, "address": None}}
    tokens = await desk.tokens(client, scopes=("openid", "offline_access"), implied=("profile", "email"), claims=asked)
    later = (await desk.refresh(client, tokens["refresh_token"])).json

    for given in (tokens, later):
        claims = desk.read(given["id_token"]).claims
        assert (claims["name"], "email" in claims) == ("Alice", False)
        assert claims["exp"] > claims["iat"] > 1
        assert (await desk.userinfo(given["access_token"])).json == {"sub": "alice@LOCALHOST", "email": "alice@example.com"}


async def test_the_claims_parameter_gives_nothing_beyond_the_clients_scopes(desk: Any) -> None:
    client = await desk.client(scopes=("openid", "offline_access"))
    asked = {"id_token": {"email": None}, "userinfo": {"email": None, "sub": None}}

    tokens = await desk.tokens(client, scopes=("openid",), implied=("email",), claims=asked)

    assert "email" not in desk.read(tokens["id_token"]).claims
    assert (await desk.userinfo(tokens["access_token"])).json == {"sub": "alice@LOCALHOST"}


async def test_the_claims_parameter_gives_nothing_that_was_not_allowed(desk: Any, client: Any) -> None:
    asked = {"id_token": {"email": None, "name": None}, "userinfo": {"email": None, "groups": None, "name": None}}

    tokens = await desk.tokens(client, scopes=("openid",), implied=("email",), claims=asked)

    read = desk.read(tokens["id_token"]).claims
    assert (read["email"], "name" in read) == ("alice@example.com", False)
    assert (await desk.userinfo(tokens["access_token"])).json == {"sub": "alice@LOCALHOST", "email": "alice@example.com"}


async def test_s012_a_claim_by_name_ends_with_the_scope_of_the_client(desk: Any, client: Any) -> None:
    asked = {"id_token": {"email": None}, "userinfo": {"email": None, "name": None}}
    tokens = await desk.tokens(client, scopes=("openid",), implied=("email", "profile"), claims=asked)
    code = await desk.code(client, scopes=("openid",), implied=("email", "profile"), claims=asked)
    await desk.provider.clients.update(client.client_id, {"scopes": ["openid", "profile"]}, by="test")

    later = (await desk.redeem(client, code)).json

    assert "email" not in desk.read(later["id_token"]).claims
    for one in (tokens, later):
        assert (await desk.userinfo(one["access_token"])).json == {"sub": "alice@LOCALHOST", "name": "Alice"}


async def test_a_grant_check_that_refuses_a_scope_keeps_its_claims_back(desk: Any, client: Any) -> None:
    asked = {"userinfo": {"email": None, "name": None}}
    desk.people.withheld = frozenset({"email"})

    tokens = await desk.tokens(client, scopes=("openid",), implied=("email", "profile"), claims=asked)

    assert (await desk.userinfo(tokens["access_token"])).json == {"sub": "alice@LOCALHOST", "name": "Alice"}
    desk.people.withheld = frozenset({"openid"})
    refused = await desk.redeem(client, await desk.code(client, scopes=("openid",), implied=("profile",), claims=asked))
    assert (refused.status, refused.error) == (403, "access_denied")


async def test_groups_are_in_the_access_token_with_their_scope(desk: Any, client: Any) -> None:
    with_groups = (await desk.tokens(client, scopes=("openid", "groups")))["access_token"]
    without = (await desk.tokens(client, scopes=("openid", "email")))["access_token"]

    assert desk.read(with_groups).claims["groups"] == ["staff"]
    assert "groups" not in desk.read(without).claims


async def test_a_custom_scope_cannot_claim_what_belongs_to_the_token(desk: Any) -> None:
    await desk.provider.scopes.put("odd", "", ["exp", "sub", "name"], by="test")
    client = await desk.client(scopes=("openid", "odd"))

    claims = desk.read((await desk.tokens(client, scopes=("openid", "odd")))["id_token"]).claims

    assert claims["name"] == "Alice"
    assert (claims["exp"] - claims["iat"], claims["sub"]) == (900, "alice@LOCALHOST")


async def changed(desk: Any, client: Any, **claims: Any) -> Any:
    """What /userinfo says to an access token of ours with other claims; None leaves one out."""
    whole = {**desk.read((await desk.tokens(client))["access_token"]).claims, **claims}
    token = await desk.provider.signing.jwt("at+jwt", {name: value for name, value in whole.items() if value is not None})
    return await desk.userinfo(token)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("iss", ("https://other.example", None)),
        ("exp", (1,)),
        ("aud", ("https://api.example", "client", [], ["https://api.example/"], None, 7)),
        ("cnf", ({"jkt": "x"},)),
    ],
)
async def test_b25_s037_s045_s046_claims_that_are_refused(desk: Any, client: Any, name: str, values: Any) -> None:
    for value in values:
        answer = await changed(desk, client, **{name: value})
        assert (answer.status, answer.error) == (401, "invalid_token"), value


async def test_s037_several_audiences(desk: Any, client: Any) -> None:
    assert (await changed(desk, client, aud=["https://api.example", desk.service.url])).status == 200
    assert (await changed(desk, client, aud=f"{desk.service.url}/")).status == 401
