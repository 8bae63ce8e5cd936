"""What limits hold back and whom they do not: B22, guesses at secrets, requests that wait; and the rest of S066, S069 and S074."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import aiohttp
import pytest
from security.idp_desk import BROWSER, PASSWORD, SECRET, Desk, credentials_of, open_desk
from sqlalchemy import select

from greatseal.testing.desk import Answer, hidden_fields, told
from greatseal.testing.store import audit
from greatseal_idp import tables as t

ATTEMPTS = 5
WAITING = 10 * ATTEMPTS
"""How many requests may wait for as many sign-ins."""
PROXY = {"trusted_proxies": ["127.0.0.0/8"], "auth_rate_limit": ATTEMPTS}
LIMITED = (429, "rate_limited")
OWN = {"grant_type": "client_credentials"}
MACHINE = {"grant_types": ["client_credentials"], "redirect_uris": [], "scopes": ["groups"]}


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Any]:
    """``await start(**sections)``: a provider of its own."""
    async with AsyncExitStack() as stack:

        async def start(**sections: Any) -> Desk:
            return await stack.enter_async_context(open_desk(tmp_path, **sections))

        yield start


def from_(*addresses: str) -> dict[str, str]:
    return {"X-Forwarded-For": ", ".join(addresses)}


async def guess(desk: Desk, name: str, headers: Mapping[str, str]) -> int:
    answer = await desk.ask("POST", "/api/auth/login", json={"username": name, "password": "wrong"}, headers=headers)
    assert answer.status in {401, 429}
    return answer.status


async def test_a_name_that_takes_seconds_to_normalise_is_refused_before(start):
    desk = await start()
    longest, longer = "\u0301" * 512, "\u0301" * 513
    page = await desk.get("/ui/auth/login", headers=BROWSER)
    (cookie,) = (one.partition(";")[0] for one in page.cookies)

    async def status(name: str) -> tuple[int, ...]:
        typed = {"username": name, "password": "wrong"}
        return (
            (await desk.login(**typed)).status,
            (await desk.post("/login", cookie=cookie, data={**hidden_fields(page), **typed})).status,
            (await desk.get(f"/api/auth/federated-hint?{urlencode({'username': name})}")).status,
        )

    assert await status(longest) == (401, 401, 200)
    assert await status(longer) == (400, 400, 400)


# ---- B22


async def test_b22_s074_nobody_lends_himself_an_address_or_a_name(start):
    desk = await start(server={"auth_rate_limit": ATTEMPTS})  # one attempt is the administrator's
    forged = [
        {"X-Forwarded-For": "192.0.2.1"},
        {"Forwarded": "for=192.0.2.2;host=evil.example;proto=https"},
        {"X-Real-IP": "192.0.2.3", "X-Client-IP": "192.0.2.3", "True-Client-IP": "192.0.2.3"},
        {"X-Forwarded-For": "127.0.0.1, 192.0.2.4", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"},
        {"X-SSL-Client-Cert": "x", "X-Remote-User": "admin", "Remote-User": "admin", "X-Forwarded-User": "admin"},
    ]

    seen = [await guess(desk, f"nobody-{number}", headers) for number, headers in enumerate(forged)]

    assert seen == [401] * (ATTEMPTS - 1) + [429]
    for headers in forged:
        assert (await desk.ask("GET", "/api/auth/me", headers=headers)).status == 401
        assert (await desk.ask("GET", "/.well-known/openid-configuration", headers=headers)).json["issuer"] == desk.url
        assert (await desk.ask("POST", "/token", data={**OWN, "client_id": desk.client["client_id"]}, headers=headers)).status == 401
    rows = await desk.service.host("idp").db.read(lambda tx: tx.all(select(audit).where(audit.c.event_type == "login_failure")))
    assert {row.detail.rpartition("address=")[2] for row in rows} == {"127.0.0.1"}


async def test_b22_a_trusted_proxy_is_believed_and_what_came_before_it_is_not(start):
    desk = await start(server=PROXY)

    for number in range(ATTEMPTS):
        assert await guess(desk, f"a-{number}", from_(f"198.51.100.{number}", "192.0.2.1")) == 401
    assert await guess(desk, "a", from_("203.0.113.9", "192.0.2.1")) == 429
    assert await guess(desk, "b", from_("192.0.2.2")) == 401


async def test_a_network_of_ipv6_is_one_address(start):
    desk = await start(server=PROXY)

    seen = [await guess(desk, f"a-{number}", from_(f"2001:db8:1:2:{number:x}::{number:x}")) for number in range(1, ATTEMPTS + 2)]

    assert seen == [401] * ATTEMPTS + [429]
    assert await guess(desk, "b", from_("2001:db8:1:3::1")) == 401
    assert await guess(desk, "c", from_("::ffff:192.0.2.7")) == 401


# ---- Strangers who guess at a person's password

HOME, CAFE, AWAY = from_("198.51.100.7"), from_("198.51.100.8"), from_("203.0.113.66")
DAY = 86_400


async def sign_in(desk: Desk, headers: Mapping[str, str], cookie: str = "", password: str = PASSWORD) -> Answer:
    return await desk.ask("POST", "/api/auth/login", json={"username": "ann", "password": password}, headers=headers, cookie=cookie)


def browser_of(answer: Answer) -> str:
    """What the browser brings the next time, without the session."""
    (known,) = (one for one in answer.cookies if one.startswith("greatseal_known="))
    assert {"HttpOnly", "SameSite=Lax"} <= {part.strip() for part in known.split(";")}
    return known.partition(";")[0]


async def test_r119_strangers_do_not_keep_a_person_out_of_the_places_that_they_have_used(start):
    desk = await start(server={"trusted_proxies": ["127.0.0.0/8"]})
    browser = browser_of(await sign_in(desk, HOME))

    assert [await guess(desk, "ann", AWAY) for _ in range(6)] == [401] * 5 + [429]
    assert (await sign_in(desk, CAFE)).status == 429, "a new browser at a new address is a stranger's"
    assert (await sign_in(desk, CAFE, browser)).status == 200
    assert (await sign_in(desk, CAFE)).status == 200, "the address is known by now"
    assert (await sign_in(desk, HOME)).status == 200

    assert [(await sign_in(desk, HOME, password="wrong")).status for _ in range(6)] == [401] * 5 + [429]
    assert (await sign_in(desk, AWAY, browser)).status == 429, "guesses at known places are counted too"


@pytest.mark.parametrize("cookie", ["", "kb_n1_", "kb_n1_AAAA", "kb_n2_" + "A" * 80, "se_n1_" + "A" * 43, "x" * 5000])
async def test_r119_nobody_makes_himself_known(start, cookie):
    desk = await start(server={"trusted_proxies": ["127.0.0.0/8"]})
    other = browser_of(await desk.ask("POST", "/api/auth/login", json={"username": "ben", "password": PASSWORD}, headers=HOME))
    for _ in range(5):
        assert await guess(desk, "ann", AWAY) == 401

    assert (await sign_in(desk, HOME, other)).status == 429
    assert (await sign_in(desk, AWAY, f"greatseal_known={cookie}")).status == 429


async def test_r119_a_place_is_forgotten_after_90_days(start):
    desk = await start(server={"trusted_proxies": ["127.0.0.0/8"]})
    browser = browser_of(await sign_in(desk, HOME))
    (job,) = (job for job in desk.service.kernel.all_jobs if job.name == "idp-places")
    desk.clock.advance(89 * DAY)
    await job.run()
    for _ in range(5):
        await guess(desk, "ann", AWAY)
    assert (await sign_in(desk, HOME)).status == 200

    desk.clock.advance(91 * DAY)
    await job.run()
    for _ in range(5):
        await guess(desk, "ann", AWAY)

    assert (await sign_in(desk, HOME)).status == 429
    assert (await sign_in(desk, CAFE, browser)).status == 429


# ---- Guessing at the secret of a client


async def test_guesses_from_elsewhere_do_not_keep_a_client_out(start):
    desk = await start(server=PROXY)
    client = await desk.registered(**MACHINE)

    async def own_token(secret: str, address: str) -> Answer:
        return await desk.ask("POST", "/token", data=OWN, headers={**credentials_of(client, secret), **from_(address)})

    guesses = [(await own_token(f"guess-{number}", "192.0.2.66")).status for number in range(25)]
    assert guesses == [401] * 20 + [429] * 5

    # The client has not proven itself since the start, so that its secret is still to be checked.
    answer = await own_token(SECRET, "198.51.100.1")
    assert answer.status == 200, answer.text
    assert (await own_token(SECRET, "192.0.2.66")).status == 200, "and what was proven is remembered for every address"
    assert (await own_token("wrong", "198.51.100.1")).status in {401, 429}


# ---- Requests that wait


async def rows(desk: Desk) -> int:
    return len(await desk.service.host("idp").db.read(lambda tx: tx.all(select(t.authorization))))


async def test_requests_of_nobody_are_limited_by_address(start):
    desk = await start(server=PROXY)
    mine = from_("192.0.2.1")

    answers = [await desk.authorize(headers=mine) for _ in range(WAITING)]
    assert {answer.status for answer in answers} == {303}
    for headers in (mine, {**mine, **BROWSER}):
        limited = await desk.authorize(headers=headers)
        assert (limited.status, limited.shown) == (429, True)
        assert 0 < int(limited.headers["Retry-After"]) <= 300
    large = dict(parse_qsl(desk.query(login_hint="x" * 5000)))
    assert (await desk.ask("POST", "/authorize", data=large, headers=mine)).status == 429
    assert await rows(desk) == WAITING

    assert (await desk.authorize(headers=from_("192.0.2.2"))).status == 303
    assert told(await desk.authorize(headers=mine, prompt="none"))["error"] == "login_required"
    ann = await desk.cookie("ann")
    assert "code" in told(await desk.authorize(ann, headers=mine))
    resumed = await desk.ask("GET", "/authorize?" + answers[0].location.partition("%3F")[2].replace("%3D", "="), cookie=ann, headers=mine)
    assert "code" in told(resumed)
    desk.clock.advance(301)
    assert (await desk.authorize(headers=mine)).status == 303


async def test_what_anybody_may_push_is_limited_and_what_a_proven_client_pushes_is_not(start):
    desk = await start(server=PROXY)
    public = await desk.registered(token_endpoint_auth_method="none")

    pushed = [(await desk.push(by=public, headers=from_("192.0.2.1"))).status for _ in range(WAITING + 1)]

    assert pushed == [201] * WAITING + [429]
    assert (await desk.push(by=public, headers=from_("192.0.2.2"))).status == 201
    assert (await desk.push(headers=from_("192.0.2.1"))).status == 201


async def test_requests_that_wait_for_consent_are_limited_by_session(start):
    desk = await start(server=PROXY)
    desk.client = await desk.registered(consent="explicit")
    ann, ben = await desk.cookie("ann"), await desk.cookie("ben")
    page, fields = await desk.consent(ann)
    assert page.status == 200

    shown = [await desk.ask("GET", "/api/auth/consent", cookie=ann) for _ in range(WAITING)]

    assert [answer.status for answer in shown] == [200] * (WAITING - 1) + [429]
    assert {answer.json["expires_at"] for answer in shown[:-1]} == {shown[0].json["expires_at"]}, "asking again is no way to wait longer"
    assert (await desk.authorize(ann)).status == 429
    assert (await desk.consent(ben))[0].status == 200
    assert "code" in told(await desk.approve(ann, fields))


# ---- The rest of S066, S069


async def test_s066_no_other_page_signs_anybody_out(start):
    desk = await start()
    ann = await desk.cookie("ann")
    page = await desk.ask("GET", "/logout", cookie=ann, headers=BROWSER)
    bare = {"confirm": "yes"}

    for form in (bare, {**bare, "form_token": "x" * 43}):
        assert (await desk.ask("POST", "/logout", cookie=ann, data=form)).status == 403
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        for form in (bare, {**hidden_fields(page), **bare}):
            assert (await desk.ask("POST", "/logout", cookie=ann, data=form, headers=headers)).status == 403
    assert (await desk.ask("GET", "/logout?confirm=yes", cookie=ann)).status == 200
    assert (await desk.ask("GET", "/api/auth/me", cookie=ann)).status == 200
    done = await desk.ask("POST", "/logout", cookie=ann, data={**hidden_fields(page), **bare})
    assert (done.status, (await desk.ask("GET", "/api/auth/me", cookie=ann)).status) == (200, 401)


async def test_s069_a_role_is_what_the_configuration_says_now(tmp_path):
    cookie, database = "", {"url": f"sqlite:///{tmp_path}/kept.db"}
    kept = {"database": database, "cluster": {"key_file": str(tmp_path / "kept.key")}}
    admin = {"name": "admin", "permissions": ["*"], "users": ["admin"]}
    for name, role, expected in (
        ("first", {"name": "ben", "permissions": ["clients:read"], "users": ["ben"]}, 200),
        ("renamed", {"name": "other", "permissions": ["clients:read"], "users": ["ben"]}, 200),
        ("of another", {"name": "ben", "permissions": ["clients:read"], "users": ["ann"]}, 403),
        ("taken away", {"name": "ben", "permissions": [], "users": ["ben"]}, 403),
    ):
        (folder := tmp_path / name).mkdir()
        async with open_desk(folder, rbac={"role": [admin, role]}, **kept) as desk:
            cookie = cookie or await desk.cookie("ben")
            assert (await desk.ask("GET", "/api/admin/clients", cookie=cookie)).status == expected, name
            assert (await desk.ask("GET", "/api/auth/me", cookie=cookie)).status == 200


# ---- What is told of the look


@pytest.mark.parametrize("look", [{}, {"logo_url": "/logo.svg"}, {"default_theme": "dark"}], ids=str)
async def test_idp_246_the_look_is_told_where_it_is_configured(start_service, look):
    service = await start_service("idp", webui=look)

    async with aiohttp.ClientSession() as http, http.get(f"{service.url}/api/auth/info") as answer:
        info = await answer.json()

    assert {name: info[name] for name in ("logo_url", "default_theme") if name in info} == look
