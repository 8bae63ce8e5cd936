"""client_credentials: a client acts for itself."""

from typing import Any

import pytest


async def test_idp_345_a_client_gets_a_token_for_itself(desk: Any, client: Any) -> None:
    answer = await desk.own_token(client, scope="api")

    assert answer.status == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Pragma"] == "no-cache"
    assert answer.json.keys() == {"access_token", "token_type", "expires_in", "scope"}
    assert {"token_type": "Bearer", "expires_in": 900, "scope": "api"}.items() <= answer.json.items()


async def test_b23_its_subject_is_the_client_and_no_sign_in_is_told_of(desk: Any, client: Any) -> None:
    token = (await desk.own_token(client, scope="openid api")).json["access_token"]
    read = desk.read(token)

    assert read.header["typ"] == "at+jwt"
    claims = read.claims
    assert claims["sub"] == claims["client_id"] == client.client_id
    assert claims["iss"] == claims["aud"] == desk.service.url
    assert claims["exp"] - claims["iat"] == 900
    assert claims["jti"].startswith("n1/")
    assert claims.keys() == {"iss", "sub", "aud", "client_id", "iat", "exp", "jti", "scope"}
    assert "username" not in await desk.introspect(client, token)
    assert "@" in desk.read((await desk.tokens(client))["access_token"]).claims["sub"], "no id of a client is the subject of a person"


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (None, "groups api"),
        ("api", "api"),
        ("api unknown openid offline_access", "api"),
        ("api api  api", "api"),
        ("profile api", "profile api"),
    ],
)
async def test_scopes_are_cut_to_those_of_the_client(desk: Any, client: Any, asked: str | None, given: str) -> None:
    answer = await desk.own_token(client, **({} if asked is None else {"scope": asked}))

    assert answer.json["scope"] == given


@pytest.mark.parametrize("asked", ["openid", "openid offline_access", "unknown", "api\tgroups", " ", "x " * 10_000])
async def test_s011_no_scope_left_is_invalid_scope(desk: Any, client: Any, asked: str) -> None:
    answer = await desk.own_token(client, scope=asked)

    assert (answer.status, answer.error) == (400, "invalid_scope")


async def test_a_scope_that_is_not_defined_is_given_to_nobody(desk: Any) -> None:
    client = await desk.client(scopes=("api", "introspect"))

    assert (await desk.own_token(client)).json["scope"] == "api"
    ghost = await desk.own_token(client, scope="ghost")
    await desk.provider.scopes.delete("api", by="test")
    deleted = await desk.own_token(client, scope="api")

    for answer in (ghost, deleted):
        assert (answer.status, answer.error) == (400, "invalid_scope")


async def test_a_public_client_has_nothing_to_act_with(desk: Any) -> None:
    public = await desk.client(method="none")

    answer = await desk.own_token(public, scope="api")

    assert (answer.status, answer.error) == (400, "unauthorized_client")


async def test_grant_checks_may_take_scopes_away(desk: Any, client: Any) -> None:
    desk.people.withheld = frozenset({"api"})

    assert (await desk.own_token(client, scope="api groups")).json["scope"] == "groups"
    refused = await desk.own_token(client, scope="api")
    assert (refused.status, refused.error) == (403, "access_denied")
    assert {one.phase for one in desk.people.questions} == {"client"}
    assert desk.people.asked == 0


async def test_nothing_is_written_and_nothing_read(desk: Any, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.own_token(client, scope="api")
    database = desk.service.kernel.store.opened
    used: list[str] = []
    for name in ("_read", "_write"):
        monkeypatch.setattr(database, name, lambda *_, name=name: used.append(name))
    monkeypatch.setattr(desk.service.kernel.blocking, "run", lambda *_: used.append("thread"))

    answer = await desk.own_token(client, scope="api")

    assert answer.status == 200
    assert used == []


async def test_an_opaque_token_says_nothing_and_works_alike(desk: Any) -> None:
    client = await desk.client(more={"access_token_format": "opaque"})

    tokens = await desk.tokens(client)

    token = tokens["access_token"]
    assert token.startswith("at_n1_")
    assert "." not in token
    assert (await desk.introspect(client, token))["sub"] == "alice@LOCALHOST"
    assert (await desk.userinfo(token)).json["email"] == "alice@example.com"
    assert "access_token" not in repr(await desk.families())
    changed = token[:-2] + ("AA" if not token.endswith("AA") else "BB")
    assert not await desk.is_live(client, changed)


@pytest.mark.parametrize("alg", ["ES256", "RS256"])
async def test_a_client_chooses_the_algorithms(desk: Any, alg: str) -> None:
    client = await desk.client(more={"access_token_signed_response_alg": alg, "id_token_signed_response_alg": alg})

    tokens = await desk.tokens(client)

    assert desk.read(tokens["access_token"]).header["alg"] == alg
    assert desk.read(tokens["id_token"]).header == {"alg": alg, "typ": "JWT", "kid": desk.read(tokens["access_token"]).header["kid"]}
