"""POST /register (RFC 7591), and what a client does with its registration itself (RFC 7592)."""

import asyncio
import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from rig.documents import documents

from greatseal.api.identity import Authenticated, Authenticator
from greatseal.clock import SystemClock
from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import sign_compact
from greatseal.jose.jwk import jwk_of
from greatseal.testing import FakeClock
from greatseal.testing.desk import CALLBACK, Answer
from greatseal_registration.tables import client as kept_clients

Open = Callable[..., Awaitable[Any]]
TOKEN = "let-me-in-please-0123456789"
BY_TOKEN = {"Authorization": f"Bearer {TOKEN}"}
APP = {"redirect_uris": [CALLBACK], "client_name": "App", "scope": "openid profile"}
ROOT = {"name": "root", "permissions": ["*"], "users": ["bob"]}


@pytest.fixture
def open_desk(open_people: Open) -> Open:
    """``await open_desk(server=..., registration=...)``: a provider where clients register themselves; bob is its administrator."""

    async def opened(*features: str, server: Any = None, **sections: Any) -> Any:
        server = {"registration_token": TOKEN, "registration_management": True, "auth_rate_limit": 0, **(server or {})}
        whole = {"rbac": {"role": [ROOT]}, **sections, "server": {name: value for name, value in server.items() if value is not None}}
        return await open_people("idp", "client-auth-jwt", "resolver", "registration", *features, **whole)

    return opened


@pytest.fixture
async def desk(open_desk: Open) -> Any:
    return await open_desk()


async def register(desk: Any, body: Any = None, *, headers: Any = BY_TOKEN, **more: Any) -> Answer:
    return await desk.post("/register", json=APP if body is None else body, headers=headers, **more)


async def registered(desk: Any, **changes: Any) -> Any:
    answer = await register(desk, {**APP, **changes})
    assert answer.status == 201, answer.text
    return answer.json


async def own(desk: Any, method: str, client: Any, *, token: str | None = None, **more: Any) -> Answer:
    """A request of a client about its registration."""
    sent = {"Authorization": f"Bearer {token or client['registration_access_token']}"}
    return await desk.ask(method, client["registration_client_uri"].removeprefix(desk.url), headers=sent, **more)


def whole(client: Any, **changes: Any) -> dict[str, Any]:
    """What a client sends to change itself: all that it was told, without what the server assigns."""
    ours = ("registration_access_token", "registration_client_uri", "client_id_issued_at", "client_secret_expires_at")
    return {name: value for name, value in {**client, **changes}.items() if name not in ours and value is not None}


def service_of(desk: Any, username: str = "HTTP/web.example", realm: str | None = None) -> None:
    """A principal who signs in by a password, as it will by Kerberos."""
    desk.people.add(username)
    if realm is not None:
        one: Any = desk.service.host("idp").components(Authenticator)["people"]
        proven = one.attempt

        async def attempt(credential: Any, context: Any) -> Any:
            found = await proven(credential, context)
            return Authenticated(username=found.username, realm=realm, amr=("pwd",)) if isinstance(found, Authenticated) else found

        one.attempt = attempt


# ---- Who may


async def test_idp_198_idp_210_idp_211_idp_218_a_client_registers_with_the_token(open_desk: Open, database_url: str) -> None:
    desk = await open_desk(database={"url": database_url})

    answer = await register(desk)

    made = answer.json
    assert answer.status == 201
    assert answer.headers["Cache-Control"] == "no-store"
    assert {name: made[name] for name in ("client_name", "redirect_uris", "token_endpoint_auth_method", "scope")} == {
        **APP,
        "token_endpoint_auth_method": "client_secret_basic",
    }
    assert made["registration_client_uri"] == f"{desk.url}/api/admin/clients/{made['client_id']}"
    assert (made["client_secret_expires_at"], made["response_types"]) == (0, ["code"])
    assert made["grant_types"] == ["authorization_code", "refresh_token"]
    event = (await desk.events("client_registered"))[0]
    assert (event.sub, event.client_id) == ("registration token", made["client_id"])


