"""A redirect is for the registered URI alone: S001 to S007, B1, B2 and B15."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from security.idp_desk import BROWSER, CALLBACK, Answer, Desk, open_desk

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path_factory.mktemp("idp")) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(desk: Desk) -> str:
    return await desk.login("ann")


SIMILAR = (
    CALLBACK + "/more",
    CALLBACK + "/",
    CALLBACK + "?x=1",
    CALLBACK + "?",
    CALLBACK + "#x",
    CALLBACK + "#",
    "https://app.example./callback",
    "https://app.example/Callback",
    "https://APP.example/callback",
    "HTTPS://app.example/callback",
    "https://app.example:443/callback",
    "http://app.example/callback",
    "https://app.example/callbac%6b",
    "https://app.example/callback%2f",
    "https://app.example/callbac",
    "https://app.example",
)
USERINFO = (
    "https://app.example@evil.example/callback",
    "https://app.example:x@evil.example/callback",
    "https://a@b@app.example/callback",
    "https://app.example%40evil.example/callback",
    "https://user@app.example/callback",
)
ODD = (
    "https://app.example\\@evil.example/callback",
    "https:\\\\app.example/callback",
    "https://app.example/callback\t",
    "https://app.example/call\nback",
    "https://app.example/callback\x00",
    " https://app.example/callback",
    "\x01https://app.example/callback",
    "https://app.example/callback ",
    "https://app.example/\uff43allback",
    "https://\uff41pp.example/callback",
)
TRAVERSAL = (
    "https://app.example/callback/..",
    "https://app.example/callback/../../evil",
    "https://app.example/x/../callback",
    "https://app.example/%2e%2e/callback",
    "https://app.example/callback/..;/evil",
    "https://app.example//callback",
    "https://app.example/./callback",
)
HOSTS = (
    "https://app.example.evil.example/callback",
    "https://evilapp.example/callback",
    "http://localhost.evil.example/callback",
    "http://127.0.0.1.evil.example/callback",
)
SCHEMES = ("javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "app.example:/callback")


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


@pytest.mark.parametrize("uri", SIMILAR)
async def test_s001_b1_a_similar_redirect_uri_is_not_the_registered_one(desk, ann, uri):
    assert await refused_here(desk, ann, uri)


@pytest.mark.parametrize("uri", USERINFO)
async def test_s002_user_information_in_the_redirect_uri(desk, ann, uri):
    assert await refused_here(desk, ann, uri)
    assert (await desk.register(redirect_uris=[uri])).status == 400


@pytest.mark.parametrize("uri", ODD)
async def test_s003_odd_characters_in_the_redirect_uri(desk, ann, uri):
    assert await refused_here(desk, ann, uri)
    assert (await desk.register(redirect_uris=[uri])).status == 400


@pytest.mark.parametrize("uri", TRAVERSAL)
async def test_s004_paths_that_lead_elsewhere(desk, ann, uri):
    assert await refused_here(desk, ann, uri)


@pytest.mark.parametrize("uri", HOSTS)
async def test_s005_hosts_that_look_alike(desk, ann, uri):
    assert await refused_here(desk, ann, uri)
    if uri.startswith("http:"):
        assert (await desk.register(redirect_uris=[uri])).status == 400


@pytest.mark.parametrize(
    "uri",
    [
        "http://0.0.0.0/cb",
        "http://127.1/cb",
        "http://2130706433/cb",
        "http://[::ffff:127.0.0.1]/cb",
        "http://LOCALHOST/cb",
        "http://127.0.0.2/cb",
        "http://app.example/cb",
    ],
)
async def test_s006_b15_only_three_hosts_may_have_plain_http(desk, ann, uri):
    assert (await desk.register(redirect_uris=[uri])).status == 400
    assert (await desk.put(desk.client, redirect_uris=[uri])).status == 400
    assert await refused_here(desk, ann, uri)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
async def test_s006_b2_the_port_of_a_loopback_uri_may_vary_and_nothing_else(desk, ann, host):
    client = await desk.registered(consent="explicit", redirect_uris=[f"http://{host}:3000/cb?a=1"])

    async def asked(uri: str) -> Answer:
        return await desk.authorize(ann, client_id=client["client_id"], redirect_uri=uri)

    other_port = await asked(f"http://{host}:51004/cb?a=1")
    assert other_port.location.startswith("/api/auth/consent")
    for uri in (f"http://{host}:51004/cb", f"http://{host}:51004/cb?a=2", f"http://{host}:51004/cb/?a=1", f"https://{host}:51004/cb?a=1"):
        assert (await asked(uri)).shown
    for elsewhere in {"localhost", "127.0.0.1", "[::1]"} - {host}:
        assert (await asked(f"http://{elsewhere}:3000/cb?a=1")).shown
    for port in ("0", "99999", "x", "80@evil.example"):
        assert (await asked(f"http://{host}:{port}/cb?a=1")).shown


@pytest.mark.parametrize("uri", SCHEMES)
async def test_s007_other_schemes(desk, ann, uri):
    assert (await desk.register(redirect_uris=[uri])).status == 400
    assert (await desk.put(desk.client, redirect_uris=[uri])).status == 400
    assert await refused_here(desk, ann, uri)
