"""Handles and tokens where they do not belong, and where they are kept: S022, S029, S032, B19 and B30."""

import asyncio
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from security.idp_desk import PARALLEL, SECRET, Desk, open_desk

from greatseal.testing.desk import Answer, bearer, told

pytestmark = pytest.mark.asyncio(loop_scope="module")

INACTIVE = {"active": False}
REQUEST = (400, "invalid_request")
URN = "urn:ietf:params:oauth:request_uri:"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path_factory.mktemp("idp")) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def ann(desk: Desk) -> str:
    desk.client = await desk.registered()
    return await desk.cookie("ann")


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
    explicit = await desk.registered(consent="explicit")
    asking = (await desk.authorize(ann, client_id=explicit["client_id"])).location.partition("consent_id=")[2]
    await desk.redeem(code)
    await desk.refresh(tokens["refresh_token"])
    await desk.form("/revoke", {"token": later["access_token"]})
    await desk.form("/introspect", {"token": later["refresh_token"]})

    stored = b"".join(path.read_bytes() for path in desk.folder.glob("greatseal.db*"))
    assert b"the-nonce-of-this-test" in stored
    assert b"code_replay" in stored
    handles = (code, tokens["refresh_token"], later["refresh_token"], pushed, waiting, asking, ann.partition("=")[2])
    for text in handles:
        random = text.split("_", 2)[2]
        assert random.encode() not in stored
        assert urlsafe_b64decode(random + "=" * (-len(random) % 4)) not in stored
    for token in (tokens["access_token"], tokens["id_token"], later["access_token"]):
        assert token.rpartition(".")[2].encode() not in stored
    assert SECRET.encode() not in stored