async def test_b16_a_script_of_any_origin_registers_its_client_with_the_token_and_never_with_a_cookie(desk: Any) -> None:
    service_of(desk)
    origin = {"Origin": "https://spa.example"}

    preflight = await desk.ask("OPTIONS", "/register", headers=origin)
    good = await register(desk, headers={**origin, **BY_TOKEN})
    bad = await register(desk, headers={**origin, "Authorization": "Bearer x"})
    by_cookie = await register(desk, headers=origin, cookie=await desk.cookie("HTTP/web.example"))

    assert preflight.headers["Access-Control-Allow-Headers"] == "*, Authorization"
    assert (good.status, bad.status, by_cookie.status) == (201, 401, 403)
    for answer in (preflight, good, bad):
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in answer.headers


async def test_idp_219_a_secret_that_is_not_supplied_is_made_and_cannot_be_read_again(desk: Any) -> None:
    made = await registered(desk)
    chosen = await registered(desk, client_secret="chosen-by-the-client-itself")

    assert len(urlsafe_b64decode(made["client_secret"] + "=")) == 32
    assert chosen["client_secret"] == "chosen-by-the-client-itself"
    for one in (made, chosen):
        assert "client_secret" not in (await own(desk, "GET", one)).json
        asked = {"grant_type": "authorization_code", "code": "x", "client_id": one["client_id"], "client_secret": one["client_secret"]}
        assert (await desk.post("/token", data=asked)).outcome == (401, "invalid_client")  # registered for client_secret_basic
    public = await registered(desk, token_endpoint_auth_method="none")
    assert not {"client_secret", "client_secret_expires_at"} & public.keys()


async def test_idp_220_idp_221_the_client_is_seen_in_the_admin_api_at_once(desk: Any) -> None:
    made = await registered(desk)

    seen = await desk.get(made["registration_client_uri"].removeprefix(desk.url), cookie=await desk.cookie("bob"))

    assert made["registration_client_uri"] == f"{desk.url}/api/admin/clients/{made['client_id']}"
    assert (seen.status, seen.json["source"], seen.json["scopes"]) == (200, "dynamic", ["openid", "profile"])


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer \u00e4"]
)
async def test_idp_212_s055_without_the_token_it_is_401(desk: Any, header: str | None) -> None:
    answer = await register(desk, headers={} if header is None else {"Authorization": header})

    assert answer.outcome == (401, "invalid_token")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


async def test_idp_213_a_service_of_the_realm_registers_by_its_session(open_desk: Open) -> None:
    desk = await open_desk(server={"registration_token": None})
    service_of(desk)
    cookie = await desk.cookie("HTTP/web.example")

    made = await register(desk, headers={}, cookie=cookie)
    foreign = await register(desk, headers={"Origin": "https://evil.example"}, cookie=cookie)

    assert made.status == 201, made.text
    assert foreign.outcome == (403, "csrf")
    assert (await desk.events("client_registered"))[0].sub == "HTTP/web.example@LOCALHOST"


async def test_idp_213_the_session_suffices_beside_a_wrong_token(desk: Any) -> None:
    service_of(desk)

    answer = await register(desk, headers={"Authorization": "Bearer wrong"}, cookie=await desk.cookie("HTTP/web.example"))

    assert answer.status == 201


@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize(("username", "realm"), [("alice", None), ("HTTP/web.example", "ELSEWHERE")])
async def test_idp_214_s055_r78_people_and_services_of_other_realms_do_not_count(
    open_desk: Open, username: str, realm: str | None, token: str | None
) -> None:
    desk = await open_desk(server={"registration_token": token})
    if username != "alice":
        service_of(desk, username, realm)
    cookie = await desk.cookie(username)

    answer = await register(desk, headers={}, cookie=cookie)

    assert answer.outcome == ((404, "not_found") if token is None else (401, "invalid_token"))


async def test_idp_215_without_a_path_there_is_no_endpoint(open_desk: Open) -> None:
    desk = await open_desk(server={"registration_token": None})

    for headers in ({}, BY_TOKEN):
        assert (await register(desk, headers=headers)).outcome == (404, "not_found")
    for name in ("openid-configuration", "oauth-authorization-server"):
        assert "registration_endpoint" not in (await desk.get(f"/.well-known/{name}")).json
    assert (await desk.get("/api/auth/info")).json["features"]["registration"] is False


async def test_the_metadata_say_where_it_is(desk: Any) -> None:
    for name in ("openid-configuration", "oauth-authorization-server"):
        found = (await desk.get(f"/.well-known/{name}")).json
        assert found["registration_endpoint"] == f"{desk.url}/register"
        assert "client_id_metadata_document_supported" not in found
    assert (await desk.get("/api/auth/info")).json["features"]["registration"] is True


