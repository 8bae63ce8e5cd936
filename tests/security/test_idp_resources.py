"""Tokens for the resources that a client names (RFC 8707), and clients that want more than was authorized."""

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from security.idp_desk import Desk, open_desk

from greatseal.jose.compact import b64url_decode
from greatseal.testing.desk import CALLBACK, VERIFIER, Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

API, LOGS, OTHER = "https://api.example/", "urn:example:logs", "https://other.example/"
OWN = {"grant_types": ["client_credentials"], "redirect_uris": None, "scopes": ["groups"]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path_factory.mktemp("idp"), "resource-indicators") as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def client(desk: Desk) -> Any:
    return await desk.registered(resources=[API, LOGS])


async def token(desk: Desk, by: Any, form: dict[str, str], *resources: str) -> Answer:
    return await desk.form("/token", [*form.items(), *(("resource", one) for one in resources)], by=by)


async def redeem(desk: Desk, by: Any, code: str, *resources: str) -> Answer:
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    return await token(desk, by, form, *resources)


async def refresh(desk: Desk, by: Any, text: str, *resources: str) -> Answer:
    return await token(desk, by, {"grant_type": "refresh_token", "refresh_token": text}, *resources)


async def code_of(desk: Desk, by: Any, *resources: str) -> str:
    return await desk.code(await desk.cookie("ann"), client_id=by["client_id"], scope="openid offline_access", resource=resources)


def audience(answer: Answer) -> Any:
    assert answer.status == 200, answer.text
    return json.loads(b64url_decode(answer.json["access_token"].split(".")[1]))["aud"]


async def test_a_program_gets_a_token_for_the_resources_that_it_names(desk):
    client = await desk.registered(**OWN, resources=[API, LOGS])
    form = {"grant_type": "client_credentials"}

    assert audience(await token(desk, client, form, API)) == API
    assert audience(await token(desk, client, form, API, LOGS, API)) == [API, LOGS]
    assert audience(await token(desk, client, form)) == desk.url
    for resource in (OTHER, f"{API}#part", "api"):
        assert (await token(desk, client, form, API, resource)).outcome == (400, "invalid_target")


async def test_a_token_is_for_what_was_authorized_and_each_request_may_ask_for_less(desk, client):
    tokens = await redeem(desk, client, await code_of(desk, client, API, LOGS), LOGS)
    assert audience(tokens) == LOGS

    narrow = await refresh(desk, client, tokens.json["refresh_token"], API)
    assert audience(narrow) == API
    whole = await refresh(desk, client, narrow.json["refresh_token"])
    assert audience(whole) == [API, LOGS], "narrowing one token narrows no refresh"


@pytest.mark.parametrize("authorized", [(), (API,)])
async def test_no_token_request_widens_what_was_authorized(desk, client, authorized):
    code = await code_of(desk, client, *authorized)

    for resources in ((LOGS,), (*authorized, LOGS), (desk.url,)):
        assert (await redeem(desk, client, code, *resources)).outcome == (400, "invalid_target")
    tokens = await redeem(desk, client, code)
    assert audience(tokens) == (API if authorized else desk.url), "a refusal burned no code"

    assert (await refresh(desk, client, tokens.json["refresh_token"], LOGS)).outcome == (400, "invalid_target")
    again = await refresh(desk, client, tokens.json["refresh_token"])
    assert audience(again) == audience(tokens), "a refusal is no replay"


async def test_another_resource_is_told_to_the_application(desk, client):
    for pushed in (False, True):
        if pushed:
            assert (await desk.push(by=client, resource=(API, OTHER))).outcome == (400, "invalid_target")
        else:
            answer = await desk.authorize(await desk.cookie("ann"), client_id=client["client_id"], resource=(API, OTHER))
            assert parse_qs(urlsplit(answer.location).query)["error"] == ["invalid_target"]


async def test_resources_may_be_pushed(desk, client):
    pushed = (await desk.push(by=client, scope="openid", resource=(API, LOGS))).json
    cookie = await desk.cookie("ann")
    answer = await desk.get(f"/authorize?client_id={client['client_id']}&request_uri={pushed['request_uri']}", cookie=cookie)
    (code,) = parse_qs(urlsplit(answer.location).query)["code"]

    assert audience(await redeem(desk, client, code)) == [API, LOGS]


async def test_s037_a_token_for_a_resource_is_for_no_other(desk, client):
    """UserInfo is this issuer's; a client that wants both names both."""
    alone = (await redeem(desk, client, await code_of(desk, client, API))).json["access_token"]
    both = (await redeem(desk, client, await code_of(desk, client, API, desk.url))).json["access_token"]

    assert (await desk.userinfo(alone)).outcome == (401, "invalid_token")
    assert (await desk.userinfo(both)).status == 200


async def test_introspection_shows_the_audience_to_the_resource_and_to_no_other(desk, client):
    tokens = await redeem(desk, client, await code_of(desk, client, API))
    resource = await desk.registered(**OWN, resources=[API])
    other = await desk.registered(**OWN, resources=[OTHER])

    assert (await desk.introspect(tokens.json["access_token"], by=resource))["aud"] == API
    assert await desk.introspect(tokens.json["access_token"], by=other) == {"active": False}


async def test_a_resource_that_was_taken_from_the_client_is_in_no_new_token(desk):
    client = await desk.registered(resources=[API, LOGS])
    tokens = await redeem(desk, client, await code_of(desk, client, API, LOGS))

    assert (await desk.put(client, resources=[LOGS])).status == 200
    left = await refresh(desk, client, tokens.json["refresh_token"])
    assert audience(left) == LOGS
    assert (await desk.put(client, resources=[])).status == 200
    assert (await refresh(desk, client, left.json["refresh_token"])).outcome == (400, "invalid_target")


async def test_a_client_is_registered_with_absolute_uris(desk):
    assert (await desk.register(resources=["api"])).outcome == (400, "invalid_client_metadata")


async def test_what_was_authorized_waits_for_the_feature(tmp_path, database_url):
    """Nobody gets a token without its audience while the feature is gone, and nothing is lost."""
    again = {"database": {"url": database_url}, "cluster": {"key_file": str(tmp_path / "cluster.key")}}
    held: Any = None
    for number, features in enumerate((["resource-indicators"], [], ["resource-indicators"])):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with open_desk(folder, *features, **again) as desk:
            if held is None:
                client = await desk.registered(resources=[API])
                held = (await redeem(desk, client, await code_of(desk, client, API))).json["refresh_token"]
            elif features:
                assert audience(await refresh(desk, client, held)) == API
            else:
                assert (await refresh(desk, client, held)).status == 503
