"""Codes, refresh tokens and their neighbours: S024 to S032, and B5 to B29 as far as /authorize alone does not show them."""

import asyncio
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from security.idp_desk import PARALLEL, SECRET, Desk, credentials_of, open_desk

from greatseal.testing.desk import CALLBACK, CHALLENGE, VERIFIER, Answer, bearer, told
from greatseal_users_file.edit import add, write

pytestmark = pytest.mark.asyncio(loop_scope="module")

INACTIVE = {"active": False}
GRANT, REQUEST = (400, "invalid_grant"), (400, "invalid_request")
OTHER_CALLBACK = "https://app.example/other"
URN = "urn:ietf:params:oauth:request_uri:"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path_factory.mktemp("idp")) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def ann(desk: Desk) -> str:
    desk.client = await desk.registered(redirect_uris=[CALLBACK, OTHER_CALLBACK])
    return await desk.cookie("ann")


async def public(desk: Desk, **fields: Any) -> dict[str, Any]:
    return await desk.registered(token_endpoint_auth_method="none", **fields)


# ---- Codes


async def test_s024_a_code_after_its_minute_and_after_a_jump_of_the_clock(desk, ann):
    for seconds in (60, 86_400):
        cookie = await desk.cookie("ann")
        code = await desk.code(cookie)
        desk.clock.advance(seconds)

        assert (await desk.redeem(code)).outcome == GRANT
        assert (await desk.redeem(code)).outcome == GRANT
    desk.admin = await desk.cookie("admin")


async def test_s025_redirect_uri_at_the_token_endpoint(desk, ann):
    code = await desk.code(ann)

    for missing in (None, ""):
        assert (await desk.redeem(code, redirect_uri=missing)).outcome == REQUEST
    different = (OTHER_CALLBACK, f"{CALLBACK}/", f"{CALLBACK}?", f"{CALLBACK}#", "https://app.example:443/callback", CALLBACK.upper(), "x")
    for uri in different:
        assert (await desk.redeem(code, redirect_uri=uri)).outcome == GRANT, uri
    twice = [("grant_type", "authorization_code"), ("code", code), ("redirect_uri", CALLBACK), ("redirect_uri", OTHER_CALLBACK)]
    answer = await desk.ask("POST", "/token", data=twice, headers=desk.credentials)
    assert answer.outcome == REQUEST
    assert (await desk.redeem(code)).status == 200, "no refusal used the code up"


async def test_s025_it_is_needed_also_where_the_authorization_request_had_none(desk, ann):
    desk.client = await desk.registered()
    code = await desk.code(ann, redirect_uri=None, scope="profile")

    assert (await desk.redeem(code, redirect_uri=None)).outcome == REQUEST
    assert (await desk.redeem(code)).status == 200


async def test_s026_b5_b6_pkce_is_neither_guessed_nor_left_out(desk, ann):
    code = await desk.code(ann)
    for verifier in (None, "", "x" * 43, VERIFIER[:42], "a" * 129, f"{VERIFIER}=", CHALLENGE, VERIFIER.upper()):
        assert (await desk.redeem(code, code_verifier=verifier)).outcome == GRANT, verifier
    assert (await desk.redeem(code)).status == 200

    for changes in (
        {"code_challenge_method": "plain"},
        {"code_challenge_method": "plain", "code_challenge": VERIFIER},
        {"code_challenge_method": None},
        {"code_challenge_method": "s256"},
        {"code_challenge": None},
        {"code_challenge": CHALLENGE[:42]},
        {"code_challenge": "a" * 129},
    ):
        assert told(await desk.authorize(ann, **changes))["error"] == "invalid_request", changes
        assert (await desk.push(**changes)).outcome == REQUEST, changes

    bare = await desk.code(ann, code_challenge=None, code_challenge_method=None)
    assert (await desk.redeem(bare)).outcome == GRANT, "a verifier without a challenge is a downgrade"
    assert (await desk.redeem(bare, code_verifier=None)).status == 200


async def test_s026_b8_a_public_client_without_a_challenge_gets_no_code(desk, ann):
    desk.client = await public(desk)

    assert told(await desk.authorize(ann, code_challenge=None, code_challenge_method=None))["error"] == "invalid_request"
    assert (await desk.push(code_challenge=None, code_challenge_method=None)).outcome == REQUEST