async def test_registrations_and_guesses_are_limited_by_address(open_desk: Open) -> None:
    desk = await open_desk(registration={"rate_limit": 2})

    assert [(await register(desk)).status for _ in range(3)] == [201, 201, 429]
    wrong = [(await register(desk, headers={"Authorization": "Bearer x"})).status for _ in range(22)]
    assert wrong == [401] * 20 + [429] * 2


async def test_no_more_register_than_the_limit_says(open_desk: Open, database_url: str) -> None:
    desk = await open_desk(registration={"max_clients": 3}, database={"url": database_url})

    answers = await asyncio.gather(*(register(desk) for _ in range(8)))

    assert sorted(one.status for one in answers) == [201] * 3 + [503] * 5
    assert len((await desk.get("/api/admin/clients", cookie=await desk.cookie("bob"))).json) == 3


# ---- What is refused


@pytest.mark.parametrize("by_session", [False, True])
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"redirect_uris": ["http://app.example/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://a.example/cb#x"]}, "invalid_redirect_uri"),
        ({"token_endpoint_auth_method": "kerberos_client_auth"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "none", "client_secret": "s" * 43}, "invalid_client_metadata"),
        ({"client_secret": "too short"}, "invalid_client_metadata"),
        ({"redirect_uris": "https://a.example/cb"}, "invalid_client_metadata"),
        ({"scope": ["openid"]}, "invalid_client_metadata"),
        ({"scope": "openid introspect"}, "invalid_client_metadata"),
        ({"grant_types": ["password"]}, "invalid_client_metadata"),
        ({"spiffe_id": "spiffe://example.org/x"}, "invalid_client_metadata"),
        ({"allow_token_exchange_actor": True}, "invalid_client_metadata"),
        ({"consent": "implicit"}, "invalid_client_metadata"),
        ({"resources": ["https://api.example/"]}, "invalid_client_metadata"),
        ({"resources": "https://api.example/"}, "invalid_client_metadata"),
        ({"resources": 5}, "invalid_client_metadata"),
    ],
)
async def test_idp_061_idp_216_idp_217_s054_r36_r108_what_is_refused_on_both_paths(
    desk: Any, change: dict[str, Any], error: str, *, by_session: bool
) -> None:
    if by_session:
        service_of(desk)
    more = {"headers": {}, "cookie": await desk.cookie("HTTP/web.example")} if by_session else {}

    answer = await register(desk, {**APP, **change}, **more)

    assert answer.outcome == (400, error)
    assert answer.headers["Cache-Control"] == "no-store"
    assert (await desk.get("/api/admin/clients", cookie=await desk.cookie("bob"))).json == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"null", b'{"a":1,"a":2}', b"\xff", b"{}" * 2])
async def test_a_body_that_is_no_object_is_invalid_client_metadata(desk: Any, body: bytes) -> None:
    answer = await desk.post("/register", data=body, headers={**BY_TOKEN, "Content-Type": "application/json"})

    assert answer.outcome == (400, "invalid_client_metadata")


async def test_s054_what_the_server_assigns_is_not_taken_from_the_client(desk: Any) -> None:
    made = await registered(
        desk, client_id="mine", client_secret_expires_at=1, registration_access_token="mine", source="admin", is_system=True, created_at=1
    )

    assert made["client_id"] != "mine"
    assert made["registration_access_token"] != "mine"
    assert (await desk.get(f"/api/admin/clients/{made['client_id']}", cookie=await desk.cookie("bob"))).json["source"] == "dynamic"


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (None, "openid email"),
        ("", "openid email"),
        ("openid directory.read nonsense profile", "openid profile"),
        ("nonsense", None),
    ],
)
async def test_scopes_are_those_that_are_defined_and_given_to_anybody(open_desk: Open, asked: str | None, given: str | None) -> None:
    desk = await open_desk(registration={"scopes": ["openid", "email"]})

    made = await registered(desk, scope=asked)

    assert made.get("scope") == given


