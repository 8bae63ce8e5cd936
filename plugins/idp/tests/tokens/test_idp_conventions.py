"""What the document says of all answers: where they are, and how refusals look."""

import json
from hashlib import sha256
from typing import Any

import pytest

from greatseal.jose.compact import b64url_encode

VERIFIER = "correct-horse-battery-staple-correct-horse-battery"
CHALLENGE = b64url_encode(sha256(VERIFIER.encode()).digest())


async def published(desk: Any, name: str) -> dict[str, str]:
    """The URLs in a discovery document."""
    document = (await desk.get(f"/.well-known/{name}")).json
    return {member: value for member, value in document.items() if isinstance(value, str) and value.startswith("http")}


@pytest.mark.parametrize("name", ["openid-configuration", "oauth-authorization-server"])
async def test_idp_001_every_url_that_is_published_starts_with_the_issuer(start_desk: Any, name: str) -> None:
    desk = await start_desk(server={"issuer": "https://id.example.org/idp"})

    urls = await published(desk, name)

    assert urls.pop("issuer") == "https://id.example.org/idp"
    assert len(urls) >= 6
    assert all(url.startswith("https://id.example.org/idp/") for url in urls.values())


async def test_idp_002_paths_are_served_from_the_root_of_the_base_url(desk: Any) -> None:
    urls = await published(desk, "openid-configuration")
    issuer = urls.pop("issuer")

    for url in urls.values():
        assert (await desk.ask("OPTIONS", url.removeprefix(issuer))).status != 404, url
        assert (await desk.get(url.removeprefix(issuer))).status != 404, url


@pytest.mark.parametrize("pkce", [True, False])
async def test_idp_003_a_code_with_and_without_pkce_then_a_refresh(desk: Any, client: Any, pkce: bool) -> None:
    code = await desk.code(client, code_challenge=CHALLENGE if pkce else None)

    tokens = await desk.redeem(client, code, **({"code_verifier": VERIFIER} if pkce else {}))
    refreshed = await desk.refresh(client, tokens.json["refresh_token"])

    assert (tokens.status, refreshed.status) == (200, 200)
    assert await desk.is_live(client, refreshed.json["access_token"])


async def test_idp_208_parameters_and_bodies_are_those_of_the_rfcs(desk: Any, client: Any) -> None:
    token = (await desk.own_token(client, scope="api")).json
    assert token.keys() == {"access_token", "token_type", "expires_in", "scope"}
    form = {"token": token["access_token"], "token_type_hint": "access_token"}

    shown = await desk.form("/introspect", client, form)
    revoked = await desk.form("/revoke", client, form)
    pushed = await desk.form(
        "/par",
        client,
        {"response_type": "code", "redirect_uri": client.redirect_uris[0], "scope": "openid", "code_challenge": CHALLENGE,
         "code_challenge_method": "S256"},
    )  # fmt: skip

    assert {"active", "scope", "client_id", "token_type", "exp", "iat", "sub", "iss", "jti", "aud"} <= shown.json.keys()
    assert (revoked.status, revoked.body) == (200, b"")
    assert (pushed.status, pushed.json.keys()) == (201, {"request_uri", "expires_in"})
    for path in ("/token", "/introspect", "/revoke", "/par"):
        answer = await desk.form(path, client, {})
        assert (answer.status, answer.error) == (400, "invalid_request"), path


async def test_idp_359_idp_362_what_is_missing_wrong_expired_or_revoked_is_401(desk: Any, client: Any) -> None:
    expired = (await desk.tokens(client))["access_token"]
    desk.clock.advance(3601)
    revoked = (await desk.tokens(client))["access_token"]
    await desk.form("/revoke", client, {"token": revoked})

    answers = [
        *[await desk.userinfo(token) for token in (expired, revoked, "x")],
        await desk.get("/userinfo"),
        await desk.get("/api/admin/clients"),
        await desk.form("/token", None, {"grant_type": "client_credentials", "client_id": client.client_id, "client_secret": "x"}),
    ]

    for answer in answers:
        assert answer.status == 401
        assert answer.json.keys() >= {"error", "error_description"}
        assert json.dumps(answer.json).isascii()
