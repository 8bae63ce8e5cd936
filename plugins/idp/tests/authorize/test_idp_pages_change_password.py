"""/login/change-password: who may change an expired password, and what the page says (ruling R114)."""

import pytest

from greatseal.api.directory import AccountState
from greatseal.testing import FakeClock
from greatseal.testing.desk import hidden_fields
from greatseal_idp import tables as t

START = 1_800_000_000_000_000
CHANGE = "/login/change-password"
HTML = {"Accept": "text/html"}
NEW = "through the looking-glass"


@pytest.fixture
def clock():
    return FakeClock(START)


@pytest.fixture
async def desk(open_idp, clock):
    desk = await open_idp(clock=clock)
    desk.people.change("alice", state=AccountState(password_expired=True))
    return desk


class Browser:
    """What alice's browser keeps after a sign-in with the expired password."""

    def __init__(self, desk, answer, fields):
        self.desk = desk
        self.where = answer.location
        self.cookies = {one.partition("=")[0]: one.partition(";")[0] for one in answer.cookies}
        self.fields = fields

    @property
    def cookie(self):
        return "; ".join(self.cookies.values())

    async def get(self, path=None, **more):
        page = await self.desk.get(path or self.where, cookie=self.cookie, headers=HTML, **more)
        self.cookies.update({one.partition("=")[0]: one.partition(";")[0] for one in page.cookies})
        self.fields = hidden_fields(page)
        return page

    async def change(self, old="wonderland", new=NEW, **fields):
        form = {**self.fields, "old_password": old, "new_password": new, "new_password_again": new, **fields}
        return await self.desk.post(CHANGE, data={name: value for name, value in form.items() if value}, cookie=self.cookie, headers=HTML)


async def sign_in(desk, return_to="/account"):
    page = await desk.get(f"/ui/auth/login?return_to={return_to}", headers=HTML)
    form_cookie = page.headers["Set-Cookie"].partition(";")[0]
    fields = hidden_fields(page)
    answer = await desk.post("/login", data={**fields, "username": "alice", "password": "wonderland"}, cookie=form_cookie)
    assert answer.status == 303, answer.text
    browser = Browser(desk, answer, fields)
    browser.cookies["greatseal_form"] = form_cookie
    return browser


@pytest.fixture
async def browser(desk):
    browser = await sign_in(desk)
    await browser.get()
    return browser


async def test_idp_229_the_page_asks_for_the_old_and_the_new_password(desk):
    browser = await sign_in(desk, "/authorize%3Fx%3D1")
    assert browser.where == f"{CHANGE}?username=alice&next=%2Fauthorize%3Fx%3D1"

    page = await browser.get()

    assert page.status == 200
    assert f'<form id="change-password-form" method="post" action="{CHANGE}">' in page.text
    assert (browser.fields["next"], 'value="alice"' in page.text) == ("/authorize?x=1", True)
    policy = page.headers["Content-Security-Policy"]
    assert policy == ("default-src 'none'; style-src 'self'; img-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
    assert page.headers["Cache-Control"] == "no-store"


async def test_idp_231_the_new_password_signs_in_and_returns(desk, browser):
    answer = await browser.change()

    assert (answer.status, answer.location) == (303, "/account")
    assert any(one.startswith("greatseal_change=;") for one in answer.cookies)
    assert (await desk.get("/api/auth/me", cookie=answer.cookie)).json["sub"] == "alice@LOCALHOST"
    assert [event.sub for event in await desk.events("password_changed")] == ["alice@LOCALHOST"]
    assert [(await desk.login("alice", password)).status for password in ("wonderland", NEW)] == [401, 200]


async def test_the_log_has_the_cause_that_the_page_does_not_say(browser, capsys):
    answer = await browser.change(old="hunter22")

    told = " ".join(capsys.readouterr().out.split())
    assert answer.status == 401
    assert "refused on a page" in told
    assert "of people" in told
    assert "hunter22" not in told


async def test_the_client_that_waits_is_named_and_its_form_may_lead_there(desk, register_app):
    app = await register_app(desk)
    asked = await app.ask()
    browser = await sign_in(desk, asked.location.partition("return_to=")[2])

    page = await browser.get()

    assert "<strong>The shop</strong>" in page.text
    assert "form-action 'self' https:;" in page.headers["Content-Security-Policy"]
    assert (await browser.change()).location.startswith("/authorize?transaction=")


async def test_idp_230_s077_without_the_ticket_of_a_sign_in_there_is_no_page(desk, browser, clock):
    for path in (f"{CHANGE}?username=alice&next=%2Faccount", f"{CHANGE}?next=%2Faccount"):
        answer = await desk.get(path)
        assert (answer.status, answer.location) == (303, "/ui/auth/login?return_to=%2Faccount")
    stranger = await desk.post(CHANGE, data={"username": "alice", "old_password": "wonderland", "new_password": NEW})
    assert (stranger.status, stranger.location) == (303, "/ui/auth/login")

    clock.step(300)
    late = await browser.change()

    assert (late.status, late.location) == (303, "/ui/auth/login?return_to=%2Faccount")
    assert desk.people.passwords["alice"] == "wonderland"


async def test_s077_a_ticket_is_for_its_own_person_whatever_the_form_says(desk, browser):
    assert 'value="bob"' not in (await browser.get(f"{CHANGE}?username=bob")).text

    await browser.change(username="bob")

    assert desk.people.passwords == {"alice": NEW, "bob": "builder"}


@pytest.mark.parametrize(
    ("typed", "status", "says"),
    [
        ({"old": "hunter22"}, 401, "The old password is wrong."),
        ({"new": "short"}, 400, "At least 8 characters."),
        ({"new_password_again": "another of that length"}, 400, "The new password and its repetition differ."),
        ({"new": "wonderland"}, 400, "The new password is the old one; choose another."),
        ({"old": ""}, 400, "Enter the old password and the new one."),
        ({"form_token": "x"}, 403, "This page was open for too long, or cookies are switched off."),
    ],
)
async def test_what_is_wrong_is_said_and_nothing_is_changed(desk, browser, typed, status, says):
    answer = await browser.change(**typed)

    assert answer.status == status
    assert says in answer.text
    assert '<form id="change-password-form"' in answer.text
    assert NEW not in answer.text
    assert desk.people.passwords["alice"] == "wonderland"
    assert await desk.rows(t.session) == []


async def test_s077_old_passwords_are_guessed_as_often_as_at_the_sign_in(desk, browser):
    assert [(await browser.change(old="guess")).status for _ in range(5)] == [401] * 5

    assert (await browser.change()).status == 429
    assert (await desk.login("alice")).status == 429
    assert desk.people.passwords["alice"] == "wonderland"


async def test_a_directory_that_wants_a_code_too_leads_to_the_sign_in(desk, browser):
    desk.people.change("alice", authentication_types=("otp",))

    answer = await browser.change()

    assert (answer.status, answer.location) == (303, "/ui/auth/login?return_to=%2Faccount")
    assert desk.people.passwords["alice"] == NEW
    assert await desk.rows(t.session) == []


async def test_without_anybody_who_changes_passwords_there_is_no_page(start_service, tmp_path):
    service = await start_service("idp")

    assert not [route for route in service.kernel.routes if route.path == CHANGE]
