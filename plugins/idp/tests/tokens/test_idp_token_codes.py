"""authorization_code: one use, by the right client, with the right verifier."""

import asyncio
from hashlib import sha256
from typing import Any

import pytest

from greatseal.api.directory import AccountState
from greatseal.jose.compact import b64url_encode
from greatseal_idp import tables as t

VERIFIER = "a" * 43
CHALLENGE = b64url_encode(sha256(VERIFIER.encode()).digest())
CALLBACK, OTHER = "https://app.example/cb", "https://app.example/other"


def refused(answer: Any, error: str = "invalid_grant", status: int = 400) -> bool:
    return (answer.status, answer.error) == (status, error)


async def test_idp_188_a_code_gives_access_refresh_and_id_token(desk: Any, client: Any) -> None:
    answer = await desk.redeem(client, await desk.code(client))

    assert answer.status == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.json.keys() == {"access_token", "token_type", "expires_in", "scope", "refresh_token", "id_token"}
    assert answer.json["scope"] == "openid offline_access email"


async def test_no_refresh_token_without_offline_access_or_without_the_grant(desk: Any, client: Any) -> None:
    other = await desk.client(grant_types=("authorization_code",))

    assert "refresh_token" not in await desk.tokens(client, scopes=("openid", "email"))
    assert "refresh_token" not in await desk.tokens(other)
    assert await desk.families() == []


async def test_no_id_token_without_openid(desk: Any, client: Any) -> None:
    assert "id_token" not in await desk.tokens(client, scopes=("api",))


@pytest.mark.parametrize("parallel", [50])
async def test_s022_fifty_redemptions_of_one_code_give_one_token_and_kill_it(both_desks: Any, parallel: int) -> None:
    desk = both_desks
    client = await desk.client()
    code = await desk.code(client)

    answers = await asyncio.gather(*(desk.redeem(client, code) for _ in range(parallel)))

    won = [answer for answer in answers if answer.status == 200]
    assert len(won) == 1
    assert all(refused(answer) for answer in answers if answer is not won[0])
    assert not await desk.is_live(client, won[0].json["access_token"])  # replay was proven: RFC 6749 s4.1.2
    assert refused(await desk.refresh(client, won[0].json["refresh_token"]))
    (family,) = await desk.families()
    assert family.revoked_at is not None
    assert await desk.events("code_replay")


async def test_b18_a_second_use_takes_back_tokens_without_a_family_too(desk: Any, client: Any) -> None:
    code = await desk.code(client, scopes=("openid", "email"))
    tokens = (await desk.redeem(client, code)).json
    assert (await desk.userinfo(tokens["access_token"])).status == 200
    desk.clock.advance(30)

    again = await desk.redeem(client, code)

    assert refused(again)
    assert (await desk.userinfo(tokens["access_token"])).status == 401


async def test_s023_b27_another_client_neither_redeems_nor_burns_a_code(desk: Any, client: Any) -> None:
    others = (await desk.client(), await desk.client(method="none"))
    code = await desk.code(client)

    for other in others:
        assert refused(await desk.redeem(other, code))
    tokens = await desk.redeem(client, code)
    assert tokens.status == 200
    for other in others:
        assert refused(await desk.redeem(other, code))
    assert await desk.is_live(client, tokens.json["access_token"]), "nobody else's replay takes anything back"
    assert await desk.events("code_replay") == []


async def test_s024_a_code_lives_for_sixty_seconds(desk: Any, client: Any) -> None:
    young, old = await desk.code(client), await desk.code(client)
    desk.clock.advance(59)
    assert (await desk.redeem(client, young)).status == 200

    for seconds in (1, 86_400):
        desk.clock.advance(seconds)
        assert refused(await desk.redeem(client, old))


async def test_s025_idp_189_redirect_uri_is_required(desk: Any, client: Any) -> None:
    code = await desk.code(client)

    for given in ((), ("",), (client.redirect_uris[0], OTHER)):
        form = [("grant_type", "authorization_code"), ("code", code), *(("redirect_uri", uri) for uri in given)]
        assert refused(await desk.form("/token", client, form), "invalid_request"), given
    assert (await desk.redeem(client, code)).status == 200, "no refusal used the code up"


async def test_s025_idp_190_another_redirect_uri_is_invalid_grant(desk: Any) -> None:
    client = await desk.client(redirect_uris=(CALLBACK, OTHER))
    code = await desk.code(client)

    variants = (
        f"{CALLBACK}/",
        f"{CALLBACK}?x",
        f"{CALLBACK}#",
        "https://app.example:443/cb",
        "https://APP.example/cb",
        "https://app.example/cB",
    )
    for uri in (OTHER, *variants, "x"):
        assert refused(await desk.redeem(client, code, redirect_uri=uri)), uri
    assert (await desk.redeem(client, code)).status == 200, "no refusal used the code up"