async def test_every_such_client_may_name_the_resources_of_the_operator_and_is_none_of_them(open_desk: Open) -> None:
    api = "https://api.example/"
    desk = await open_desk("resource-indicators", registration={"resources": [api, "urn:logs"]})
    one, other = await registered(desk), await registered(desk, resources=[api])
    machine = {
        "redirect_uris": None,
        "scope": "groups",
        "grant_types": ["client_credentials"],
        "token_endpoint_auth_method": "client_secret_post",
    }
    first, second = await registered(desk, **machine), await registered(desk, **machine)

    def proof(client: Any) -> dict[str, str]:
        return {"client_id": client["client_id"], "client_secret": client["client_secret"]}

    got = await desk.post("/token", data={"grant_type": "client_credentials", "resource": api, **proof(first)})

    assert (one["resources"], other["resources"]) == ([api, "urn:logs"], [api])
    assert got.status == 200, got.text
    seen = [(await desk.post("/introspect", data={"token": got.json["access_token"], **proof(who)})).json for who in (first, second)]
    assert [one["active"] for one in seen] == [True, False]


# ---- RFC 7592


async def test_r37_r115_without_management_there_is_no_token_and_the_url_is_the_admins(open_desk: Open) -> None:
    desk = await open_desk(server={"registration_management": False})
    made = await registered(desk)

    assert "registration_access_token" not in made
    for method in ("GET", "PUT", "DELETE"):
        assert (await own(desk, method, made, token="x", json={})).outcome == (401, "unauthenticated")


async def test_r115_a_client_reads_replaces_and_deletes_itself(open_desk: Open, database_url: str) -> None:
    desk = await open_desk(database={"url": database_url})
    made = await registered(desk, contacts=["ops@app.example"])
    bob = await desk.cookie("bob")
    path = f"/api/admin/clients/{made['client_id']}"
    await desk.ask("PUT", path, cookie=bob, json={"consent": "implicit", "scopes": ["openid", "introspect"]})

    read = await own(desk, "GET", made)
    assert (read.status, read.json["contacts"], read.json["scope"]) == (200, ["ops@app.example"], "openid introspect")
    assert read.json["registration_access_token"] == made["registration_access_token"]
    assert read.headers["Cache-Control"] == "no-store"

    new = whole(made, client_name="Renamed", contacts=None, scope="openid introspect email")
    changed = await own(desk, "PUT", made, json=new)
    assert changed.status == 200, changed.text
    assert (changed.json["client_name"], changed.json["scope"], changed.json.get("contacts")) == (
        "Renamed",
        "openid introspect email",
        None,
    )
    assert changed.json["registration_access_token"] != made["registration_access_token"]
    assert (await desk.get(path, cookie=bob)).json["consent"] == "implicit"  # an administrator said it, and only one takes it back
    for method in ("GET", "PUT", "DELETE"):
        assert (await own(desk, method, made, json=new)).outcome == (401, "invalid_token")

    basic = await own(desk, "PUT", changed.json, json=whole(changed.json, token_endpoint_auth_method="none"))
    assert (basic.status, "client_secret" in basic.json) == (200, False)
    again = await own(desk, "PUT", basic.json, json=whole(basic.json, token_endpoint_auth_method="client_secret_post"))
    assert len(again.json["client_secret"]) == 43

    assert (await own(desk, "DELETE", again.json)).status == 204
    assert (await own(desk, "GET", again.json)).outcome == (401, "invalid_token")
    assert (await desk.get(path, cookie=bob)).status == 404


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"client_id": "another"}, "invalid_request"),
        ({"client_id": None}, "invalid_request"),
        ({"registration_access_token": "x"}, "invalid_request"),
        ({"client_secret": "one of its own choice, long enough"}, "invalid_client_metadata"),
        ({"scope": "openid introspect"}, "invalid_client_metadata"),
        ({"redirect_uris": ["http://app.example/"]}, "invalid_redirect_uri"),
        ({"token_endpoint_auth_method": "kerberos_client_auth"}, "invalid_client_metadata"),
        ({"consent": "implicit"}, "invalid_client_metadata"),
        ({"resources": ["https://api.example/"]}, "invalid_client_metadata"),
    ],
)
async def test_s052_a_change_that_is_refused_changes_nothing_and_uses_nothing_up(desk: Any, change: dict[str, Any], error: str) -> None:
    made = await registered(desk)
    ours = {name: value for name, value in change.items() if name.startswith("registration")}

    answer = await own(desk, "PUT", made, json={**whole(made, **change), **ours})

    assert answer.outcome == (400, error)
    read = await own(desk, "GET", made)
    assert whole(read.json) == {name: value for name, value in whole(made).items() if name != "client_secret"}


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_jwt"])
async def test_a_client_may_repeat_its_secret_and_keeps_it(desk: Any, method: str) -> None:
    made = await registered(desk, token_endpoint_auth_method=method)

    answer = await own(desk, "PUT", made, json=whole(made))

    assert answer.status == 200, answer.text
    assert "client_secret" not in answer.json
    wrong = await own(desk, "PUT", answer.json, json=whole(made, client_secret=made["client_secret"][::-1]))
    assert wrong.outcome == (400, "invalid_client_metadata")


