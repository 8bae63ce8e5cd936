"""The modules of the public OpenID Connect config plan."""

import aiohttp
import pytest
from joserfc.jwk import KeySet


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as session:
        yield session


async def test_oidcc_discovery_endpoint_verification(provider, session):
    async with session.get(f"{provider.url}/.well-known/openid-configuration") as reply:
        assert reply.content_type == "application/json"
        metadata = await reply.json()

    assert metadata["issuer"] == provider.url
    assert {"openid"} <= set(metadata["scopes_supported"])
    assert "code" in metadata["response_types_supported"]
    assert "public" in metadata["subject_types_supported"]
    assert "RS256" in metadata["id_token_signing_alg_values_supported"]
    assert metadata["require_pushed_authorization_requests"] is False
    assert not [name for name, value in metadata.items() if value in ("", [], None)]
    assert all(value.startswith(provider.url) for name, value in metadata.items() if name.endswith(("_endpoint", "_uri")))


async def test_oidcc_jwks_holds_public_keys_with_their_names(provider, session):
    async with session.get(f"{provider.url}/jwks") as reply:
        found = await reply.json(content_type=None)

    KeySet.import_key_set(found)
    assert {key["alg"] for key in found["keys"]} >= {"ES256"}
    assert all({"kid", "use", "alg", "kty"} <= key.keys() and "d" not in key for key in found["keys"])
    assert len({key["kid"] for key in found["keys"]}) == len(found["keys"])
