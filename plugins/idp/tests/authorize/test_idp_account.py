"""What people see of their own sessions and applications, and how they end them."""

import asyncio
import re
from typing import Any

import pytest

from greatseal.testing import FakeClock
from greatseal.testing.desk import bearer, hidden_fields
from greatseal_idp import tables as t
from greatseal_idp.sessions import own

START = 1_800_000_000_000_000
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
MINUTE = 60


@pytest.fixture
async def desk(open_idp: Any) -> Any:
    return await open_idp(clock=FakeClock(START), server={"auth_rate_limit": 0})


@pytest.fixture
async def stored(open_idp: Any, database_url: str) -> Any:
    """A desk on each database."""
    return await open_idp(clock=FakeClock(START), database={"url": database_url}, server={"auth_rate_limit": 0})


def step(desk: Any, seconds: int) -> None:
    desk.service.host("idp").clock.step(seconds)


async def shown(desk: Any, cookie: str) -> list[tuple[str, str, bool]]:
    """Browser, address and whether it is this one, of every session that the page lists."""
    page = (await desk.get("/account", cookie=cookie)).text
    (listed,) = re.findall(r'<dl id="sessions">(.*?)</dl>', page, re.DOTALL)
    found = re.findall(r"<dt>(.*?)</dt>\s*<dd>\s*From (.*?)<br>(.*?)</dd>", listed, re.DOTALL)
    return [(browser, remote, "This one" in rest) for browser, remote, rest in found]


async def fields(desk: Any, cookie: str, action: str) -> list[dict[str, str]]:
    """What each form of the page that leads to ``action`` sends."""
    page = (await desk.get("/account", cookie=cookie)).text
    forms = re.findall(rf'<form[^>]* action="/account/{action}">(.*?)</form>', page, re.DOTALL)
    return [dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form)) for form in forms]


async def alive(desk: Any, cookie: str) -> bool:
    return bool((await desk.get("/api/auth/me", cookie=cookie)).status == 200)


async def test_a_person_sees_where_they_are_signed_in(desk):
    first = (await desk.login(headers={"User-Agent": FIREFOX})).cookie
    step(desk, MINUTE)
    second = (await desk.login(headers={"User-Agent": "curl/8.5.0"})).cookie
    await desk.login("bob")

    assert await shown(desk, first) == [("Program curl", "127.0.0.1", False), ("Firefox on Linux", "127.0.0.1", True)]
    assert await shown(desk, second) == [("Program curl", "127.0.0.1", True), ("Firefox on Linux", "127.0.0.1", False)]


async def test_what_a_browser_says_of_itself_is_escaped(desk):
    cookie = (await desk.login(headers={"User-Agent": "Mozilla/5.0 <script>alert(1)</script>"})).cookie
    other = (await desk.login(headers={"User-Agent": "<b>x</b>"})).cookie

    assert sorted(browser for browser, _, _ in await shown(desk, cookie)) == ["Browser", "Unknown program"]
    assert "<b>" not in (await desk.get("/account", cookie=other)).text


async def test_a_session_that_was_ended_is_ended_at_once(stored, register_app):
    app = await register_app(stored)
    mine, lost = await stored.cookie(), await stored.cookie()
    code = app.told(await app.allowed(lost, scope="openid profile"))["code"]
    waiting = app.told(await app.ask(lost))["code"]
    token = (await app.redeem(code)).json["access_token"]
    assert (await stored.userinfo(token)).status == 200
    (form,) = await fields(stored, mine, "end")

    answer = await stored.post("/account/end", data=form, cookie=mine)

    assert (answer.status, answer.location) == (303, "/account")
    assert not await alive(stored, lost)
    assert await alive(stored, mine)
    assert (await stored.userinfo(token)).status == 401
    assert (await app.redeem(waiting)).json["error"] == "invalid_grant"
    assert len(await shown(stored, mine)) == 1
    assert [event.sub for event in await stored.events("logout")] == ["alice@LOCALHOST"]


async def test_requests_that_are_under_way_with_an_ended_session_do_not_outlive_it(desk):
    mine, lost = await desk.cookie(), await desk.cookie()
    (form,) = await fields(desk, mine, "end")
    over = asyncio.Event()

    async def use() -> None:
        while not over.is_set():
            await desk.get("/api/auth/me", cookie=lost)
        assert not await alive(desk, lost)

    users = [asyncio.create_task(use()) for _ in range(4)]
    answers = await asyncio.gather(*(desk.post("/account/end", data=form, cookie=mine) for _ in range(5)))
    over.set()
    await asyncio.gather(*users)

    assert {answer.status for answer in answers} == {303}
    assert len(await desk.events("logout")) == 1


async def test_s070_a_session_of_somebody_else_is_as_one_that_is_not_there(desk):
    alice, bob = await desk.cookie("alice"), await desk.cookie("bob")
    (row,) = [row for row in await desk.rows(t.session) if row.subject == "alice@LOCALHOST"]
    await desk.cookie("bob")
    (form,) = await fields(desk, bob, "end")

    theirs = await desk.post("/account/end", data={**form, "session_id": row.id}, cookie=bob)
    nobodys = await desk.post("/account/end", data={**form, "session_id": "nothing"}, cookie=bob)

    assert (theirs.status, theirs.body, theirs.location) == (nobodys.status, nobodys.body, nobodys.location)
    assert await alive(desk, alice)
    assert await desk.events("logout") == []


