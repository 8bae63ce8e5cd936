"""Sessions, sign-in and sign-out against the rows of the security checks: S018, S064 to S068, S070, S078."""

import re
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import msgspec
import pytest
from rig.people import write_users

from greatseal.api.http import Permission, Session
from greatseal.testing.desk import CHALLENGE, Answer, Desk, forgetful, hidden_fields
from greatseal.testing.service import document, serve
from greatseal_users_file.edit import add

PASSWORD = "correct horse battery"
PEOPLE = ("ann", "ben", "admin")
ROLES = {"role": [{"name": "admin", "permissions": ["*"], "users": ["admin"], "groups": []}]}
FOREIGN: tuple[Mapping[str, str], ...] = (
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://sub.localhost"},
    {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site"},
)


class Browser(Desk):
    """Signs in by the API and by the page."""

    async def login(self, username: str = "ann", password: str = PASSWORD, *, return_to: str | None = None, **more: Any) -> Answer:
        return await super().login(username, password, body={"return_to": return_to}, **more)

    async def form_login(self, username: str, password: str, **fields: str) -> Answer:
        """The login page, filled in and sent."""
        page = await self.get("/ui/auth/login")
        cookie = "; ".join(one.partition(";")[0] for one in page.cookies)
        sent = {**hidden_fields(page), **fields, "username": username, "password": password}
        return await self.post("/login", data=sent, cookie=cookie)

    async def is_live(self, cookie: str) -> bool:
        return (await self.get("/api/auth/me", cookie=cookie)).status == 200


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_users(tmp_path_factory.mktemp("people") / "users.toml", PASSWORD, {name: {} for name in PEOPLE})


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with forgetful() as session:
        yield session


@pytest.fixture
def sections(users: Path) -> dict[str, Any]:
    return {"users": {"file": str(users)}, "rbac": ROLES, "server": {"auth_rate_limit": 0}}


@pytest.fixture
async def browser(start_service: Any, http: aiohttp.ClientSession, sections: dict[str, Any]) -> Browser:
    return Browser(await start_service("idp", "users-file", **sections), http)


# ---- S018


@pytest.mark.parametrize(
    "place",
    [
        "//evil",
        "/\\evil",
        "/%09/evil",
        "/%5cevil",
        "/%2fevil",
        "https:evil",
        "https://evil",
        "/x/..//evil",
        "/x/%2e%2e//evil",
        "/../evil",
        "http://user@localhost/",
        "javascript:alert(1)",
        "\t//evil",
        " /account",
        "/a\r\nSet-Cookie: x=y",
        "evil",
        "",
        "///evil",
        "/\u2028/evil",
    ],
)
async def test_s018_return_to_is_a_path_of_our_origin_or_the_default(browser: Browser, place: str) -> None:
    assert (await browser.login(return_to=place)).json["return_to"] == "/account"
    answer = await browser.form_login("ann", PASSWORD, return_to=place)
    assert (answer.status, answer.headers["Location"]) == (303, "/account")


async def test_s018_no_absolute_url_of_our_own_either(browser: Browser) -> None:
    for place in (f"{browser.url}/account", browser.url.replace("://", "://user@") + "/account/x"):
        assert (await browser.login(return_to=place)).json["return_to"] == "/account"
    assert (await browser.login(return_to="/account?page=2")).json["return_to"] == "/account?page=2"


# ---- S064, S065


async def test_s064_a_session_id_fixed_before_the_login_is_worth_nothing(browser: Browser) -> None:
    planted = f"greatseal_session=se_n1_{'A' * 43}"

    cookie = (await browser.login(cookie=planted)).cookie

    assert cookie != planted
    assert not await browser.is_live(planted)
    assert await browser.is_live(cookie)


@pytest.mark.parametrize("second", ["ann", "ben"])
async def test_s064_the_old_id_is_dead_after_the_next_login(browser: Browser, second: str) -> None:
    old = (await browser.login("ann")).cookie

    new = (await browser.login(second, cookie=old)).cookie

    assert new != old
    assert not await browser.is_live(old)
    assert await browser.is_live(new)


async def test_s065_the_flags_of_the_cookie(start_service: Any, http: aiohttp.ClientSession, sections: dict[str, Any]) -> None:
    sections["server"] |= {"issuer": "https://id.example.org"}
    browser = Browser(await start_service("idp", "users-file", **sections), http)

    (header,) = [one for one in (await browser.login()).cookies if "greatseal_session" in one]

    name, _, flags = header.partition("=")
    assert name == "__Host-greatseal_session"
    assert set(flags.split("; ")[1:]) == {"Path=/", "Max-Age=28800", "HttpOnly", "SameSite=Lax", "Secure"}


# ---- S066


@pytest.mark.parametrize("headers", FOREIGN)
async def test_s066_no_page_of_another_origin_changes_anything(browser: Browser, headers: Mapping[str, str]) -> None:
    cookie = (await browser.login("admin")).cookie
    guarded = [route for route in browser.service.kernel.routes if isinstance(route.auth, Session | Permission) and route.method != "GET"]
    assert {route.path for route in guarded} >= {"/api/auth/logout", "/api/admin/clients"}

    for route in guarded:
        path = re.sub(r"\{[^}]+\}", "x", route.path)
        answer = await browser.ask(route.method, path, cookie=cookie, headers=headers, json={})
        assert (answer.status, answer.json["error"]) == (403, "csrf"), (route.method, path)
    assert (await browser.ask("POST", "/api/auth/consent", cookie=cookie, headers=headers, json={})).status == 403
    assert (await browser.login(headers=headers)).status == 403
    assert (await browser.post("/login", data={"username": "ann", "password": PASSWORD}, headers=headers)).status == 403
    assert await browser.is_live(cookie)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
async def test_s066_json_in_the_clothes_of_a_form_is_refused(browser: Browser, content_type: str) -> None:
    cookie = (await browser.login("admin")).cookie
    headers = {"Content-Type": content_type}
    for method, path in (("POST", "/api/admin/clients"), ("POST", "/api/admin/keys/rotate"), ("PUT", "/api/admin/scopes/x")):
        answer = await browser.ask(method, path, cookie=cookie, headers=headers, data=b"{}")
        assert (answer.status, answer.json["error"]) == (403, "csrf")
    body = msgspec.json.encode({"username": "ann", "password": PASSWORD})
    assert (await browser.post("/api/auth/login", data=body, headers=headers)).status == 403


async def test_s066_a_login_form_without_its_token_is_refused(browser: Browser) -> None:
    answer = await browser.post("/login", data={"username": "ann", "password": PASSWORD})

    assert answer.status == 403
    assert not any("greatseal_session" in one for one in answer.cookies)


# ---- S067, S068


async def test_s067_a_cookie_that_is_no_session_is_no_session(browser: Browser) -> None:
    good = (await browser.login()).cookie
    name, _, value = good.partition("=")
    bad = [
        "",
        "x",
        '"',
        value[:-1],
        value + "A",
        value.replace("se_", "ac_", 1),
        value.replace("_n1_", "_n2_", 1),
        value.upper(),
        f'"{value}"',
        f"{value}%00",
        "A" * 6000,
        "se_n1_" + "A" * 6000,
        "\xff\xfe",
        "../../etc/passwd",
        "' OR 1=1 --",
    ]
    for one in bad:
        for path in ("/api/auth/me", "/api/admin/clients"):
            assert (await browser.get(path, cookie=f"{name}={one}")).status == 401, one
        assert (await browser.get("/account", cookie=f"{name}={one}")).status in {302, 303}
    for header in (f"{good}; {good}", f"{name}=x; {good}", f"{good}; {name}=x", f"{name} {value}", ";;;=", good.replace("=", "==")):
        assert not await browser.is_live(header)
    assert await browser.is_live(f"a=b; {good}; c=d")


async def test_s068_a_cookie_after_its_logout_is_dead_also_after_a_restart(
    tmp_path: Path, http: aiohttp.ClientSession, sections: dict[str, Any]
) -> None:
    config = document(tmp_path, ["idp", "users-file"], **sections)
    async with serve(config) as service:
        browser = Browser(service, http)
        ended, kept = (await browser.login()).cookie, (await browser.login()).cookie

        assert (await browser.post("/api/auth/logout", cookie=ended)).status == 204

        assert not await browser.is_live(ended)
        assert (await browser.get("/api/admin/clients", cookie=ended)).status == 401
    async with serve(config) as service:
        browser = Browser(service, http)
        assert not await browser.is_live(ended)
        assert await browser.is_live(kept)


# ---- S070


async def test_s070_the_consent_of_somebody_else_is_as_unknown_as_none(browser: Browser) -> None:
    ann, ben = (await browser.login("ann")).cookie, (await browser.login("ben")).cookie
    admin = (await browser.login("admin")).cookie
    client = {"client_name": "App", "redirect_uris": ["http://localhost/cb"], "scopes": ["openid"], "token_endpoint_auth_method": "none"}
    created = await browser.post("/api/admin/clients", cookie=admin, json=client)
    query = f"response_type=code&client_id={created.json['client_id']}&redirect_uri=http%3A%2F%2Flocalhost%2Fcb&scope=openid"
    started = await browser.get(f"/authorize?{query}&code_challenge={CHALLENGE}&code_challenge_method=S256", cookie=ann)
    consent_id = parse_qs(urlsplit(started.headers["Location"]).query)["consent_id"][0]
    unknown = consent_id[:-6] + ("AAAAAA" if not consent_id.endswith("AAAAAA") else "BBBBBB")

    answers = []
    for id in (consent_id, unknown):
        shown = await browser.get(f"/api/auth/consent?consent_id={id}", cookie=ben)
        decided = await browser.post("/api/auth/consent", cookie=ben, json={"consent_id": id, "decision": "approve"})
        answers.append((shown.status, shown.text, decided.status, decided.text))

    assert answers[0] == answers[1]
    assert (answers[0][0], answers[0][2]) == (404, 404)
    approved = await browser.post("/api/auth/consent", cookie=ann, json={"consent_id": consent_id, "decision": "approve"})
    assert "code=" in approved.json["redirect_to"]


async def test_s070_a_family_of_another_user_needs_a_permission_and_an_unknown_one_is_404(browser: Browser) -> None:
    ben = (await browser.login("ben")).cookie
    admin = (await browser.login("admin")).cookie
    path = "/api/admin/refresh-families/01975d4e-7a6c-8000-8000-000000000000"

    assert (await browser.ask("DELETE", path, cookie=ben)).json["required_permission"] == "users:write"
    assert (await browser.ask("DELETE", path, cookie=admin)).status == 404


# ---- S078


def comparable(answer: Answer) -> tuple[int, str, list[str], Any]:
    """All of an answer that a stranger could learn from, without what is random in it or was typed."""
    page = re.sub(r'(name="form_token" value=")[^"]*', r"\1", answer.text)
    page = re.sub(r'(name="username" value=")[^"]*', r"\1", page)
    return answer.status, page, sorted(answer.headers), answer.headers.get("Set-Cookie", "")[:20]


async def test_s078_unknown_users_and_wrong_passwords_are_answered_alike(browser: Browser) -> None:
    for attempt in (browser.login, browser.form_login):
        known, unknown = [comparable(await attempt(name, "wrong")) for name in ("ann", "zoe")]
        assert known == unknown
        assert known[0] == 401


async def test_s078_unknown_users_are_limited_alike(browser: Browser) -> None:
    seen: dict[str, list[int]] = {}
    for name in ("ann", "zoe"):
        seen[name] = [(await browser.login(name, "wrong")).status for _ in range(7)]

    assert seen["ann"] == seen["zoe"] == [401] * 5 + [429] * 2


async def test_s078_an_unknown_user_costs_the_time_of_a_wrong_password(
    start_service: Any, http: aiohttp.ClientSession, tmp_path: Path, sections: dict[str, Any]
) -> None:
    path = tmp_path / "many.toml"
    names = [f"user{number}" for number in range(4)]
    for name in names:
        add(path, name, PASSWORD)
    cardholders = "".join(f'\n[[user]]\nusername = "cardholder{number}"\n' for number in range(4))
    path.write_text(f"{path.read_text()}\n{cardholders}")
    browser = Browser(await start_service("idp", "users-file", **{**sections, "users": {"file": str(path)}}), http)
    best = {"known": sys.float_info.max, "unknown": sys.float_info.max, "without": sys.float_info.max}

    for turn in range(16):
        number = turn % len(names)
        wanted = {"known": names[number], "unknown": f"nobody{number}", "without": f"cardholder{number}"}
        for kind, name in wanted.items():
            started = time.process_time()
            assert (await browser.login(name, "wrong")).status == 401
            best[kind] = min(best[kind], time.process_time() - started)

    # Without the hash an unknown user takes a tenth of the time; interleaved minima of CPU are steady on a busy machine.
    assert 0.6 < best["unknown"] / best["known"] < 1.6
    assert 0.6 < best["without"] / best["known"] < 1.6


async def test_s078_the_hint_says_the_same_of_everybody_and_is_limited(
    start_service: Any, http: aiohttp.ClientSession, sections: dict[str, Any]
) -> None:
    sections["server"] = {"auth_rate_limit": 10}
    browser = Browser(await start_service("idp", "users-file", **sections), http)
    known, unknown = [comparable(await browser.get(f"/api/auth/federated-hint?username={name}")) for name in ("ann", "zoe")]

    assert known == unknown
    assert known[1] == '{"upstream_id":null}'
    assert [(await browser.get("/api/auth/federated-hint?username=ann")).status for _ in range(9)] == [200] * 8 + [429]


async def test_b30_no_password_and_no_cookie_rests_anywhere(tmp_path: Path, http: aiohttp.ClientSession, sections: dict[str, Any]) -> None:
    async with serve(document(tmp_path, ["idp", "users-file"], **sections)) as service:
        browser = Browser(service, http)
        cookie = (await browser.login()).cookie.partition("=")[2]
        await browser.login("ann", "guess-1234567890")
        await browser.login("typed-in-the-wrong-field", "x")

    stored = contents(tmp_path)
    assert b"ann@LOCALHOST" in stored
    for secret in (cookie, cookie.split("_", 2)[2], PASSWORD, "guess-1234567890", "typed-in-the-wrong-field"):
        assert secret.encode() not in stored


def contents(folder: Path) -> bytes:
    """Of all files of a folder: the database and its journal."""
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