async def test_the_token_of_one_client_is_not_that_of_another(desk: Any) -> None:
    one, other = await registered(desk), await registered(desk)

    for method in ("GET", "PUT", "DELETE"):
        answer = await own(desk, method, one, token=other["registration_access_token"], json=whole(one))
        assert answer.outcome == (401, "invalid_token")
        assert (await own(desk, method, {**one, "registration_client_uri": f"{desk.url}/api/admin/clients/none"})).status == 401
    odd = {"Authorization": "Bearer \u00e4"}
    assert (await desk.get(one["registration_client_uri"].removeprefix(desk.url), headers=odd)).outcome == (401, "invalid_token")
    assert (await own(desk, "GET", one)).status == 200


async def test_the_token_of_a_client_that_an_administrator_deleted_is_401(desk: Any) -> None:
    made = await registered(desk)

    await desk.ask("DELETE", f"/api/admin/clients/{made['client_id']}", cookie=await desk.cookie("bob"))

    for method in ("GET", "PUT", "DELETE"):
        assert (await own(desk, method, made, json=whole(made))).outcome == (401, "invalid_token")


async def test_fifty_changes_with_one_token_and_one_is_made(open_desk: Open, database_url: str) -> None:
    desk = await open_desk(database={"url": database_url})
    made = await registered(desk)

    answers = await asyncio.gather(*(own(desk, "PUT", made, json=whole(made, client_name=f"number {n}")) for n in range(50)))

    (won,) = [one for one in answers if one.status == 200]
    assert all(one.outcome in {(401, "invalid_token"), (409, "conflict")} for one in answers if one is not won)
    assert (await own(desk, "GET", won.json)).json["client_name"] == won.json["client_name"]
    deleted = await asyncio.gather(*(own(desk, "DELETE", won.json) for _ in range(50)))
    assert sorted(one.status for one in deleted) == [204] + [401] * 49


# ---- What nobody uses


async def sweep(desk: Any) -> None:
    await desk.service.kernel.hooks.instances["registration"].usage(desk.service.host("registration")).sweep()


async def test_clients_that_nobody_uses_are_deleted_and_others_stay(open_desk: Open, database_url: str) -> None:
    clock = FakeClock(SystemClock().now())
    desk = await open_desk(clock=clock, registration={"unused_ttl": 30 * 86_400}, database={"url": database_url})
    machine = {"redirect_uris": None, "scope": "groups", "token_endpoint_auth_method": "client_secret_post"}
    used, unused, gone = await registered(desk, **machine), await registered(desk, **machine), await registered(desk)
    bob = await desk.cookie("bob")
    by_hand = {"client_name": "by hand", "token_endpoint_auth_method": "none", "redirect_uris": [CALLBACK]}
    assert (await desk.post("/api/admin/clients", json=by_hand, cookie=bob)).status == 201
    await desk.ask("DELETE", f"/api/admin/clients/{gone['client_id']}", cookie=bob)

    async def get_token(client: Any) -> int:
        form = {"grant_type": "client_credentials", "client_id": client["client_id"], "client_secret": client["client_secret"]}
        return int((await desk.post("/token", data=form)).status)

    for _ in range(2):
        clock.advance(29 * 86_400)
        assert await get_token(used) == 200
        await sweep(desk)
    clock.advance(3700)  # the hour in which nothing is forgotten
    await sweep(desk)

    assert await get_token(used) == 200
    assert await get_token(unused) == 401
    names = {one["client_name"] for one in (await desk.get("/api/admin/clients", cookie=await desk.cookie("bob"))).json}
    assert names == {"App", "by hand"}
    kept = await desk.service.host("registration").db.read(lambda tx: tx.all(kept_clients.select()))
    assert [row.client_id for row in kept] == [used["client_id"]]
    event = (await desk.events("client_deleted"))[-1]
    assert (event.sub, event.client_id) == ("registration", unused["client_id"])


