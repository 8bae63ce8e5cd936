"""Introspection and revocation: whom a token concerns, and what is effective when."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import select

from greatseal.api.directory import AccountState
from greatseal.testing.desk import bearer
from greatseal_idp import tables as t

INACTIVE = {"active": False}


async def test_idp_192_state_and_claims_of_an_access_token(desk: Any, client: Any) -> None:
    await desk.session("s1")
    tokens = await desk.tokens(client, session_id="s1", acr="gold")

    shown = await desk.introspect(client, tokens["access_token"])

    claims = desk.read(tokens["access_token"]).claims
    assert shown == {
        "active": True,
        "username": "alice",
        "token_type": "Bearer",
        **{name: value for name, value in claims.items() if name != "family"},
    }
    assert {"acr": "gold", "amr": ["pwd"], "sid": "s1", "sub": "alice@LOCALHOST"}.items() <= shown.items()
    assert await desk.introspect(client, tokens["access_token"]) == shown  # now from memory


async def test_tokens_of_somebody_who_may_not_sign_in_are_not_active(desk: Any, client: Any) -> None:
    tokens = await desk.tokens(client)
    both = [tokens["access_token"], tokens["refresh_token"]]
    assert [(await desk.introspect(client, token))["active"] for token in both] == [True, True]

    desk.people.change("alice", state=AccountState(disabled=True))
    assert [await desk.introspect(client, token) for token in both] == [INACTIVE] * 2

    desk.people.change("alice", state=AccountState())
    assert [(await desk.introspect(client, token))["active"] for token in both] == [True, True]
    desk.clock.advance(2)
    desk.people.change("alice", password_changed_at=desk.clock.now())
    assert [await desk.introspect(client, token) for token in both] == [INACTIVE] * 2


async def test_a_refresh_token_while_it_is_current(desk: Any, client: Any) -> None:
    first = (await desk.tokens(client))["refresh_token"]
    shown = await desk.introspect(client, first)
    await desk.refresh(client, first)

    assert {"active": True, "token_type": "refresh_token", "sub": "alice@LOCALHOST", "client_id": client.client_id}.items() <= shown.items()
    assert shown["exp"] > desk.clock.now() / 1e6
    assert await desk.introspect(client, first) == INACTIVE
    assert not await desk.events("refresh_replay")  # looking is no use


@pytest.mark.parametrize("alg", [None, "RS256"])
async def test_rfc_9701_whoever_accepts_it_gets_the_answer_signed(desk: Any, alg: str | None) -> None:
    client = await desk.client(more={} if alg is None else {"introspection_signed_response_alg": alg})
    token = (await desk.tokens(client))["access_token"]
    accept = {"Accept": "application/token-introspection+jwt"}

    signed = [await desk.form("/introspect", client, {"token": text}, accept) for text in (token, "nothing")]

    assert [answer.headers["Content-Type"] for answer in signed] == [accept["Accept"]] * 2
    live, dead = (desk.read(answer.text) for answer in signed)
    assert (live.header["typ"], live.header["alg"]) == ("token-introspection+jwt", alg or "ES256")
    assert live.claims["aud"] == client.client_id
    assert live.claims["token_introspection"] == await desk.introspect(client, token)
    assert dead.claims["token_introspection"] == {"active": False}


async def test_s031_only_those_whom_it_concerns_are_told(desk: Any, client: Any) -> None:
    other = await desk.client()
    auditor = await desk.client(scopes=("introspect", "api"))
    tokens = await desk.tokens(client)

    for kind in ("access_token", "refresh_token", "id_token"):
        assert await desk.introspect(other, tokens[kind]) == INACTIVE
    assert (await desk.introspect(auditor, tokens["access_token"]))["active"]


async def test_s031_public_and_unknown_callers_are_refused(desk: Any, client: Any) -> None:
    public = await desk.client(method="none")
    token = (await desk.tokens(client))["access_token"]

    for who, headers in ((public, {}), (None, {}), (None, bearer(token))):
        for text in (token, "unknown", ""):
            answer = await desk.form("/introspect", who, {"token": text}, headers)
            assert (answer.status, answer.error) == (401, "invalid_client")


@pytest.mark.parametrize("path", ["/introspect", "/revoke"])
async def test_without_a_token_it_is_invalid_request(desk: Any, client: Any, path: str) -> None:
    answer = await desk.form(path, client, {"token_type_hint": "access_token"})

    assert (answer.status, answer.error) == (400, "invalid_request")


@pytest.mark.parametrize(
    "text", ["x", "a.b.c", "at_n1_" + "A" * 200, "at_n1_" + "A" * 201, "rt_n1_" + "A" * 70, "ä.ö.ü", "." * 100, "x" * 60_000, "at_n1_é"]
)
async def test_texts_that_are_no_token(desk: Any, client: Any, text: str) -> None:
    assert await desk.introspect(client, text) == INACTIVE
    assert (await desk.form("/revoke", client, {"token": text})).status == 200


async def test_an_expired_token_is_not_active(desk: Any, client: Any) -> None:
    token = (await desk.tokens(client))["access_token"]
    desk.clock.advance(899)
    assert await desk.is_live(client, token)
    desk.clock.advance(1)

    assert await desk.introspect(client, token) == INACTIVE


async def test_idp_115_tokens_of_a_revoked_key_end_at_once(desk: Any, client: Any) -> None:
    token = (await desk.tokens(client))["access_token"]
    assert await desk.is_live(client, token)
    await desk.provider.signing.rotate(by="root")
    assert await desk.is_live(client, token)

    await desk.provider.signing.revoke(desk.read(token).header["kid"], by="root")

    assert not await desk.is_live(client, token)
    assert (await desk.userinfo(token)).status == 401


async def test_idp_191_a_revoked_access_token_is_dead_when_the_reply_is_there(desk: Any, client: Any) -> None:
    tokens, others = await desk.tokens(client), await desk.tokens(client)
    assert await desk.is_live(client, tokens["access_token"])

    answer = await desk.form("/revoke", client, {"token": tokens["access_token"]})

    assert (answer.status, answer.body) == (200, b"")
    assert not await desk.is_live(client, tokens["access_token"])
    assert await desk.is_live(client, others["access_token"])
    assert (await desk.refresh(client, tokens["refresh_token"])).status == 200
    (event,) = await desk.events("token_revoked")
    assert (event.sub, event.client_id, event.outcome) == ("alice@LOCALHOST", client.client_id, "success")


@pytest.mark.parametrize("hint", ["refresh_token", "access_token", "nonsense"])
async def test_idp_112_a_refresh_token_takes_its_family(desk: Any, client: Any, hint: str) -> None:
    tokens = await desk.tokens(client)
    later = (await desk.refresh(client, tokens["refresh_token"])).json

    answer = await desk.form("/revoke", client, {"token": tokens["refresh_token"], "token_type_hint": hint})  # an old one, even

    assert answer.status == 200
    assert not await desk.is_live(client, tokens["access_token"])
    assert not await desk.is_live(client, later["access_token"])
    assert (await desk.refresh(client, later["refresh_token"])).error == "invalid_grant"


async def test_a_public_client_revokes_by_its_id(desk: Any) -> None:
    public = await desk.client(method="none")
    tokens = await desk.tokens(public)

    assert (await desk.form("/revoke", public, {"token": tokens["refresh_token"]})).status == 200
    assert (await desk.refresh(public, tokens["refresh_token"])).error == "invalid_grant"


async def test_s030_the_token_of_another_client_stays(desk: Any, client: Any) -> None:
    others = (await desk.client(), await desk.client(method="none"))
    tokens = await desk.tokens(client)

    for other in others:
        for kind in ("access_token", "refresh_token"):
            for hint in ({}, {"token_type_hint": "access_token"}, {"token_type_hint": "refresh_token"}, {"token_type_hint": "nonsense"}):
                answer = await desk.form("/revoke", other, {"token": tokens[kind], **hint})
                assert (answer.status, answer.text) == (200, "")
    nobody = await desk.form("/revoke", None, {"token": tokens["refresh_token"], "client_id": client.client_id})
    assert (nobody.status, nobody.error) == (401, "invalid_client")

    assert await desk.is_live(client, tokens["access_token"])
    assert (await desk.refresh(client, tokens["refresh_token"])).status == 200
    events = [(event.client_id, event.outcome) for event in await desk.events("token_revoked")]
    assert events == [(other.client_id, "failure") for other in others for _ in range(8)]


async def test_revoking_twice_and_at_once(both_desks: Any) -> None:
    desk = both_desks
    client = await desk.client()
    tokens = await desk.tokens(client)

    answers = await asyncio.gather(*(desk.form("/revoke", client, {"token": tokens["refresh_token"]}) for _ in range(10)))

    assert {answer.status for answer in answers} == {200}
    assert len(await desk.events("token_revoked")) == 1
    assert not await desk.is_live(client, tokens["access_token"])


async def test_edge_17_a_token_beyond_the_body_limit(desk: Any, client: Any) -> None:
    assert (await desk.form("/introspect", client, {"token": "x" * 100_000})).status == 413


async def test_i6_a_revocation_outlives_a_restart(start_desk: Any, fresh_database: Any, tmp_path: Any) -> None:
    sections = {
        "database": {"url": fresh_database()},
        "cluster": {"key_file": str(tmp_path / "kept.key")},
        "server": {"base_url": "http://localhost:1", "listen": "127.0.0.1:0"},
    }
    desk = await start_desk(**sections)
    client = await desk.client()
    revoked, live = [(await desk.tokens(client))["access_token"] for _ in range(2)]
    await desk.form("/revoke", client, {"token": revoked})

    await desk.service.stop()
    again = await start_desk(**sections)
    again._secrets = desk._secrets

    assert not await again.is_live(client, revoked)
    assert await again.is_live(client, live)


async def test_what_cannot_matter_any_more_is_deleted(start_desk: Any, database_url: str) -> None:
    desk = await start_desk(database={"url": database_url}, tokens={"refresh_idle_ttl": 3000})
    client = await desk.client()
    used, unused = await desk.code(client), await desk.code(client)
    tokens = (await desk.redeem(client, used)).json
    await desk.form("/revoke", client, {"token": tokens["access_token"]})

    (cleanup,) = (job for job in desk.provider.jobs() if job.name == "idp-cleanup")

    async def left(*, after: float) -> list[int]:
        desk.clock.advance(after)
        await cleanup.run()
        return [len(await desk.host.db.read(lambda tx, of=of: tx.all(of))) for of in map(select, (t.code, t.family, t.revoked))]

    assert await left(after=100) == [2, 1, 1]
    assert (await desk.redeem(client, used)).error == "invalid_grant"  # and its replay is still seen
    assert len(await desk.events("code_replay")) == 1
    assert not await desk.is_live(client, tokens["access_token"])
    assert await left(after=901 + 3600) == [0, 0, 2]
    assert await left(after=5000) == [0, 0, 0]
    assert (await desk.redeem(client, unused)).error == "invalid_grant"
    assert (await desk.refresh(client, tokens["refresh_token"])).error == "invalid_grant"
    assert await desk.introspect(client, tokens["refresh_token"]) == INACTIVE
    assert (await desk.form("/revoke", client, {"token": tokens["refresh_token"]})).status == 200
    assert desk.provider.revocations._until == {}
