"""The providers that people use, as they describe themselves and where they differ: each signs somebody in."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from rig.upstream import request_of
from security.idp_federation import ACCOUNTS, Federation, open_federation

from greatseal.jose.compact import parse_compact
from greatseal.jose.jwk import public_key
from greatseal.testing.desk import told
from greatseal_federation.settings import presets

PUBLISHED = Path(__file__).parents[1] / "rig/providers.json"
"""The metadata of each, with {origin} for where it is."""
TENANT = "11111111-2222-3333-4444-555555555555"


def published(name: str, origin: str) -> Any:
    text = json.dumps(json.loads(PUBLISHED.read_text())[name])
    return json.loads(text.replace("{origin}", origin).replace("{tenant}", TENANT))


@asynccontextmanager
async def provider(folder: Path, name: str, path: str = "", **table: Any) -> AsyncIterator[Federation]:
    """Of that preset, at the origin of the stub, whose issuer ends in ``path``."""
    async with open_federation(folder, path=path, table={"preset": name, "realm": "ELSEWHERE.EXAMPLE", **table}) as opened:
        if name != "github":
            opened.stub.metadata = published(name, opened.stub.url)
            opened.stub.claims["iss"] = opened.stub.metadata["issuer"]
            opened.stub.key, opened.stub.alg = rsa.generate_private_key(public_exponent=65537, key_size=2048), "RS256"
        yield opened


async def test_every_preset_is_tried_here() -> None:
    assert presets().keys() == json.loads(PUBLISHED.read_text()).keys() | {"github"}


async def test_google_names_itself_in_two_ways_and_hosts_domains(tmp_path: Path) -> None:
    table = {"require": {"hd": "example.org"}, "link_email_domains": ["example.org"], "display_name": None}
    async with provider(tmp_path, "google", **table) as opened:
        opened.stub.claims |= {
            "iss": "accounts.google.com", "sub": "10769150350006150715113082367", "azp": "greatseal", "hd": "example.org",
            "email": "ada@example.org", "email_verified": True, "sid": None,
        }  # fmt: skip

        request = await opened.begin()
        me = await opened.me(await opened.arrive(code=opened.stub.code(request), state=request["state"]))

        assert (request["hd"], me["sub"]) == ("example.org", "ada@ELSEWHERE.EXAMPLE")
        (linked,) = (await opened.desk.get(ACCOUNTS, cookie=opened.desk.admin)).json
        assert linked["issuer"] == opened.stub.url, "both spellings are one"
        (shown,) = (await opened.desk.get("/api/auth/providers")).json
        assert shown["display_name"] == "Google"
        again = await opened.begin(cookie=await opened.desk.cookie("ann"))
        assert (again["prompt"], again["max_age"]) == ("select_account", "0"), "login is no value that it knows"
        for hd in ("example.com", None):
            opened.stub.claims["hd"] = hd
            assert (await opened.sign_in()).status == 403


async def test_entra_has_the_tenant_in_its_issuer(tmp_path: Path) -> None:
    async with provider(tmp_path, "entra", f"/{TENANT}/v2.0") as opened:
        opened.stub.claims |= {
            "sub": "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ", "tid": TENANT, "ver": "2.0", "oid": "x", "rh": "0.x", "uti": "y",
            "preferred_username": "ada@contoso.example", "email": "ada@contoso.example", "name": "Ada",
        }  # fmt: skip

        assert (await opened.me(await opened.sign_in()))["sub"] == "ada@ELSEWHERE.EXAMPLE"


async def test_entra_for_many_tenants_lets_in_those_that_are_named(tmp_path: Path) -> None:
    other = TENANT.replace("1", "9")
    async with provider(tmp_path, "entra", "/organizations/v2.0", tenants=[TENANT]) as opened:
        opened.stub.metadata["issuer"] = f"{opened.stub.url}/{{tenantid}}/v2.0"
        found = []
        for tid, iss in ((TENANT, TENANT), (other, other), (TENANT, other), (None, TENANT)):
            opened.stub.claims = {"iss": f"{opened.stub.url}/{iss}/v2.0", "tid": tid, "preferred_username": "ada"}
            found.append((await opened.sign_in()).status)

        assert found == [303, 502, 502, 502]
        (linked,) = (await opened.desk.get(ACCOUNTS, cookie=opened.desk.admin)).json
        assert linked["issuer"] == f"{opened.stub.url}/{TENANT}/v2.0"


async def test_entra_for_many_tenants_needs_their_names(tmp_path: Path) -> None:
    async with provider(tmp_path, "entra", "/organizations/v2.0") as opened:
        opened.stub.metadata["issuer"] = f"{opened.stub.url}/{{tenantid}}/v2.0"

        assert (await opened.start()).status == 502


async def test_github_has_no_id_token(tmp_path: Path) -> None:
    paths = {"authorization": "authorize", "token": "token", "userinfo": "userinfo", "emails": "emails"}
    endpoints = {f"{name}_endpoint": f"{{stub}}/{path}" for name, path in paths.items()}
    async with open_federation(tmp_path, table={"preset": "github", "realm": "GITHUB.EXAMPLE", **endpoints}) as opened:
        stub = opened.stub
        stub.userinfo = {"login": "ada-codes", "id": 583231, "name": "Ada", "email": None, "type": "User"}
        stub.emails = [
            {"email": "old@example.org", "verified": True, "primary": False, "visibility": None},
            {"email": "ada@example.org", "verified": True, "primary": True, "visibility": "private"},
        ]

        request = await opened.begin()
        answer = await opened.arrive(code=stub.code(request), state=request["state"])

        me = await opened.me(answer)
        assert "nonce" not in request
        assert request["scope"] == "read:user user:email"
        assert me["sub"] == "ada-codes@GITHUB.EXAMPLE"
        (linked,) = (await opened.desk.get(ACCOUNTS, cookie=opened.desk.admin)).json
        assert (linked["upstream_sub"], linked["email"]) == ("583231", "ada@example.org")
        token = next(form for path, form, _ in stub.asked if path.endswith("/token"))
        assert (token["client_id"], token["client_secret"]) == ("greatseal", stub.secret)
        stub.userinfo["login"] = "renamed"
        assert (await opened.me(await opened.sign_in()))["sub"] == "ada-codes@GITHUB.EXAMPLE", "the number counts, not the name"
        for id in (None, True, "", [1]):
            stub.userinfo["id"] = id
            assert (await opened.sign_in()).status == 502
        assert (await opened.desk.post("/backchannel/logout/partner", data={"logout_token": "x"})).status == 404
        # It tells no moment of a sign-in, and asks nobody again.
        waiting = request_of((await opened.desk.authorize(max_age="60")).location)["return_to"]
        assert (await opened.start(waiting)).status == 403


async def test_github_may_count_as_asked_now(tmp_path: Path) -> None:
    paths = {"authorization": "authorize", "token": "token", "userinfo": "userinfo", "emails": "emails"}
    endpoints = {f"{name}_endpoint": f"{{stub}}/{path}" for name, path in paths.items()}
    table = {"preset": "github", "realm": "GITHUB.EXAMPLE", "assume_auth_time": True, **endpoints}
    async with open_federation(tmp_path, table=table) as opened:
        opened.stub.userinfo = {"login": "ada-codes", "id": 583231}
        waiting = request_of((await opened.desk.authorize(max_age="60")).location)["return_to"]

        request = await opened.begin(waiting)
        answer = await opened.arrive(code=opened.stub.code(request), state=request["state"])

        assert (request["prompt"], "max_age" in request) == ("select_account", False)
        assert told(await opened.desk.get(answer.location, cookie=answer.cookie))["code"]
        opened.desk.clock.advance(200)
        assert "code" not in told(await opened.desk.authorize(answer.cookie, max_age="60", prompt="none"))


async def test_gitlab_names_people_by_nickname(tmp_path: Path) -> None:
    async with provider(tmp_path, "gitlab") as opened:
        opened.stub.claims |= {"sub": "42", "sub_legacy": "x" * 64, "nickname": "ada", "auth_time": 1, "sid": None}
        opened.stub.userinfo = {"name": "Ada", "email": "ada@example.org", "email_verified": True}

        assert (await opened.me(await opened.sign_in()))["sub"] == "ada@ELSEWHERE.EXAMPLE"


async def test_keycloak_takes_pushed_requests_and_promises_iss(tmp_path: Path) -> None:
    async with provider(tmp_path, "keycloak", "/realms/main") as opened:
        stub = opened.stub
        stub.claims |= {"sub": "f:1:ada", "preferred_username": "ada", "acr": "1", "typ": "ID", "azp": "greatseal"}

        started = await opened.start()
        request = request_of(started.location)
        pushed = stub.pushed[request["request_uri"]]
        code = stub.code(request)

        assert request.keys() == {"client_id", "request_uri"}
        assert {"state", "nonce", "code_challenge", "redirect_uri"} <= pushed.keys()
        assert (await opened.arrive(code=code, state=pushed["state"])).status == 502, "iss is missing"
        again = request_of((await opened.start()).location)
        state = stub.pushed[again["request_uri"]]["state"]
        answer = await opened.arrive(code=stub.code(again), state=state, iss=stub.metadata["issuer"])
        assert (await opened.me(answer))["sub"] == "ada@ELSEWHERE.EXAMPLE"


async def test_okta_with_a_key_in_place_of_a_secret(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    file = tmp_path / "okta.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    file.chmod(0o600)
    async with provider(tmp_path, "okta", client_secret=None, client_key=str(file)) as opened:
        opened.stub.claims |= {
            "sub": "00u1",
            "preferred_username": "ada@example.org",
            "amr": ["mfa", "otp", "pwd"],
            "idp": "00o1",
            "ver": 1,
        }

        me = await opened.me(await opened.sign_in())
        jwks = (await opened.desk.get("/auth/external/partner/jwks")).json

        assert me["amr"] == ["fed", "mfa", "otp", "pwd"]
        form = next(form for path, form, _ in opened.stub.asked if path.endswith("/token"))
        jws = parse_compact(form["client_assertion"])
        (jwk,) = jwks["keys"]
        jws.verify(public_key(jwk))
        claims = json.loads(jws.payload)
        assert claims["aud"] == opened.stub.metadata["token_endpoint"]
        assert (claims["iss"], claims["sub"], jws.header["kid"]) == ("greatseal", "greatseal", jwk["kid"])
        assert claims["exp"] - claims["iat"] <= 60
        assert "client_secret" not in form
        assert "d" not in jwk


@pytest.mark.parametrize("uri", [None, 7, "", "urn:a\nb", "urn:" + "x" * 512])
async def test_a_pushed_request_without_a_name_leads_nobody_there(tmp_path: Path, uri: Any) -> None:
    async with provider(tmp_path, "keycloak", "/realms/main") as opened:
        opened.stub.answer = lambda asked: (
            web.json_response({"request_uri": uri, "expires_in": 60}, status=201) if asked.path.endswith("/par/request") else None
        )

        assert (await opened.start()).status == 502


@pytest.mark.parametrize(("refused", "status"), [(400, 502), (500, 503)])
async def test_a_pushed_request_that_is_refused_leads_nobody_there(tmp_path: Path, refused: int, status: int) -> None:
    async with provider(tmp_path, "keycloak", "/realms/main") as opened:
        opened.stub.secret = "another" if refused == 400 else opened.stub.secret
        if refused == 500:
            opened.stub.answer = lambda asked: web.Response(status=500) if asked.path.endswith("/par/request") else None

        assert (await opened.start()).status == status
