"""A forgotten password, from the page that asks for a name to the sign-in with the new one."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from rig.carrier import CARRIER, carrier_of
from security.idp_desk import BROWSER, PASSWORD, open_desk
from security.idp_otp import App
from sqlalchemy import select

from greatseal.api.passwords import PasswordSetter
from greatseal.api.problems import Unavailable
from greatseal.testing.desk import hidden_fields
from greatseal.testing.distributions import install
from greatseal_idp import tables as t
from greatseal_idp.sessions import resets
from greatseal_users_file.edit import change_password

FORGOT, RESET = "/login/forgot", "/login/reset"
NEW = "another battery staple"
Opened = Callable[..., Any]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """``opened()``: a desk at which ann has a mail address, and whose notices are kept."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    carrier = install(folder, "greatseal-carrier", CARRIER)

    @asynccontextmanager
    async def open_it(*features: str, user: str = 'email = "ann@example.org"', **sections: Any) -> AsyncIterator[Any]:
        given = {"users": {"writable": True}, **sections}
        async with open_desk(tmp_path, "notices", carrier, *features, **given) as desk:
            users = tmp_path / "users.toml"
            users.write_text(users.read_text().replace('username = "ann"', f'username = "ann"\n{user}'))
            await settled()
            carrier_of(desk).letters.clear()
            yield desk

    return open_it