async def test_s026_b5_a_challenge_has_one_verifier(desk: Any) -> None:
    client = await desk.client(method="none")
    code = await desk.code(client, code_challenge=CHALLENGE)

    for verifier in ("b" * 43, "a" * 42, "a" * 129, VERIFIER + "=", "ä" * 43, CHALLENGE, VERIFIER.upper(), ""):
        assert refused(await desk.redeem(client, code, code_verifier=verifier)), verifier
    assert refused(await desk.redeem(client, code))
    assert (await desk.redeem(client, code, code_verifier=VERIFIER)).status == 200


@pytest.mark.parametrize("verifier", ["a" * 42, "a" * 129, "a" * 42 + "/", "a" * 42 + "="])
async def test_s026_a_verifier_of_another_form_answers_no_challenge(desk: Any, verifier: str) -> None:
    client = await desk.client(method="none")
    code = await desk.code(client, code_challenge=b64url_encode(sha256(verifier.encode()).digest()))

    assert refused(await desk.redeem(client, code, code_verifier=verifier))


async def test_s026_b6_a_verifier_without_a_challenge_is_an_attack(desk: Any, client: Any) -> None:
    code = await desk.code(client)

    assert refused(await desk.redeem(client, code, code_verifier=VERIFIER))
    assert (await desk.redeem(client, code)).status == 200


@pytest.mark.parametrize("code", ["x", "ac_n1_", "ac_n1_" + "A" * 43, "ac_zz_" + "A" * 43, "rt_n1_" + "A" * 43, "ac_n1_\0", "ä"])
async def test_s029_texts_that_are_no_code(desk: Any, client: Any, code: str) -> None:
    assert refused(await desk.redeem(client, code))


@pytest.mark.parametrize("state", ["disabled", "locked", "expired", "password_expired"])
async def test_s039_the_account_is_looked_at_again(desk: Any, client: Any, state: str) -> None:
    code = await desk.code(client)
    desk.people.change("alice", state=AccountState(**{state: True}))

    assert refused(await desk.redeem(client, code))
    desk.people.change("alice", state=AccountState())
    assert (await desk.redeem(client, code)).status == 200


async def test_a_user_who_is_gone(desk: Any, client: Any) -> None:
    code = await desk.code(client)
    del desk.people.users["alice"]

    assert refused(await desk.redeem(client, code))


async def test_r76_a_directory_that_is_down_burns_nothing(desk: Any, client: Any) -> None:
    code = await desk.code(client)
    desk.people.down = True

    answer = await desk.redeem(client, code)

    assert refused(answer, "unavailable", 503)
    assert answer.headers["Retry-After"]
    desk.people.down = False
    assert (await desk.redeem(client, code)).status == 200


async def test_s012_scopes_that_the_client_lost_meanwhile(desk: Any, client: Any) -> None:
    code, other = await desk.code(client), await desk.code(client, scopes=("email",))
    await desk.provider.clients.update(client.client_id, {"scopes": ["openid", "api"]}, by="test")

    answer = await desk.redeem(client, code)

    assert answer.json["scope"] == "openid"
    assert "refresh_token" not in answer.json
    assert refused(await desk.redeem(client, other), "invalid_scope")


async def test_grant_checks_are_asked_again(desk: Any, client: Any) -> None:
    desk.people.withheld = frozenset({"email", "offline_access"})
    assert (await desk.redeem(client, await desk.code(client))).json["scope"] == "openid"
    desk.people.withheld = frozenset(client.scopes)

    assert refused(await desk.redeem(client, await desk.code(client)), "access_denied", 403)
    assert {(one.phase, one.subject, one.amr) for one in desk.people.questions} == {("token", "alice@LOCALHOST", ("pwd",))}


async def test_a_session_remembers_who_got_tokens_of_it(desk: Any, client: Any) -> None:
    await desk.session("s1")
    for _ in range(2):
        tokens = await desk.tokens(client, session_id="s1")

    rows = await desk.rows(t.session)
    assert rows[0].clients == f'["{client.client_id}"]'
    assert desk.read(tokens["id_token"]).claims["sid"] == desk.read(tokens["access_token"]).claims["sid"] == "s1"


async def test_after_the_logout_a_code_of_the_session_gives_nothing(desk: Any, client: Any) -> None:
    await desk.session("s1")
    code = await desk.code(client, session_id="s1")
    await desk.host.db.write(lambda tx: tx.remove(t.SESSION, "s1"))

    assert refused(await desk.redeem(client, code))
    assert await desk.families() == []