# ---- Software statements


KEY = ec.generate_private_key(ec.SECP256R1())
STATED = {"iss": "https://federation.example", "software_id": "4NRB1", "client_name": "The vetted app", "redirect_uris": [CALLBACK]}


def statement(key: Any = KEY, *, alg: str = "ES256", **claims: Any) -> str:
    said = {name: value for name, value in {**STATED, **claims}.items() if value is not None}
    return sign_compact({"alg": alg, "kid": "one"}, json.dumps(said).encode(), lambda message: ALGORITHMS["ES256"].sign(key, message))


@pytest.fixture
async def believing(open_desk: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    async with documents(tmp_path, monkeypatch, "federation.example") as web:
        web.pages["/jwks"] = {"keys": [{**jwk_of(KEY.public_key()), "kid": "one"}]}
        issuer = {"issuer": STATED["iss"], "jwks_uri": web.url("/jwks")}
        yield await open_desk(
            registration={"software_statement_issuers": [issuer], "require_software_statement": True},
            resolver={"hosts": {"federation.example": ["127.0.0.1"]}},
        )


async def test_what_a_trusted_party_says_counts_more_than_the_clients_word(believing: Any) -> None:
    made = await registered(believing, client_name="Something else", software_statement=statement())

    assert (made["client_name"], made["software_id"]) == ("The vetted app", "4NRB1")
    assert made["software_statement"].count(".") == 2


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (None, "invalid_client_metadata"),
        (7, "invalid_software_statement"),
        ("nonsense", "invalid_software_statement"),
        (statement(iss="https://evil.example"), "unapproved_software_statement"),
        (statement(iss=None), "unapproved_software_statement"),
        (statement(iss=["https://federation.example"]), "unapproved_software_statement"),
        (statement(ec.generate_private_key(ec.SECP256R1())), "invalid_software_statement"),
        (statement(alg="none"), "invalid_software_statement"),
        (statement(exp=1), "invalid_software_statement"),
        (statement(exp="tomorrow"), "invalid_software_statement"),
        (statement(exp=True), "invalid_software_statement"),
        (statement(exp=1 << 50), "invalid_software_statement"),
        (statement(iat=1 << 39), "invalid_software_statement"),
        (statement(nbf=1 << 39), "invalid_software_statement"),
        (statement(nbf=True), "invalid_software_statement"),
        (statement(aud="https://another.example"), "invalid_software_statement"),
        (statement(software_id=None), "invalid_software_statement"),
        (statement(redirect_uris=["http://evil.example/"]), "invalid_redirect_uri"),
        (statement(consent="implicit"), "invalid_client_metadata"),
    ],
)
async def test_a_statement_that_is_not_good_is_refused(believing: Any, sent: Any, error: str) -> None:
    body = APP if sent is None else {**APP, "software_statement": sent}

    answer = await register(believing, body)

    assert answer.outcome == (400, error)
    assert re.search(r"RFC 7|expected|admin|http", answer.json["error_description"])


async def test_s052_what_a_statement_says_holds_at_every_change(believing: Any) -> None:
    made = await registered(believing, software_statement=statement())
    itself = whole(made, client_name="Something else", redirect_uris=["https://evil.example/cb"])
    without = {name: value for name, value in itself.items() if name != "software_statement"}

    refused = await own(believing, "PUT", made, json=without)
    assert refused.outcome == (400, "invalid_client_metadata")
    forged = await own(believing, "PUT", made, json={**itself, "software_statement": statement(exp=1)})
    assert forged.outcome == (400, "invalid_software_statement")
    changed = await own(believing, "PUT", made, json=itself)
    assert changed.status == 200, changed.text
    assert changed.json["client_name"] == made["client_name"]
    assert changed.json["software_statement"] == itself["software_statement"]


async def test_statements_are_ignored_where_nobody_is_trusted(desk: Any) -> None:
    made = await registered(desk, software_statement=statement())

    assert made["client_name"] == "App"
    assert "software_statement" not in made