async def settled() -> None:
    """Until nothing goes on beside the requests."""
    names = {"deliver", "_send", "carry_on"}
    while tasks := [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") in names]:
        await asyncio.gather(*tasks)


async def asked(desk: Any, username: str = "ann") -> Any:
    """What the page answers to a name."""
    page = await desk.get(FORGOT, headers=BROWSER)
    cookie = page.cookies[0].partition(";")[0]
    return await desk.post(FORGOT, data={**hidden_fields(page, "forgot-form"), "username": username}, cookie=cookie, headers=BROWSER)


async def letters(desk: Any, kind: str = "password_reset") -> list[Any]:
    await settled()
    return [letter for letter in carrier_of(desk).letters if letter.notice.kind == kind]


async def link_of(desk: Any, username: str = "ann") -> str:
    """The path of the newest link."""
    assert (await asked(desk, username)).status == 200
    url = urlsplit((await letters(desk))[-1].notice.link.value)
    return f"{url.path}?{url.query}"


async def choose(desk: Any, link: str, new: str = NEW, again: str | None = None) -> Any:
    """What comes of a password behind a link."""
    page = await desk.get(link, headers=BROWSER)
    if page.status != 200:
        return page
    fields = hidden_fields(page, "reset-form")
    cookie = page.cookies[0].partition(";")[0]
    form = {**fields, "new_password": new, "new_password_again": new if again is None else again}
    return await desk.post(RESET, data=form, cookie=cookie, headers=BROWSER)


async def test_who_forgot_a_password_chooses_another_by_a_link_in_a_mail(opened, database_url):
    async with opened(database={"url": database_url}) as desk:
        assert f'href="{FORGOT}"' in (await desk.get("/ui/auth/login", headers=BROWSER)).text
        old = await desk.cookie("ann")
        tokens = await desk.tokens(old)
        link = await link_of(desk)

        answer = await choose(desk, link)

        assert (answer.status, 'id="done"' in answer.text, answer.cookies) == (200, True, ())
        assert (await desk.get("/api/auth/me", cookie=old)).status == 401
        assert (await desk.refresh(tokens["refresh_token"])).error == "invalid_grant"
        assert (await desk.login("ann", PASSWORD)).status == 401
        desk.clock.step(2)
        assert (await desk.login("ann", NEW)).status == 200
        (told,) = await letters(desk, "password_changed")
        assert told.notice.facts["Address"] == "127.0.0.1"
        assert [event.sub for event in await desk.events("password_reset_asked", "password_changed")] == ["ann@LOCALHOST"] * 2
        assert await desk.rows(t.reset) == []


async def test_a_link_is_good_once_and_of_two_at_once_one_counts(opened, database_url):
    async with opened(database={"url": database_url}) as desk:
        link = await link_of(desk)

        answers = await asyncio.gather(*(choose(desk, link, f"a new password {number}") for number in range(6)))

        done = [number for number, answer in enumerate(answers) if 'id="done"' in answer.text]
        assert len(done) == 1
        assert {answer.status for number, answer in enumerate(answers) if number not in done} == {403}
        assert 'id="over"' in (await choose(desk, link)).text
        assert len(await letters(desk, "password_changed")) == 1
        desk.clock.step(2)
        assert (await desk.login("ann", f"a new password {done[0]}")).status == 200


async def test_a_link_is_good_for_fifteen_minutes(opened):
    async with opened() as desk:
        link = await link_of(desk)
        desk.clock.step(899)
        assert (await desk.get(link, headers=BROWSER)).status == 200
        desk.clock.step(1)
        assert (await choose(desk, link)).status == 403
        assert (await desk.login("ann", PASSWORD)).status == 200


async def test_a_link_is_good_until_another_one_was_used(opened, database_url):
    """A stranger who asks for more of them takes none away."""
    async with opened(database={"url": database_url}) as desk:
        first, second = await link_of(desk), await link_of(desk)
        assert first != second

        answers = await asyncio.gather(*(choose(desk, link, f"a new password {number}") for number, link in enumerate((first, second))))

        assert sorted(answer.status for answer in answers) == [200, 403]
        assert [(await desk.get(link, headers=BROWSER)).status for link in (first, second)] == [403, 403]
        assert await desk.rows(t.reset) == []
        assert len(await letters(desk, "password_changed")) == 1


async def test_looking_at_a_link_does_not_use_it_up(opened):
    async with opened() as desk:
        link = await link_of(desk)
        pages = [await desk.get(link, headers=BROWSER) for _ in range(3)]

        assert {page.status for page in pages} == {200}
        assert pages[0].headers["Referrer-Policy"] == "no-referrer"
        assert 'id="done"' in (await choose(desk, link)).text


@pytest.mark.parametrize("path", [f"{RESET}?link=pw_n1_{'x' * 43}", f"{RESET}?link=x", RESET, f"{RESET}?link=se_n1_{'x' * 43}"])
async def test_a_link_that_is_none_leads_nowhere(opened, path):
    async with opened() as desk:
        assert 'id="over"' in (await desk.get(path, headers=BROWSER)).text


async def test_s078_whoever_asks_learns_nothing(opened):
    async with opened(user='email = "ann@example.org"') as desk:
        pages = [await asked(desk, name) for name in ("ann", "ben", "nobody", "ann@LOCALHOST", "ann@ELSEWHERE")]

        bodies = [re.sub(r'name="form_token" value="[^"]*"', "", page.text) for page in pages]
        assert len(set(bodies)) == 1
        assert {(page.status, page.cookies) for page in pages} == {(200, ())}
        assert [letter.notice.subject for letter in await letters(desk)] == ["ann@LOCALHOST"] * 2


@pytest.mark.parametrize("user", ["enabled = false\nemail = 'ann@example.org'", "email_verified = false\nemail = 'ann@example.org'", ""])
async def test_who_may_not_sign_in_or_has_no_mail_address_gets_no_link(opened, user):
    async with opened(user=user) as desk:
        assert (await asked(desk)).status == 200

        assert await letters(desk) == []
        assert await desk.rows(t.reset) == []


async def test_an_account_that_was_disabled_meanwhile_stays_out(opened, tmp_path):
    async with opened() as desk:
        link = await link_of(desk)
        users = tmp_path / "users.toml"
        users.write_text(users.read_text().replace('username = "ann"', 'username = "ann"\nenabled = false'))

        answer = await choose(desk, link)

        assert (answer.status, "this account is disabled" in answer.text.lower()) == (403, True)
        assert await letters(desk, "password_changed") == []


async def test_a_link_is_of_the_password_that_was_in_force_when_it_was_sent(opened, tmp_path):
    """Who reads the mails of somebody may have asked for it, before the person changed the password."""
    async with opened() as desk:
        link = await link_of(desk)
        desk.clock.step(5)
        change_password(tmp_path / "users.toml", "ann", NEW, desk.clock.now)
        desk.clock.step(5)

        assert 'id="over"' in (await desk.get(link, headers=BROWSER)).text
        assert 'id="over"' in (await choose(desk, link, "a third battery staple")).text
        assert (await desk.login("ann", NEW)).status == 200


async def test_of_a_name_strangers_get_two_links_in_their_time_and_a_place_that_is_known_has_its_own(opened):
    async with opened() as desk:
        for _ in range(5):
            assert (await asked(desk)).status == 200
        assert len(await letters(desk)) == resets.MOST
        desk.clock.advance(resets.SECONDS - 1)
        link = await link_of(desk)
        assert len(await letters(desk)) == resets.MOST
        assert (await desk.get(link, headers=BROWSER)).status == 200, "who gets none has one that is good"

        await desk.login("ann", PASSWORD)
        for _ in range(5):
            assert (await asked(desk)).status == 200
        assert len(await letters(desk)) == resets.MOST + resets.OWN
        desk.clock.advance(1)
        await asked(desk)
        assert len(await letters(desk)) == resets.MOST + resets.OWN + 1


@pytest.mark.parametrize("names", [("ann@ELSEWHERE", "ann@", "ann@@LOCALHOST"), ("ben", "ben@LOCALHOST")], ids=["of nobody", "of others"])
async def test_who_asks_by_the_name_of_somebody_else_keeps_nobody_from_a_link(opened, names):
    """Strangers may ask for names that get no mail as often as they like."""
    async with opened() as desk:
        for name in names * resets.MOST:
            assert (await asked(desk, name)).status == 200
        assert await letters(desk) == []

        assert (await desk.get(await link_of(desk), headers=BROWSER)).status == 200


async def test_all_spellings_of_a_name_share_its_links(opened):
    async with opened() as desk:
        for name in ("ann", "ANN", "ann@LOCALHOST", " Ann@localhost ", "\uff41nn") * 2:
            assert (await asked(desk, name)).status == 200

        assert len(await letters(desk)) == resets.MOST


async def test_who_changed_the_password_and_forgot_it_too_gets_another_link(opened):
    """Those that strangers asked for before are of the old password: whoever gets none must have one that is good."""
    async with opened() as desk:
        for _ in range(resets.MOST):
            link = await link_of(desk)
        assert 'id="done"' in (await choose(desk, link)).text
        desk.clock.step(2)

        assert (await desk.get(await link_of(desk), headers=BROWSER)).status == 200
        assert len(await letters(desk)) == resets.MOST + 1


async def test_attempts_of_an_address_are_counted_with_those_of_the_sign_in(opened):
    async with opened(server={"auth_rate_limit": 8}) as desk:
        assert (await asked(desk)).status == 200
        refused = [await asked(desk) for _ in range(8)][-1]
        assert (refused.status, "too many attempts" in refused.text.lower()) == (429, True)


@pytest.mark.parametrize(
    ("new", "again", "said"),
    [("short", None, "5 of at least 12 characters"), (NEW, "something else", "differ"), ("", None, "enter a new password")],
)
async def test_a_password_that_is_refused_leaves_the_link_good(opened, new, again, said):
    async with opened() as desk:
        link = await link_of(desk)

        refused = await choose(desk, link, new, again)

        assert (refused.status, said in refused.text.lower()) == (400, True)
        assert 'id="done"' in (await choose(desk, link)).text


async def test_a_second_factor_is_needed_as_before(opened):
    async with opened("otp") as desk:
        app = App(desk, "ann", await desk.cookie("ann"))
        await app.scan()
        await app.confirm()
        await choose(desk, await link_of(desk))
        desk.clock.step(2)

        assert (await desk.login("ann", NEW)).status == 403
        assert (await app.sign_in(password=NEW)).status == 200


@pytest.mark.parametrize("sections", [{"users": {}}, {"plugins": {}}], ids=["not writable", "writable"])
async def test_where_the_file_may_not_be_written_there_is_no_page(opened, sections):
    async with opened(**sections) as desk:
        there = "users" not in sections
        assert (f'href="{FORGOT}"' in (await desk.get("/ui/auth/login", headers=BROWSER)).text) is there
        assert [(await desk.get(path, headers=BROWSER)).status for path in (FORGOT, RESET)] == ([200, 403] if there else [404, 404])
        form = hidden_fields(await desk.get("/ui/auth/login", headers=BROWSER), "login-form")
        asked = [await desk.post(path, data={**form, "username": "ann"}, headers=BROWSER) for path in (FORGOT, RESET)]
        assert [one.status for one in asked] == ([403, 403] if there else [404, 404])


async def test_where_no_mail_reaches_a_person_there_is_no_page(tmp_path):
    async with open_desk(tmp_path, "notices", users={"writable": True}) as desk:
        assert (await desk.get(FORGOT, headers=BROWSER)).status == 404


async def test_s066_a_form_of_another_site_is_refused(opened):
    async with opened() as desk:
        link = await link_of(desk)
        value = link.partition("link=")[2]
        form = {"link": value, "new_password": NEW, "new_password_again": NEW}

        for path in (FORGOT, RESET):
            answer = await desk.post(path, data={**form, "username": "ann"}, headers={**BROWSER, "Origin": "https://evil.example"})
            assert answer.status == 403
        assert (await desk.login("ann", PASSWORD)).status == 200


async def test_a_directory_that_cannot_tell_is_asked_later_and_the_link_is_not_good_twice(opened, monkeypatch):
    async with opened() as desk:
        setter = desk.service.host("idp").components(PasswordSetter)["users-file"]

        async def down(*_: Any) -> None:
            raise Unavailable("the file cannot be written")

        link = await link_of(desk)
        old = await desk.cookie("ann")
        with monkeypatch.context() as patched:
            patched.setattr(setter, "set", down)
            assert (await choose(desk, link)).status == 503
        assert 'id="over"' in (await choose(desk, link)).text
        await choose(desk, await link_of(desk))
        desk.clock.step(61)
        await desk.provider.resets.carry_on()

        assert await desk.rows(t.reset) == []
        assert (await desk.get("/api/auth/me", cookie=old)).status == 401


async def test_what_a_crash_interrupted_is_finished_or_forgotten(opened, database_url, monkeypatch):
    async with opened(database={"url": database_url}) as desk:
        parts = desk.provider.resets
        old = await desk.cookie("ann")

        async def killed(*_: Any) -> None:
            raise asyncio.CancelledError

        monkeypatch.setattr(parts, "_finish", killed)
        with pytest.raises(Exception, match=r".*"):
            await choose(desk, await link_of(desk))
        monkeypatch.undo()
        (row,) = await desk.rows(t.reset)
        assert row.used_at is not None
        desk.clock.step(61)
        await parts.carry_on()

        assert await desk.rows(t.reset) == []
        assert len(await letters(desk, "password_changed")) == 1
        assert (await desk.get("/api/auth/me", cookie=old)).status == 401


async def test_links_that_nobody_used_leave_the_table(opened):
    async with opened() as desk:
        await link_of(desk)
        desk.clock.advance(3 * 3600)
        await desk.provider.resets.carry_on()
        assert await desk.service.host("idp").db.read(lambda tx: tx.all(select(t.reset))) == []