async def test_s023_b27_a_code_is_worth_nothing_to_another_client(desk, ann):
    owner, others = desk.client, (await desk.registered(), await public(desk))
    code = await desk.code(ann)

    for other in others:
        assert (await desk.redeem(code, by=other)).outcome == GRANT
    nobody = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    for form in (nobody, {**nobody, "client_id": owner["client_id"]}):
        assert (await desk.ask("POST", "/token", data=form)).outcome == (401, "invalid_client")

    tokens = await desk.redeem(code)
    assert tokens.status == 200, "nobody else used it up"
    for other in others:
        assert (await desk.redeem(code, by=other)).outcome == GRANT
    assert (await desk.userinfo(tokens.json["access_token"])).status == 200, "and nobody else's replay takes anything back"


async def test_b29_the_nonce_comes_back_as_it_was_and_a_challenge_is_of_one_flow(desk, ann):
    for nonce in ("n-0", 'x"y\\z', "é ☃ %41+&=", "n" * 512):
        tokens = await desk.tokens(ann, nonce=nonce)
        assert desk.provider.signing.verify(tokens["id_token"], typ=frozenset({"jwt"}))["nonce"] == nonce
    without = await desk.tokens(ann)
    assert "nonce" not in desk.provider.signing.verify(without["id_token"], typ=frozenset({"jwt"}))

    # The challenge of "b" * 43, by another tool.
    other = "8BtXImJhrjdWuTk24cTmuEn5pbCTP6O5GEO_QZW52WQ"
    mine, theirs = await desk.code(ann), await desk.code(ann, code_challenge=other)
    assert (await desk.redeem(theirs)).outcome == GRANT
    assert (await desk.redeem(mine, code_verifier="b" * 43)).outcome == GRANT
    assert (await desk.redeem(mine)).status == 200
    assert (await desk.redeem(theirs, code_verifier="b" * 43)).status == 200


# ---- Refresh tokens


async def test_s027_b10_a_replay_ends_the_family_of_a_public_client(desk, ann):
    desk.client = await public(desk)
    first = await desk.tokens(ann)
    second = (await desk.refresh(first["refresh_token"])).json
    assert second["refresh_token"] != first["refresh_token"]

    assert (await desk.refresh(first["refresh_token"])).outcome == GRANT

    assert (await desk.refresh(second["refresh_token"])).outcome == GRANT
    for tokens in (first, second):
        assert (await desk.userinfo(tokens["access_token"])).status == 401


async def test_s027_fifty_refreshes_of_a_public_client_have_one_success(desk, ann):
    desk.client = await public(desk)
    tokens = await desk.tokens(ann)

    answers = await asyncio.gather(*(desk.refresh(tokens["refresh_token"]) for _ in range(PARALLEL)))

    (won,) = [answer for answer in answers if answer.status == 200]
    assert all(answer.outcome == GRANT for answer in answers if answer is not won)
    assert (await desk.refresh(won.json["refresh_token"])).outcome == GRANT
    assert (await desk.userinfo(won.json["access_token"])).status == 401


