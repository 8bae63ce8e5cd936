"""The modules of the public OpenID Connect dynamic plan that this provider offers something for, one test each, named after it.

Not offered: sector identifiers (``subject_types_supported`` is ``public``) and request objects by reference. The module about the
redirect URI in a request object is in test_fapi2_message_signing.py.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc import jwt
from joserfc.jwk import KeySet
from rig.documents import documents
from system.oidc.relying import CALLBACK, Browser, RelyingParty

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import sign_compact
from greatseal.jose.jwk import jwk_of

Register = Callable[..., Awaitable[RelyingParty]]
TOKEN = "the-suite-has-an-initial-access-token"
KEY = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
async def provider(start_service: Any, people: Path, clock: Any) -> Any:
    """As the suite needs it: registration with a token, and key sets at private addresses."""
    return await start_service(
        "idp",
        "resolver",
        "users-file",
        "client-auth-jwt",
        "registration",
        users={"file": str(people)},
        rbac={"role": [{"name": "administrator", "permissions": ["*"], "groups": ["administrators"]}]},
        server={"auth_rate_limit": 0, "registration_token": TOKEN},
        oauth={"allow_private_jwks_hosts": True},
        resolver={"hosts": {"rp.example": ["127.0.0.1"]}},
        clock=clock,
    )


class Refused(Exception):
    """A registration that was refused: its error."""


@pytest.fixture
async def register(provider: Any) -> AsyncIterator[Register]:
    """``await register(**metadata)``: a relying party that registered itself."""
    browser = Browser(provider.url)
    async with browser.session.get(f"{provider.url}/.well-known/openid-configuration") as reply:
        metadata = await reply.json()

    async def made(**more: Any) -> RelyingParty:
        body = {"redirect_uris": [CALLBACK], "client_name": "Suite", "scope": "openid profile offline_access", **more}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with browser.session.post(metadata["registration_endpoint"], json=body, headers=headers) as reply:
            answer = await reply.json()
        if reply.status != 201:
            raise Refused(answer["error"])
        return RelyingParty(browser, metadata, answer)

    yield made
    await browser.session.close()


async def test_oidcc_discovery_endpoint_verification(register: Register) -> None:
    metadata = (await register()).metadata

    assert metadata["registration_endpoint"] == f"{metadata['issuer']}/register"
    assert "code" in metadata["response_types_supported"]
    assert "RS256" in metadata["id_token_signing_alg_values_supported"]


async def test_oidcc_server(register: Register) -> None:
    assert (await (await register()).sign_in())["claims"]["sub"] == "alice@LOCALHOST"


async def test_oidcc_idtoken_rs256(register: Register) -> None:
    rp = await register(id_token_signed_response_alg="RS256")

    tokens = await rp.sign_in()

    async with rp.browser.session.get(rp.metadata["jwks_uri"]) as reply:
        keys = KeySet.import_key_set(await reply.json(content_type=None))
    assert jwt.decode(tokens["id_token"], keys, algorithms=["RS256"]).header["alg"] == "RS256"


async def test_oidcc_idtoken_unsigned(register: Register) -> None:
    with pytest.raises(Refused, match="invalid_client_metadata"):
        await register(id_token_signed_response_alg="none")


async def test_oidcc_userinfo_rs256(register: Register) -> None:
    rp = await register(userinfo_signed_response_alg="RS256")
    tokens = await rp.sign_in()

    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    async with rp.browser.session.get(rp.metadata["userinfo_endpoint"], headers=headers) as reply:
        signed = await reply.text()

    assert reply.content_type == "application/jwt"
    async with rp.browser.session.get(rp.metadata["jwks_uri"]) as reply:
        keys = KeySet.import_key_set(await reply.json(content_type=None))
    claims = jwt.decode(signed, keys, algorithms=["RS256"]).claims
    assert (claims["sub"], claims["aud"], claims["iss"]) == ("alice@LOCALHOST", rp.client_id, rp.metadata["issuer"])


async def test_oidcc_redirect_uri_query_ok(register: Register) -> None:
    there = f"{CALLBACK}?foo=bar"
    rp = await register(redirect_uris=[there])

    _, answer = await rp.authorize(redirect_uri=there)

    assert (answer["foo"], bool(answer["code"])) == ("bar", True)


@pytest.mark.parametrize("asked", [f"{CALLBACK}?foo=bar", f"{CALLBACK}?"])
async def test_oidcc_redirect_uri_query_added(register: Register, asked: str) -> None:
    rp = await register()

    page = await rp.begin(rp.request(redirect_uri=asked))

    assert (page.status, page.url.startswith(rp.metadata["issuer"])) == (400, True)


async def test_oidcc_redirect_uri_query_mismatch(register: Register) -> None:
    rp = await register(redirect_uris=[f"{CALLBACK}?foo=bar"])

    assert (await rp.begin(rp.request(redirect_uri=f"{CALLBACK}?foo=baz"))).status == 400


async def test_oidcc_redirect_uri_regfrag(register: Register) -> None:
    with pytest.raises(Refused, match="invalid_redirect_uri"):
        await register(redirect_uris=[f"{CALLBACK}#foobar"])


async def test_oidcc_ensure_redirect_uri_in_authorization_request(register: Register) -> None:
    rp = await register()

    page = await rp.begin(rp.request(redirect_uri=None))

    assert (page.status, page.url.startswith(rp.metadata["issuer"])) == (400, True)


async def test_oidcc_refresh_token(register: Register) -> None:
    rp = await register()
    tokens = await rp.sign_in(scope="openid offline_access", prompt="consent")

    status, fresh = await rp.token(grant_type="refresh_token", refresh_token=tokens["refresh_token"])

    assert status == 200
    assert (await rp.verify(fresh["id_token"]))["sub"] == tokens["claims"]["sub"]


async def proven(rp: RelyingParty, clock: Any, key: Any, kid: str, *, aud: str = "", **form: str) -> tuple[int, Any]:
    """A token request with an assertion under that key; ``aud`` is the token endpoint unless it is given."""
    now = clock.now() // 1_000_000
    claims = {
        "iss": rp.client_id,
        "sub": rp.client_id,
        "aud": aud or rp.metadata["token_endpoint"],
        "exp": now + 60,
        "jti": token_urlsafe(),
    }
    signed = sign_compact({"alg": "ES256", "kid": kid}, json.dumps(claims).encode(), lambda text: ALGORITHMS["ES256"].sign(key, text))
    form |= {"client_assertion": signed, "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}
    async with rp.browser.session.post(rp.metadata["token_endpoint"], data=form) as reply:
        return reply.status, await reply.json()


async def test_oidcc_registration_jwks_uri_and_refresh_token_rp_key_rotation(
    register: Register, clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with documents(tmp_path, monkeypatch, "rp.example") as web:
        web.pages["/jwks"] = {"keys": [{**jwk_of(KEY.public_key()), "kid": "one"}]}
        rp = await register(token_endpoint_auth_method="private_key_jwt", jwks_uri=web.url("/jwks"))
        _, answer = await rp.authorize(scope="openid offline_access", prompt="consent")
        code = {"grant_type": "authorization_code", "code": answer["code"], "redirect_uri": CALLBACK}
        status, tokens = await proven(rp, clock, KEY, "one", **code)
        assert status == 200, tokens
        assert (await rp.verify(tokens["id_token"]))["aud"] == rp.client_id

        new = ec.generate_private_key(ec.SECP256R1())
        web.pages["/jwks"] = {"keys": [{**jwk_of(new.public_key()), "kid": "two"}]}
        clock.advance(31)
        refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        status, fresh = await proven(rp, clock, new, "two", **refresh)

    assert status == 200, fresh
    assert fresh["refresh_token"] != tokens["refresh_token"]


async def test_oidcc_ensure_client_assertion_with_iss_aud_succeeds(register: Register, clock: Any) -> None:
    rp = await register(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [{**jwk_of(KEY.public_key()), "kid": "one"}]})
    _, answer = await rp.authorize()
    code = {"grant_type": "authorization_code", "code": answer["code"], "redirect_uri": CALLBACK}

    status, tokens = await proven(rp, clock, KEY, "one", aud=rp.metadata["issuer"], **code)

    assert status == 200, tokens


@pytest.mark.parametrize("link", ["policy_uri", "tos_uri", "logo_uri"])
async def test_oidcc_registration_policy_uri_tos_uri_and_logo_uri(register: Register, link: str) -> None:
    rp = await register(**{link: "https://rp.example/words"})

    page = await rp.browser.finish(await rp.begin(rp.request(prompt="consent")))

    assert page.url.startswith(CALLBACK)
    attribute = "src" if link == "logo_uri" else "href"
    assert any(f'{attribute}="https://rp.example/words"' in one.text for one in rp.browser.shown)


@pytest.mark.parametrize("alg", [None, "RS256"])
async def test_oidcc_request_uri_unsigned_and_signed_rs256(register: Register, alg: str | None) -> None:
    rp = await register(**({} if alg is None else {"jwks": {"keys": [jwk_of(KEY.public_key())]}}))

    _, answer = await rp.authorize(request_uri="https://rp.example/request")

    assert answer["error"] == "request_uri_not_supported"
    assert rp.metadata["request_uri_parameter_supported"] is False


async def test_oidcc_server_rotate_keys(register: Register, provider: Any) -> None:
    rp = await register()
    before = (await rp.sign_in())["id_token"]
    admin = Browser(provider.url)
    async with admin.session.post(
        f"{provider.url}/api/auth/login", json={"username": "admin", "password": "correct horse battery"}
    ) as reply:
        assert reply.status == 200
    async with admin.session.post(f"{provider.url}/api/admin/keys/rotate", json={}) as reply:
        assert reply.status in {200, 201}
    await admin.session.close()

    after = (await rp.sign_in())["id_token"]

    assert before.split(".")[0] != after.split(".")[0]
    assert (await rp.verify(before))["sub"] == (await rp.verify(after))["sub"]
