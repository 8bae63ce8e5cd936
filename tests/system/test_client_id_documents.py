"""A client whose id is the https URL of its metadata (OAuth Client ID Metadata Document), from the consent page to its tokens."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from rig.documents import Documents, documents
from security.idp_desk import BROWSER, Desk, open_desk

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_decode, sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import CALLBACK, VERIFIER, Answer, hidden_fields, told

KEY = ec.generate_private_key(ec.SECP256R1())
API = "https://api.example/mcp"
PATH = "/oauth/client.json"
BEYOND = "a" * 5_200


@pytest.fixture
async def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Documents]:
    async with documents(tmp_path, monkeypatch) as web:
        publish(web)
        yield web


@pytest.fixture
async def desk(tmp_path: Path, web: Documents) -> AsyncIterator[Desk]:
    async with opened(tmp_path) as desk:
        yield desk


def opened(folder: Path, **registration: Any) -> Any:
    settings = {"client_id_documents": True, "allow_private_client_id_hosts": True, "resources": [API], **registration}
    hosts = {"client.example": ["127.0.0.1"]}
    features = ("client-auth-jwt", "resolver", "registration", "resource-indicators")
    oauth = {"allow_private_jwks_hosts": True}
    return open_desk(folder, *features, registration=settings, resolver={"hosts": hosts}, oauth=oauth)


def publish(web: Documents, path: str = PATH, **changes: Any) -> str:
    """The document at a path, and its URL."""
    document = {"client_id": web.url(path), "client_name": "Assistant", "redirect_uris": [CALLBACK], **changes}
    web.pages[path] = {name: value for name, value in document.items() if value is not None}
    return web.url(path)


async def ask(desk: Desk, client_id: str, **more: Any) -> Answer:
    return await desk.authorize(await desk.cookie("ann"), client_id=client_id, scope="openid profile offline_access", **more)


async def consent_of(desk: Desk, client_id: str, **more: Any) -> tuple[Answer, str]:
    cookie = await desk.cookie("ann")
    asked = await desk.authorize(cookie, client_id=client_id, scope="openid profile", **more)
    assert asked.status == 303, asked.text
    return await desk.get(asked.location, cookie=cookie, headers=BROWSER), cookie


async def code_of(desk: Desk, client_id: str, **more: Any) -> str:
    page, cookie = await consent_of(desk, client_id, **more)
    return told(await desk.approve(cookie, hidden_fields(page)))["code"]


async def test_an_agent_signs_a_person_in_without_any_registration(desk: Desk, web: Documents) -> None:
    url = web.url(PATH)
    page, cookie = await consent_of(desk, url, resource=API)
    code = told(await desk.approve(cookie, hidden_fields(page)))["code"]
    public = {"client_id": url, "token_endpoint_auth_method": "none"}
    answer = await desk.redeem(code, by=public, resource=API)

    assert f"<strong>client.example:{web.port}</strong>" in page.text
    assert "Assistant" in page.text
    assert answer.status == 200, answer.text
    claims = json.loads(b64url_decode(answer.json["access_token"].split(".")[1]))
    assert (claims["client_id"], claims["aud"]) == (url, API)
    assert web.asked == [PATH]  # fetched once
    assert (await desk.redeem(code, by=public)).outcome == (400, "invalid_grant")
    assert (await desk.redeem(code, by=public)).status == 400


async def test_a_person_is_asked_once_and_refresh_tokens_rotate(desk: Desk, web: Documents) -> None:
    url = web.url(PATH)
    public = {"client_id": url, "token_endpoint_auth_method": "none"}
    cookie = await desk.cookie("ann")
    code = await desk.code(cookie, client_id=url, scope="openid profile")

    assert (await desk.redeem(code, by=public)).status == 200
    again = await desk.authorize(cookie, client_id=url, scope="openid profile")
    assert "code" in told(again)


async def test_it_may_prove_itself_by_keys_that_the_document_names(desk: Desk, web: Documents) -> None:
    web.pages["/jwks"] = {"keys": [{**jwk_of(KEY.public_key()), "kid": "k"}]}
    url = publish(web, "/private.json", token_endpoint_auth_method="private_key_jwt", jwks_uri=web.url("/jwks"))
    code = await code_of(desk, url)
    now = int(time.time())
    claims = {"iss": url, "sub": url, "aud": desk.url, "exp": now + 60, "iat": now, "jti": "j"}
    assertion = sign_compact({"alg": "ES256", "kid": "k"}, json.dumps(claims).encode(), lambda text: ALGORITHMS["ES256"].sign(KEY, text))
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    proof = {"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_assertion": assertion}

    unproven = await desk.post("/token", data={**form, "client_id": url})
    proven = await desk.post("/token", data={**form, **proof})

    assert unproven.outcome == (401, "invalid_client")
    assert proven.status == 200, proven.text


async def test_the_metadata_say_that_it_works(desk: Desk) -> None:
    for name in ("openid-configuration", "oauth-authorization-server"):
        found = (await desk.get(f"/.well-known/{name}")).json
        assert found["client_id_metadata_document_supported"] is True
        assert "registration_endpoint" not in found


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"client_id": "https://client.example/another.json"}, "another client_id"),
        ({"client_id": None}, "another client_id"),
        ({"client_secret": "s" * 43}, "must not have client_secret"),
        ({"client_secret_expires_at": 0}, "must not have client_secret_expires_at"),
        ({"token_endpoint_auth_method": "client_secret_basic"}, "no shared secret"),
        ({"token_endpoint_auth_method": "client_secret_jwt"}, "no shared secret"),
        ({"token_endpoint_auth_method": 7}, "token_endpoint_auth_method"),
        ({"token_endpoint_auth_method": "kerberos_client_auth"}, "token_endpoint_auth_method"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "jwks"),
        ({"redirect_uris": ["http://app.example/"]}, "redirect_uris"),
        ({"redirect_uris": CALLBACK}, "redirect_uris"),
        ({"consent": "implicit"}, "consent"),
        ({"scope": "openid introspect"}, "introspect"),
        ({"resources": ["https://other.example"]}, "resources"),
    ],
)
async def test_a_document_that_breaks_a_rule_is_refused_with_the_rule(desk: Desk, web: Documents, changes: Any, said: str) -> None:
    url = publish(web, **changes)

    answer = await ask(desk, url)

    assert answer.status == 400
    assert "Location" not in answer.headers
    assert said in answer.json["error_description"]
    publish(web)
    assert (await ask(desk, url)).status == 303  # errors are not kept


async def test_a_document_shows_no_picture(desk: Desk, web: Documents) -> None:
    """Anybody writes one, with the logo of somebody else."""
    page, _ = await consent_of(desk, publish(web, logo_uri=web.url("/logo.png")))

    assert "client-logo" not in page.text
    assert "img-src 'none'" in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("page", "status"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 400),
        (b"HTTP/1.1 301 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", 503),
        (b"HTTP/1.1 500 Sorry\r\nContent-Length: 0\r\n\r\n", 400),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 400),
        (json.dumps({"client_name": BEYOND}).encode(), 503),
        (b"[]", 400),
        (b'{"client_id": 1, "client_id": 2}', 400),
        (b"\xff\xfe", 400),
        (b"", 400),
    ],
)
async def test_what_is_no_document_is_nobody(desk: Desk, web: Documents, page: bytes, status: int) -> None:
    web.pages[PATH] = page
    web.pages["/elsewhere"] = {"client_id": web.url(PATH), "redirect_uris": [CALLBACK]}

    answer = await ask(desk, web.url(PATH))

    assert answer.status == status
    assert "Location" not in answer.headers
    assert web.asked == [PATH]  # no redirect was followed


async def test_what_comes_with_a_refusal_is_no_document(desk: Desk, web: Documents) -> None:
    body = json.dumps(web.pages[(url := publish(web)).removeprefix(web.url(""))]).encode()
    web.pages[PATH] = b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    assert (await ask(desk, url)).status == 400


@pytest.mark.parametrize("path", ["/a/../client.json", "/./x", "/%2e%2e/x", "/", "", "/x#y", "/a b", "/ä", "/\\x"])
async def test_a_url_that_is_odd_is_no_client_and_is_not_fetched(desk: Desk, web: Documents, path: str) -> None:
    answer = await ask(desk, web.url(path))

    assert answer.status == 400
    assert web.asked == []


@pytest.mark.parametrize("name", ["user@client.example", "user:pw@client.example", "CLIENT.example", "client.example."])
async def test_a_host_that_is_odd_is_no_client(desk: Desk, web: Documents, name: str) -> None:
    assert (await ask(desk, f"https://{name}:{web.port}{PATH}")).status in {400, 503}
    assert (await ask(desk, f"http://client.example:{web.port}{PATH}")).status == 400
    assert web.asked == []


async def test_special_addresses_are_not_asked(tmp_path: Path, web: Documents) -> None:
    async with opened(tmp_path, allow_private_client_id_hosts=False) as desk:
        for name in ("client.example", "127.0.0.1", "[::1]", "localhost", "169.254.169.254"):
            answer = await ask(desk, f"https://{name}:{web.port}{PATH}")
            assert answer.status == 503
            assert "127.0.0.1" not in answer.json["error_description"]

    assert web.asked == []


async def test_only_listed_hosts_are_asked_where_there_is_a_list(tmp_path: Path, web: Documents) -> None:
    async with opened(tmp_path, client_id_hosts=["other.example", f"client.example:{web.port + 1}"]) as desk:
        assert (await ask(desk, web.url(PATH))).status == 400
    assert web.asked == []


async def test_without_the_key_a_url_is_nobody(tmp_path: Path, web: Documents) -> None:
    async with opened(tmp_path, client_id_documents=False) as desk:
        assert (await ask(desk, web.url(PATH))).status == 400
        assert "client_id_metadata_document_supported" not in (await desk.get("/.well-known/openid-configuration")).json
    assert web.asked == []


async def test_fifty_requests_fetch_one_document_and_a_change_is_seen_when_its_time_has_passed(desk: Desk, web: Documents) -> None:
    web.headers = "Cache-Control: max-age=120\r\n"
    cookie = await desk.cookie("ann")
    url = web.url(PATH)

    async def status(redirect_uri: str = CALLBACK) -> int:
        return (await desk.authorize(cookie, client_id=url, redirect_uri=redirect_uri)).status

    assert set(await asyncio.gather(*(status() for _ in range(50)))) == {303}
    assert web.asked == [PATH]
    publish(web, redirect_uris=["https://moved.example/cb"])
    assert (await status(), await status("https://moved.example/cb")) == (303, 400)
    desk.clock.advance(121)
    assert (await status(), await status("https://moved.example/cb")) == (400, 303)
    assert web.asked == [PATH, PATH]


async def test_many_unknown_urls_are_not_all_fetched(desk: Desk, web: Documents) -> None:
    cookie = await desk.cookie("ann")

    found = [(await desk.authorize(cookie, client_id=web.url(f"/none-{n}"))).status for n in range(40)]

    assert found == [400] * 30 + [503] * 10
    assert len(web.asked) == 30


async def test_who_names_many_urls_of_a_host_takes_nothing_from_its_clients(desk: Desk, web: Documents) -> None:
    cookie, url = await desk.cookie("ann"), web.url(PATH)
    assert (await desk.authorize(cookie, client_id=url)).status == 303
    desk.clock.advance(301)
    others = [(await desk.authorize(cookie, client_id=web.url(f"/none-{n}"))).status for n in range(40)]

    assert others.count(503) == 10
    assert (await desk.authorize(cookie, client_id=url)).status == 303
    assert web.asked.count(PATH) == 2
    web.pages[PATH] = None
    desk.clock.advance(301)
    gone = [(await desk.authorize(cookie, client_id=url)).status for _ in range(12)]
    assert gone == [400] * 10 + [503] * 2, "and not even a known place is asked over and over"