async def test_all_other_sessions_end_together(stored):
    others = await asyncio.gather(*(stored.cookie() for _ in range(own.BITE + 2)))
    mine, bob = await stored.cookie(), await stored.cookie("bob")
    (form,) = await fields(stored, mine, "end-others")

    assert (await stored.post("/account/end-others", data=form, cookie=mine)).status == 303

    assert [await alive(stored, cookie) for cookie in (*others[:3], others[-1], mine, bob)] == [False] * 4 + [True, True]
    assert [one for _, _, one in await shown(stored, mine)] == [True]
    assert await fields(stored, mine, "end-others") == []


@pytest.mark.parametrize("path", ["end", "end-others", "withdraw"])
async def test_s066_no_other_site_ends_anything(desk, path):
    mine, other = await desk.cookie(), await desk.cookie()
    (form, *_) = await fields(desk, mine, "end")

    foreign = await desk.post(f"/account/{path}", data=form, cookie=mine, headers={"Origin": "https://evil.example"})
    without = await desk.post(f"/account/{path}", data={**form, "form_token": "x"}, cookie=mine)
    nobody = await desk.post(f"/account/{path}", data=form)

    assert (foreign.status, without.status, nobody.status) == (403, 403, 303)
    assert await alive(desk, other)


async def test_what_ended_idle_is_not_listed_and_of_many_the_newest_are(desk, monkeypatch):
    monkeypatch.setattr(own, "SHOWN", 2)
    monkeypatch.setattr(own, "_OF", own._OF.limit(3))
    old = await desk.cookie()
    step(desk, 3601)
    kept = [await desk.cookie() for _ in range(2)]

    assert not await alive(desk, old)
    assert len(await shown(desk, kept[0])) == 2
    assert "there are more" not in (await desk.get("/account", cookie=kept[0])).text
    step(desk, 1)
    await desk.cookie()
    assert [one for _, _, one in await shown(desk, kept[0])].count(True) <= 1
    assert "there are more" in (await desk.get("/account", cookie=kept[0])).text


async def test_an_application_says_what_it_may_do_and_since_when(stored, register_app):
    app = await register_app(stored)
    cookie = await stored.cookie()
    tokens = (await app.redeem(app.told(await app.allowed(cookie, scope="openid email offline_access"))["code"])).json
    step(stored, 10 * MINUTE)
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert (await stored.post("/token", data=form, headers=app.credentials)).status == 200

    page = (await stored.get("/account", cookie=cookie)).text

    (found,) = re.findall(r'<dl id="applications">(.*?)</dl>', page, re.DOTALL)
    assert re.findall(r"<dt>(.*?)</dt>|^([^<>]+)<br>$", found, re.MULTILINE) == [
        ("The shop", ""),
        ("", "See your e-mail address"),
        ("", "Keep access while you are away"),
        ("", "Sign you in"),
    ]
    assert "Since 15 January 2027, 08:00 UTC<br>Last used 15 January 2027, 08:10 UTC" in found


async def test_an_application_that_nobody_is_asked_about_is_listed_and_disconnected(stored, register_app):
    app = await register_app(stored, consent="implicit")
    cookie = await stored.cookie()
    code = app.told(await app.ask(cookie, scope="openid offline_access"))["code"]
    tokens = (await app.redeem(code)).json
    assert await stored.rows(t.consent) == []
    (form,) = await fields(stored, cookie, "withdraw")
    assert form["client_id"] == app.client_id

    await stored.post("/account/withdraw", data=form, cookie=cookie)

    again = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert (await stored.post("/token", data=again, headers=app.credentials)).json["error"] == "invalid_grant"
    assert (await stored.get("/userinfo", headers=bearer(tokens["access_token"]))).status == 401
    assert await fields(stored, cookie, "withdraw") == []
    (event,) = await stored.events("consent_withdrawn")
    assert (event.sub, event.client_id) == ("alice@LOCALHOST", app.client_id)


async def test_an_application_of_somebody_else_stays_connected(desk, register_app):
    app = await register_app(desk, consent="implicit")
    alice, bob = await desk.cookie("alice"), await desk.cookie("bob")
    tokens = (await app.redeem(app.told(await app.ask(alice, scope="openid offline_access"))["code"])).json
    form = hidden_fields(await desk.get("/account", cookie=bob), "logout-form")

    await desk.post("/account/withdraw", data={**form, "client_id": app.client_id}, cookie=bob)

    assert (await desk.userinfo(tokens["access_token"])).status == 200
    assert await fields(desk, bob, "withdraw") == []
    assert await desk.events("consent_withdrawn") == []


async def test_what_nobody_was_asked_for_stands_on_the_first_page_alone(desk, register_app, monkeypatch):
    monkeypatch.setattr("greatseal_idp.ui.account.SHOWN", 1)
    quiet = await register_app(desk, client_name="Quiet", consent="implicit")
    asked = [await register_app(desk, client_name=name) for name in ("First", "Second")]
    cookie = await desk.cookie()
    await quiet.redeem(quiet.told(await quiet.ask(cookie, scope="openid offline_access"))["code"])
    for app in asked:
        step(desk, 1)
        await app.redeem(app.told(await app.allowed(cookie, scope="openid offline_access"))["code"])

    first = (await desk.get("/account", cookie=cookie)).text
    (after,) = re.findall(r'id="more" href="(/account\?after=[^"]*)"', first)
    second = (await desk.get(after, cookie=cookie)).text

    names = [re.findall(r"<dt>(Quiet|First|Second)</dt>", page) for page in (first, second)]
    assert names == [["Quiet", "First"], ["Second"]]
