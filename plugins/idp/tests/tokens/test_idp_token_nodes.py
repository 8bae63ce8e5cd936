"""Two nodes: what one of them gave is redeemed, rotated, shown and taken back at any; what waits at one goes on at any."""

import asyncio
from collections import Counter
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from greatseal.testing.desk import CHALLENGE, VERIFIER
from greatseal_idp import tables as t


class Site:
    """The same provider, seen at each of its nodes."""

    def __init__(self, nodes: Any, n1: Any, n2: Any) -> None:
        self.nodes = nodes
        self.n1 = n1
        self.n2 = n2

    async def client(self, **fields: Any) -> Any:
        """Registered at n1 a moment ago: n2 has not heard of it yet."""
        client = await self.n1.client(scopes=("openid", "offline_access", "email"), **fields)
        self.n2._secrets = self.n1._secrets
        return client


@pytest.fixture
async def site(start_desks):
    return Site(*await start_desks())


async def test_a_code_of_one_node_is_redeemed_at_the_other(site):
    client = await site.client()

    answer = await site.n1.redeem(client, await site.n2.code(client))

    assert answer.status == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    assert site.n2.read(answer.json["access_token"]).claims["sub"] == "alice@LOCALHOST"
    assert [family.client_id for family in await site.n2.families()] == [client.client_id]
    assert not await site.n1.families()


async def test_a_refresh_token_of_one_node_is_rotated_shown_and_taken_back_at_the_other(site):
    client = await site.client()
    first = (await site.n1.redeem(client, await site.n2.code(client))).json["refresh_token"]

    second = (await site.n1.refresh(client, first)).json["refresh_token"]
    assert await site.n1.is_live(client, second)
    assert not await site.n1.is_live(client, first)
    assert (await site.n1.form("/revoke", client, {"token": second})).status == 200

    assert not await site.n2.is_live(client, second)
    assert (await site.n1.refresh(client, second)).outcome == (400, "invalid_grant")


async def test_a_lost_reply_gives_the_same_tokens_and_is_no_replay(site):
    client = await site.client()
    site.nodes.replies_to_lose = 1

    answer = await site.n1.redeem(client, await site.n2.code(client))

    assert answer.status == 200, answer.text
    assert len(site.nodes.calls) == 2
    assert await site.n2.is_live(client, answer.json["refresh_token"])
    assert not await site.n2.events("code_replay")


async def test_a_replay_at_another_node_takes_back_what_the_first_use_gave(site):
    client = await site.client()
    await site.nodes.settle()
    code = await site.n2.code(client)

    answers = await asyncio.gather(*(desk.redeem(client, code) for _ in range(10) for desk in (site.n1, site.n2)))

    assert Counter(answer.status for answer in answers) == {200: 1, 400: 19}
    (won,) = [answer.json for answer in answers if answer.status == 200]
    assert not await site.n1.is_live(client, won["refresh_token"])


async def test_an_owner_that_is_away_makes_no_grant_invalid_and_the_code_stays_good(site):
    client = await site.client()
    code = await site.n2.code(client)

    site.nodes.unreachable.add("n2")
    away = await site.n1.redeem(client, code)
    site.nodes.unreachable.clear()
    boot, site.nodes.boots["n2"] = site.nodes.boots["n2"], "of before"
    restarted = await site.n1.redeem(client, code)
    site.nodes.boots["n2"] = boot

    for answer in (away, restarted):
        assert answer.outcome == (503, "temporarily_unavailable")
        assert int(answer.headers["Retry-After"]) > 0
    assert (await site.n1.redeem(client, code)).status == 200


@pytest.mark.parametrize("code", ["ac_n3_" + "a" * 43, "ac_n2_short", "", "rt_n2_" + "a" * 43])
async def test_a_code_of_no_node_is_refused_where_it_came(site, code):
    client = await site.client()

    assert (await site.n1.redeem(client, code)).status == 400
    assert not site.nodes.calls


async def test_a_client_that_cannot_be_proven_is_refused_by_the_owner(site):
    client = await site.client()
    code = await site.n2.code(client)
    site.n1._secrets = {client.client_id: "wrong"}

    assert (await site.n1.redeem(client, code)).outcome == (401, "invalid_client")
    assert len(site.nodes.calls) == 1


async def test_a_request_that_was_pushed_to_one_node_is_answered_at_the_other(site):
    client = await site.client()
    await site.nodes.settle()
    cookie = await site.n1.cookie("alice")
    asked = {
        "response_type": "code",
        "redirect_uri": client.redirect_uris[0],
        "scope": "openid email",
        "state": "s",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    pushed = (await site.n2.form("/par", client, asked)).json["request_uri"]

    sent = await site.n1.get(f"/authorize?{urlencode({'client_id': client.client_id, 'request_uri': pushed})}", cookie=cookie)
    consent = urlsplit(sent.location)
    shown = await site.n1.get(f"{consent.path}?{consent.query}", cookie=cookie)
    decision = {"consent_id": shown.json["consent_id"], "decision": "approve"}
    decided = await site.n1.post(consent.path, json=decision, cookie=cookie)
    code = parse_qs(urlsplit(decided.json["redirect_to"]).query)["code"][0]
    answer = await site.n1.redeem(client, code, code_verifier=VERIFIER)

    assert answer.status == 200, answer.text
    assert shown.json["client"]["client_id"] == client.client_id
    assert [call.target.partition("?")[0] for call in site.nodes.calls] == ["/authorize", consent.path, consent.path, "/token"]
    assert not await site.n1.rows(t.authorization)


async def test_a_request_goes_on_at_its_node_after_a_sign_in_at_another(site):
    client = await site.client()
    await site.nodes.settle()
    asked = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": client.redirect_uris[0],
        "scope": "openid email",
        "state": "s",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    to_sign_in = await site.n2.get(f"/authorize?{urlencode(asked)}")
    return_to = parse_qs(urlsplit(to_sign_in.location).query)["return_to"][0]

    cookie = await site.n1.cookie("alice")
    sent = await site.n1.get(return_to, cookie=cookie)

    assert sent.location.startswith("/api/auth/consent?consent_id=co_n2_")