async def test_b12_a_refresh_token_with_any_bit_flipped_is_unknown(desk, ann):
    desk.client = await public(desk)
    token = (await desk.tokens(ann))["refresh_token"]
    kind, node, text = token.split("_", 2)
    content = urlsafe_b64decode(text + "=" * (-len(text) % 4))

    flipped = (bytes(byte ^ (number == bit // 8) << bit % 8 for number, byte in enumerate(content)) for bit in range(len(content) * 8))
    for one in flipped:
        forged = f"{kind}_{node}_{urlsafe_b64encode(one).rstrip(b'=').decode()}"
        assert (await desk.refresh(forged)).outcome == GRANT
    assert (await desk.refresh(token)).status == 200


async def test_s028_b11_b13_a_refresh_token_gives_no_more_than_was_granted_and_to_nobody_else(desk, ann):
    token = (await desk.tokens(ann))["refresh_token"]

    for scope in ("openid profile email", "email", "openid directory.read", "groups"):
        assert (await desk.refresh(token, scope=scope)).outcome == (400, "invalid_scope"), scope
    for other in (await desk.registered(), await public(desk)):
        assert (await desk.refresh(token, by=other)).outcome == GRANT
    narrow = await desk.refresh(token, scope="openid")
    assert narrow.json["scope"] == "openid"
    assert (await desk.refresh(narrow.json["refresh_token"])).json["scope"] == "openid profile offline_access"


async def test_s028_b11_scopes_that_the_client_lost_do_not_come_back(desk, ann):
    token = (await desk.tokens(ann))["refresh_token"]
    await desk.put(desk.client, scopes=["openid", "offline_access"])
    narrower = (await desk.refresh(token)).json

    await desk.put(desk.client, scopes=["openid"])

    assert narrower["scope"] == "openid offline_access"
    assert (await desk.refresh(narrower["refresh_token"])).outcome == GRANT


async def test_s012_s028_claims_by_name_are_allowed_first_and_end_with_their_scope(desk, ann):
    claim = "preferred_username"
    desk.client = await desk.registered(consent=None)
    wanted = '{"userinfo": {"preferred_username": null}, "id_token": {"preferred_username": null}}'
    named = {"scope": "openid offline_access", "claims": wanted}
    await desk.code(ann, scope="openid offline_access")
    assert told(await desk.authorize(ann, prompt="none", **named))["error"] == "consent_required"
    page, fields = await desk.consent(ann, **named)
    tokens = (await desk.redeem(told(await desk.approve(ann, fields))["code"])).json
    assert "See your name and profile" in page.text
    assert claim in (await desk.userinfo(tokens["access_token"])).json

    await desk.put(desk.client, scopes=["openid", "email", "offline_access"])
    later = (await desk.refresh(tokens["refresh_token"])).json

    for one in (tokens, later):
        assert claim not in (await desk.userinfo(one["access_token"])).json
    assert claim not in desk.provider.signing.verify(later["id_token"], typ=frozenset({"jwt"}))


async def test_s028_after_deletion_disabling_and_revocation_nothing_is_refreshed(desk, ann):
    tokens, code = await desk.tokens(ann), await desk.code(ann)
    listed = (await desk.ask("GET", "/api/admin/refresh-families", cookie=desk.admin)).json
    (family,) = [one["family_id"] for one in listed if one["client_id"] == desk.client["client_id"]]
    gone = await desk.ask("DELETE", f"/api/admin/refresh-families/{family}", cookie=desk.admin)
    assert gone.status == 204
    assert (await desk.refresh(tokens["refresh_token"])).outcome == GRANT
    assert (await desk.userinfo(tokens["access_token"])).status == 401

    tokens = await desk.tokens(ann)
    assert (await desk.ask("DELETE", f"/api/admin/clients/{desk.client['client_id']}", cookie=desk.admin)).status == 204
    assert (await desk.refresh(tokens["refresh_token"])).outcome == (401, "invalid_client")
    assert (await desk.redeem(code)).outcome == (401, "invalid_client")
    assert (await desk.userinfo(tokens["access_token"])).status == 401
    desk.client = await desk.registered()
    assert (await desk.refresh(tokens["refresh_token"])).outcome == GRANT


async def test_s028_s039_a_disabled_user_gets_nothing_more(desk, ann):
    people = desk.service.kernel.hooks.instances["users-file"]._file.path
    add(people, name := f"eve{uuid.uuid4().hex[:6]}", "correct horse battery")
    cookie = await desk.cookie(name)
    tokens, code = await desk.tokens(cookie), await desk.code(cookie)
    before = people.read_text()

    write(people, before.replace(f'username = "{name}"', f'username = "{name}"\nenabled = false'))
    try:
        assert (await desk.refresh(tokens["refresh_token"])).outcome == GRANT
        assert (await desk.redeem(code)).outcome == GRANT
        assert (await desk.userinfo(tokens["access_token"])).status == 401
        assert "code" not in told(await desk.authorize(cookie))
    finally:
        write(people, before)
    assert (await desk.refresh(tokens["refresh_token"])).status == 200, "a refusal uses nothing up"


# ---- One kind of token is never another


async def doors(desk: Desk, cookie: str) -> dict[str, Callable[[str], Awaitable[bool]]]:
    """Where a text is taken for something, by what it should be there; each says whether it was let in."""

    async def status(answer: Awaitable[Answer], *good: int) -> bool:
        return (await answer).status in good

    where = f"/authorize?client_id={desk.client['client_id']}&request_uri={URN}"
    return {
        "code": lambda text: status(desk.redeem(text), 200),
        "refresh_token": lambda text: status(desk.refresh(text), 200),
        "access_token": lambda text: status(desk.userinfo(text), 200),
        "session": lambda text: status(desk.ask("GET", "/api/auth/me", cookie=f"greatseal_session={text}"), 200),
        "transaction": lambda text: status(desk.ask("GET", f"/authorize?transaction={text}", cookie=cookie), 200, 302, 303),
        "request_uri": lambda text: status(desk.ask("GET", where + text, cookie=cookie), 200, 302, 303),
        "consent": lambda text: status(desk.ask("GET", f"/api/auth/consent?consent_id={text}", cookie=cookie), 200),
        "id_token": lambda text: status(desk.ask("GET", f"/logout?id_token_hint={text}"), 200, 302),
    }


async def test_s029_every_kind_of_text_at_the_door_of_every_other_kind(desk, ann):
    asking = await desk.registered(consent="explicit")
    tokens = await desk.tokens(ann)
    waiting = (await desk.authorize(ann, client_id=asking["client_id"])).location.partition("consent_id=")[2]
    page = await desk.ask("GET", f"/api/auth/consent?consent_id={waiting}", cookie=ann, headers={"Accept": "text/html"})
    kinds = {
        "code": await desk.code(ann),
        "refresh_token": tokens["refresh_token"],
        "access_token": tokens["access_token"],
        "id_token": tokens["id_token"],
        "session": ann.partition("=")[2],
        "transaction": (await desk.authorize()).location.partition("transaction%3D")[2],
        "request_uri": (await desk.push()).json["request_uri"].removeprefix(URN),
        "consent": waiting,
        "form_token": page.text.partition('name="form_token" value="')[2].partition('"')[0],
        "client_id": desk.client["client_id"],
    }
    opaque = await desk.registered(access_token_format="opaque")
    desk.client, mine = opaque, desk.client
    kinds["opaque"] = (await desk.tokens(ann))["access_token"]
    desk.client = mine
    assert all(len(text) > 30 for text in kinds.values())

    for door, enter in (await doors(desk, ann)).items():
        for kind, text in kinds.items():
            if kind != door and (kind, door) != ("opaque", "access_token"):
                assert not await enter(text), (kind, door)
    for kind in kinds.keys() - {"access_token", "refresh_token", "opaque"}:
        assert await desk.introspect(kinds[kind]) == INACTIVE, kind
    assert "device_code" not in str((await desk.ask("GET", "/.well-known/openid-configuration")).json["grant_types_supported"])

    for door, enter in (await doors(desk, ann)).items():
        assert await enter(kinds[door]), f"{door}: the wrong doors used nothing up"


async def test_s022_fifty_returns_from_one_sign_in_give_one_code(desk, ann):
    back = (await desk.authorize()).location.partition("transaction%3D")[2]

    answers = await asyncio.gather(*(desk.ask("GET", f"/authorize?transaction={back}", cookie=ann) for _ in range(PARALLEL)))

    (won,) = [answer for answer in answers if answer.status == 302]
    assert all(answer.outcome == (400, "invalid_request_uri") for answer in answers if answer is not won)
    assert (await desk.redeem(told(won)["code"])).status == 200


# ---- Revocation, introspection, tokens in URLs


async def test_s030_a_revocation_touches_nothing_of_another_client(desk, ann):
    tokens, other = await desk.tokens(ann), await desk.registered()

    for token in (tokens["access_token"], tokens["refresh_token"], tokens["id_token"], "unknown", "at_n1_" + "A" * 90, "rt_n1_" + "A" * 70):
        for hint in (None, "access_token", "refresh_token", "nonsense"):
            for by in (other, await public(desk) if hint is None else other):
                answer = await desk.form("/revoke", {"token": token, "token_type_hint": hint}, by=by)
                assert (answer.status, answer.text) == (200, "")
    nobody = await desk.ask("POST", "/revoke", data={"token": tokens["refresh_token"], "client_id": desk.client["client_id"]})
    assert nobody.outcome == (401, "invalid_client")

    assert (await desk.userinfo(tokens["access_token"])).status == 200
    again = await desk.refresh(tokens["refresh_token"])
    assert again.status == 200
    wrong_hint = {"token": again.json["refresh_token"], "token_type_hint": "access_token"}
    assert (await desk.form("/revoke", wrong_hint)).status == 200
    assert (await desk.userinfo(again.json["access_token"])).status == 401


async def test_s031_introspection_tells_nobody_whom_it_does_not_concern(desk, ann):
    tokens, other = await desk.tokens(ann), await desk.registered()

    for token in (tokens["access_token"], tokens["refresh_token"], tokens["id_token"], "unknown", ""):
        assert await desk.introspect(token or "x", by=other) == INACTIVE
        for headers in ({}, credentials_of(desk.client, "wrong"), credentials_of({"client_id": "nobody"}), bearer(tokens["access_token"])):
            assert (await desk.ask("POST", "/introspect", data={"token": token}, headers=headers)).outcome == (401, "invalid_client")
        by_public = await desk.form("/introspect", {"token": token}, by=await public(desk))
        assert by_public.outcome == (401, "invalid_client")
    assert (await desk.introspect(tokens["access_token"]))["active"]


async def test_s032_b19_a_token_in_the_url_is_refused_everywhere(desk, ann):
    tokens = await desk.tokens(ann)
    access = tokens["access_token"]

    for method in ("GET", "POST"):
        for headers in ({}, bearer(access)):
            answer = await desk.ask(method, f"/userinfo?access_token={access}", headers=headers)
            assert answer.outcome == REQUEST
    assert (await desk.ask("GET", f"/api/admin/clients?access_token={access}")).status == 401
    assert (await desk.ask("GET", f"/api/auth/me?access_token={access}")).status == 401
    for path in ("introspect", "revoke"):
        answer = await desk.ask("POST", f"/{path}?token={access}", data={"x": "y"}, headers=desk.credentials)
        assert answer.outcome == REQUEST
    in_url = f"/token?grant_type=refresh_token&refresh_token={tokens['refresh_token']}"
    assert (await desk.ask("POST", in_url, data={"x": "y"}, headers=desk.credentials)).outcome == REQUEST
    assert (await desk.ask("POST", in_url, data={"grant_type": "refresh_token"}, headers=desk.credentials)).outcome == REQUEST
    assert (await desk.refresh(tokens["refresh_token"])).status == 200


async def test_b30_nothing_that_is_presented_rests_in_the_database(desk, ann):
    code = await desk.code(ann, scope="openid offline_access", nonce="the-nonce-of-this-test")
    tokens = (await desk.redeem(code)).json
    later = (await desk.refresh(tokens["refresh_token"])).json
    pushed = (await desk.push()).json["request_uri"].removeprefix(URN)
    waiting = (await desk.authorize()).location.partition("transaction%3D")[2]
    await desk.redeem(code)
    await desk.refresh(tokens["refresh_token"])
    await desk.form("/revoke", {"token": later["access_token"]})
    await desk.form("/introspect", {"token": later["refresh_token"]})

    stored = b"".join(path.read_bytes() for path in desk.folder.glob("greatseal.db*"))
    assert b"the-nonce-of-this-test" in stored
    assert b"code_replay" in stored
    handles = (code, tokens["refresh_token"], later["refresh_token"], pushed, waiting, ann.partition("=")[2])
    for text in handles:
        random = text.split("_", 2)[2]
        assert random.encode() not in stored
        assert urlsafe_b64decode(random + "=" * (-len(random) % 4)) not in stored
    for token in (tokens["access_token"], tokens["id_token"], later["access_token"]):
        assert token.rpartition(".")[2].encode() not in stored
    assert SECRET.encode() not in stored
