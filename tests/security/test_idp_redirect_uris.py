"""A redirect is for the registered URI alone, wherever one is named: S001 to S007, B1, B2 and B15. All of the forms: test_idp_redirects."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from security.idp_desk import BROWSER, Desk, open_desk

from greatseal.testing.desk import CALLBACK, Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path_factory.mktemp("idp")) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(desk: Desk) -> str:
    return await desk.cookie("ann")


async def refused_here(desk: Desk, ann: str, uri: str) -> bool:
    """With a session or without, for browsers and programs, alone and together with other errors."""
    for sent, headers, changes in (
        ("", None, {}),
        (ann, BROWSER, {}),
        (ann, None, {"prompt": "none"}),
        (ann, None, {"response_type": "token", "scope": None, "response_mode": "fragment"}),
    ):
        answer = await desk.authorize(sent, headers=headers, redirect_uri=uri, **changes)
        if not (answer.shown and answer.status == 400) or uri in answer.text:
            return False
    pushed = await desk.push(redirect_uri=uri)
    return pushed.status == 400 and "Location" not in pushed.headers


@pytest.mark.parametrize(
    "uri", [CALLBACK + "/more", CALLBACK + "#x", "https://APP.example/callback", "https://app.example/x/../callback", "http://127.1/cb"]
)
async def test_s001_s004_s005_b1_a_similar_redirect_uri_is_not_the_registered_one(desk, ann, uri):
    assert await refused_here(desk, ann, uri)


@pytest.mark.parametrize(
    "uri",
    [
        "https://user@app.example/callback",
        "https://app.example\\@evil.example/callback",
        "https://app.example/call\nback",
        "http://LOCALHOST/cb",
        "http://app.example/cb",
        "http://localhost.evil.example/cb",
        "ftp://app.example/",
        "javascript:alert(1)",
        "app.example:/callback",
    ],
)
async def test_s002_s003_s006_s007_s052_b15_idp_023_idp_356_what_is_no_redirect_uri_is_not_registered_either(desk, ann, uri):
    for refused in (await desk.register(redirect_uris=[uri]), await desk.put(desk.client, redirect_uris=[CALLBACK, uri])):
        assert refused.outcome == (400, "invalid_redirect_uri")
    assert (await desk.register(post_logout_redirect_uris=[uri])).outcome == (400, "invalid_redirect_uri")
    assert await refused_here(desk, ann, uri)


async def test_s006_b2_the_port_of_a_loopback_uri_may_vary_and_nothing_else(desk, ann):
    client = await desk.registered(consent="explicit", redirect_uris=["http://localhost:3000/cb?a=1"])

    async def asked(uri: str) -> Answer:
        return await desk.authorize(ann, client_id=client["client_id"], redirect_uri=uri)

    other_port = await asked("http://localhost:51004/cb?a=1")
    assert other_port.location.startswith("/api/auth/consent")
    for uri in ("http://localhost:51004/cb", "http://127.0.0.1:3000/cb?a=1", "http://localhost:99999/cb?a=1"):
        assert (await asked(uri)).shown
