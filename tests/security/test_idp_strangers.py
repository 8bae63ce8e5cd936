"""Applications that nobody here has looked at: whoever publishes a metadata document is a client, or registers itself."""

import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec
from rig.documents import Documents, documents
from security.idp_ciba import ENDPOINT
from security.idp_ciba import GRANT as CIBA
from security.idp_desk import BROWSER, Desk, open_desk

from greatseal.db.core_tables import strike
from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import CALLBACK, Answer, told
from greatseal_ciba.tables import request as ciba_requests
from greatseal_idp.clients import authentication

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = ec.generate_private_key(ec.SECP256R1())
TOKEN = "let-the-programs-in-0123456789"
BY_TOKEN = {"Authorization": f"Bearer {TOKEN}"}
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
POLLED = {"grant_types": [CIBA], "backchannel_token_delivery_mode": "poll"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Documents]:
    with pytest.MonkeyPatch.context() as patch:
        async with documents(tmp_path_factory.mktemp("web"), patch) as web:
            yield web


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory, web: Documents) -> AsyncIterator[Desk]:
    sections = {
        "server": {"registration_token": TOKEN, "auth_rate_limit": 3},
        "registration": {"client_id_documents": True, "allow_private_client_id_hosts": True},
        "resolver": {"hosts": {web.name: ["127.0.0.1"]}},
    }
    features = ("client-auth-jwt", "resolver", "registration", "ciba", "device-flow")
    async with open_desk(tmp_path_factory.mktemp("idp"), *features, **sections) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(desk: Desk) -> str:
    return await desk.cookie("ann")


def published(web: Documents, path: str, **members: Any) -> str:
    """The id of a client that proves itself by a key in its own document."""
    url, keys = web.url(path), {"keys": [jwk_of(KEY.public_key())]}
    web.pages[path] = {"client_id": url, "token_endpoint_auth_method": "private_key_jwt", "jwks": keys, **members}
    return url


async def post(desk: Desk, path: str, client_id: str, **form: str) -> Answer:
    """A form of such a client, with its proof."""
    now = desk.clock.now() // 1_000_000
    claims = {"iss": client_id, "sub": client_id, "aud": desk.url, "exp": now + 60, "jti": secrets.token_hex()}
    assertion = sign_compact({"alg": "ES256"}, json.dumps(claims).encode(), lambda text: ALGORITHMS["ES256"].sign(KEY, text))
    proof = {"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_assertion": assertion}
    return await desk.post(path, data={**form, **proof})


async def test_s033_a_stranger_asks_nobody_by_name_and_learns_no_names(desk: Desk, web: Documents) -> None:
    url = published(web, "/ciba.json", **POLLED)
    there, nobody = [await post(desk, ENDPOINT, url, scope="openid", login_hint=name) for name in ("ann", "nobody")]

    assert there.outcome == (400, "invalid_client_metadata"), there.text
    assert (there.status, there.text) == (nobody.status, nobody.text)
    opened = await desk.post("/register", json=POLLED, headers=BY_TOKEN)
    assert opened.outcome == (400, "invalid_client_metadata")
    assert await desk.rows(ciba_requests) == []


async def test_s033_who_confirms_a_device_sees_where_its_application_comes_from(desk: Desk, web: Documents, ann: str) -> None:
    url = published(web, "/device.json", client_name="Your company", grant_types=[DEVICE])
    code = (await post(desk, "/device_authorization", url, scope="openid")).json["user_code"]

    page = await desk.get(f"/device?user_code={code}", cookie=ann, headers=BROWSER)
    assert "Your company" in page.text
    assert f"It comes from <strong>{web.name}:{web.port}</strong>" in page.text
    shown = await desk.get(f"/api/auth/device?user_code={code}", cookie=ann)
    assert shown.json["client_host"] == f"{web.name}:{web.port}"


@pytest.mark.parametrize(
    ("path", "members", "form"),
    [
        ("/device_authorization", {"grant_types": [DEVICE]}, {"scope": "openid"}),
        ("/par", {"redirect_uris": [CALLBACK]}, {"scope": "openid", "response_type": "code", "redirect_uri": CALLBACK}),
    ],
)
async def test_requests_of_anybody_are_as_many_as_those_of_public_clients(desk: Desk, web: Documents, path, members, form) -> None:
    """The key that proves such a client is its own, so the proof is worth nothing: each request is a row."""
    urls = [published(web, f"{path}{number}.json", **members) for number in range(2)]
    answers = [(await post(desk, path, url, **form)).status for url in urls for _ in range(20)]

    assert sorted(set(answers)) == [answers[0], 429], answers
    assert answers.count(429) >= 10


@pytest.mark.parametrize("turned", ["Your \u202eynapmoc", "a\u2066b", "\u200fa", "a\u061c"])
async def test_s150_a_name_that_turns_the_line_around_is_none(desk: Desk, turned: str) -> None:
    refused = await desk.post("/register", json={"client_name": turned, "redirect_uris": [CALLBACK]}, headers=BY_TOKEN)

    assert refused.outcome == (400, "invalid_client_metadata")
    assert refused.json["error_description"].startswith("client_name")


async def test_names_in_letters_that_run_to_the_left_are_names(desk: Desk) -> None:
    for name in ("שלום", "عليكم"):
        made = await desk.post("/register", json={"client_name": name, "redirect_uris": [CALLBACK]}, headers=BY_TOKEN)
        assert (made.status, made.json["client_name"]) == (201, name)


@pytest.mark.parametrize("wrong", [{"scope": "nothing"}, {"response_type": "token"}, {"request": "e30.e30."}, {"prompt": "none login"}])
async def test_s009_a_link_to_this_service_does_not_lead_to_a_stranger(desk: Desk, web: Documents, ann: str, wrong: dict[str, str]) -> None:
    """RFC 9700 s4.11.2: who follows it sees the refusal here, unless they are signed in."""
    stranger = published(web, "/phish.json", redirect_uris=[CALLBACK])

    assert (await desk.authorize(client_id=stranger, **wrong)).shown
    assert "error" in told(await desk.authorize(ann, client_id=stranger, **wrong))
    assert told(await desk.authorize(client_id=stranger, scope="openid", prompt="none"))["error"] == "login_required"
    assert "error" in told(await desk.authorize(**wrong)), "a client that was let in is told"


async def test_proofs_of_a_key_that_anybody_may_have_published_are_counted(
    desk: Desk, web: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is used up in a row, whatever the request asks for."""
    urls = [published(web, f"/proof{number}.json", redirect_uris=[CALLBACK]) for number in range(2)]
    desk.clock.advance(61)
    before = len(await desk.rows(strike))
    monkeypatch.setattr(authentication, "PUBLISHED", 3)
    answers = [await post(desk, "/token", url, grant_type="refresh_token", refresh_token="x") for url in urls for _ in range(4)]

    assert [answer.status for answer in answers] == [400] * 3 + [429] * 5
    assert int(answers[-1].headers["Retry-After"]) <= 60
    assert len(await desk.rows(strike)) == before + 3
