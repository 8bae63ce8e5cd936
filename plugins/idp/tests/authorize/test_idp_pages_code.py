"""The second step of the sign-in page: a directory wants a one-time code beside the password."""

import asyncio

import pytest

from greatseal.testing import FakeClock
from greatseal.testing.desk import hidden_fields
from greatseal_idp import tables as t

START = 1_800_000_000_000_000
HTML = {"Accept": "text/html"}


@pytest.fixture
def clock():
    return FakeClock(START)


@pytest.fixture
async def desk(open_idp, clock):
    desk = await open_idp(clock=clock)
    desk.people.change("alice", authentication_types=("otp",))
    return desk


class Browser:
    """A browser with the sign-in page open."""

    def __init__(self, desk, page):
        self.desk = desk
        self.cookie = page.headers["Set-Cookie"].partition(";")[0]
        self.fields = hidden_fields(page)

    async def send(self, **typed):
        return await self.desk.post("/login", data={**self.fields, **typed}, cookie=self.cookie, headers=HTML)

    async def password(self, username="alice", password="wonderland"):
        """The first step; the hidden fields are those of the page that it gives."""
        page = await self.send(username=username, password=password)
        self.fields = hidden_fields(page) or self.fields
        return page


async def browser_at(desk, path="/ui/auth/login"):
    return Browser(desk, await desk.get(path, headers=HTML))


@pytest.fixture
async def browser(desk):
    return await browser_at(desk)


async def test_the_right_password_leads_to_the_code_and_the_code_to_the_session(desk, browser):
    page = await browser.password()

    assert page.status == 200
    assert '<form id="code-form" method="post" action="/login">' in page.text
    assert 'autocomplete="one-time-code"' in page.text
    assert "wonderland" not in page.text
    assert await desk.rows(t.session) == []

    answer = await browser.send(code=" 123 456 ")

    assert (answer.status, answer.location) == (303, "/account")
    me = await desk.get("/api/auth/me", cookie=answer.cookie)
    assert (me.json["sub"], me.json["amr"]) == ("alice@LOCALHOST", ["pwd", "otp", "mfa"])


async def test_the_second_step_returns_to_where_the_first_would_have(desk):
    browser = await browser_at(desk, "/ui/auth/login?return_to=%2Fauthorize%3Fx%3D1")
    page = await browser.password()

    assert 'href="/ui/auth/login?return_to=/authorize%3Fx%3D1"' in page.text
    assert (await browser.send(code="123456")).location == "/authorize?x=1"


async def test_a_wrong_code_is_said_and_asked_for_again(desk, browser):
    await browser.password()

    wrong = await browser.send(code="000000")

    assert wrong.status == 401
    assert "The code is wrong, or it was used before." in wrong.text
    assert '<form id="code-form"' in wrong.text
    (event,) = await desk.events("login_failure")
    assert (event.sub, event.detail) == ("alice", "wrong credential address=127.0.0.1")
    assert (await browser.send()).status == 400
    assert (await browser.send(code="123456")).status == 303


async def test_a_code_is_used_once(desk, browser):
    await browser.password()
    assert (await browser.send(code="123456")).status == 303

    assert (await browser.send(code="123456")).status == 401


async def test_an_attempt_within_an_attempt_counts_once_and_nobody_waits(desk, browser):
    async with asyncio.timeout(20):
        for _ in range(4):
            await browser.password()
            assert (await browser.send(code="000000")).status == 401
    assert len(await desk.events("login_failure")) == 4
    desk.people.codes["alice"] = {"123456"}
    assert (await browser.send(code="123456")).status == 303


async def test_who_knows_the_password_guesses_the_code_five_times(desk, browser):
    """A sign-in by the password alone, which succeeds as far as it goes, makes no room for more guesses."""
    for _ in range(5):
        await browser.password()
        assert (await browser.send(code="000000")).status == 401
    await browser.password()

    answer = await browser.send(code="123456")

    assert (answer.status, desk.people.codes["alice"]) == (429, {"123456"})
    assert '<form id="code-form"' in answer.text


@pytest.mark.parametrize("spoilt", ["old", "early", "browser", "changed", "nothing"])
async def test_a_first_step_that_does_not_count_leads_back_to_the_sign_in(desk, browser, clock, spoilt):
    await browser.password()
    step = browser.fields["step"]
    match spoilt:
        case "old":
            clock.step(300)
        case "early":
            clock.step(-1)
        case "browser":
            browser = await browser_at(desk)
            browser.fields["step"] = step
        case "changed":
            browser.fields["step"] = step[:-4] + ("AAAA" if step[-4:] != "AAAA" else "BBBB")
        case "nothing":
            browser.fields["step"] = "st_zz_" + "A" * 43
    attempts = desk.people.attempts

    answer = await browser.send(code="123456")

    assert answer.status == 403
    assert '<form id="login-form"' in answer.text
    assert "That took too long. Please sign in again." in answer.text
    assert desk.people.attempts == attempts


async def test_a_password_that_was_changed_between_the_steps_signs_nobody_in(desk, browser):
    await browser.password()
    desk.people.passwords["alice"] = "another"

    assert (await browser.send(code="123456")).status == 401
    assert desk.people.codes["alice"] == {"123456"}


async def test_what_no_form_can_ask_for_is_refused(desk, browser):
    desk.people.change("alice", authentication_types=("idp",), upstream="elsewhere")

    answer = await browser.password()

    assert answer.status == 403
    assert "more than the password is needed to sign in" in answer.text.lower()
