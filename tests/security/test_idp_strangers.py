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
from security.idp_desk import Desk, open_desk

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import Answer
from greatseal_ciba.tables import request as ciba_requests

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = ec.generate_private_key(ec.SECP256R1())
TOKEN = "let-the-programs-in-0123456789"
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
    features = ("client-auth-jwt", "resolver", "registration", "ciba")
    async with open_desk(tmp_path_factory.mktemp("idp"), *features, **sections) as desk:
        yield desk


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
    opened = await desk.post("/register", json=POLLED, headers={"Authorization": f"Bearer {TOKEN}"})
    assert opened.outcome == (400, "invalid_client_metadata")
    assert await desk.rows(ciba_requests) == []
