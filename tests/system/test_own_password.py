"""A person who is signed in changes their password on the account page."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rig.carrier import CARRIER, carrier_of
from security.idp_desk import BROWSER, PASSWORD, open_desk
from security.idp_federation import open_federation
from security.idp_otp import app_of

from greatseal.api.directory import DirectoryUnavailable
from greatseal.testing.desk import Answer, hidden_fields
from greatseal.testing.distributions import install

PAGE = "/account/password"
NEW = "another battery staple"
Opened = Callable[..., Any]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """``opened()``: a desk whose users file may be written, and whose notices are kept."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    carrier = install(folder, "greatseal-carrier", CARRIER)

    @asynccontextmanager
    async def open_it(*features: str, **sections: Any) -> AsyncIterator[Any]:
        async with open_desk(tmp_path, "notices", carrier, *features, **{"users": {"writable": True}, **sections}) as desk:
            yield desk

    return open_it


async def change(desk: Any, cookie: str, new: str = NEW, *, old: str = PASSWORD, **fields: str) -> Answer:
    """What comes of the form."""
    page = await desk.get(PAGE, cookie=cookie, headers=BROWSER)
    assert page.status == 200, page.text
    form = {**hidden_fields(page, "own-password-form"), "old_password": old, "new_password": new, "new_password_again": new, **fields}
    both = f"{cookie}; {page.cookies[0].partition(';')[0]}" if page.cookies else cookie
    answer: Answer = await desk.post(PAGE, data=form, cookie=both, headers=BROWSER)
    return answer


async def test_a_person_changes_the_password_and_stays_signed_in_here_alone(opened: Opened, database_url: str) -> None:
    async with opened(database={"url": database_url}) as desk:
        elsewhere, here = await desk.cookie("ann"), await desk.cookie("ann")
        tokens = await desk.tokens(here)
        account = await desk.get("/account", cookie=here, headers=BROWSER)

        done = await change(desk, here)

        assert f'href="{PAGE}"' in account.text
        assert (done.status, done.location) == (303, "/account")
        assert done.cookie != here
        assert [(await desk.get("/api/auth/me", cookie=one)).status for one in (done.cookie, here, elsewhere)] == [200, 401, 401]
        assert (await desk.refresh(tokens["refresh_token"])).error == "invalid_grant"
        assert (await desk.login("ann", PASSWORD)).status == 401
        assert (await desk.login("ann", NEW)).status == 200
        assert [event.sub for event in await desk.events("password_changed")] == ["ann@LOCALHOST"]
        await asyncio.gather(*(task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == "deliver"))
        (told,) = [letter for letter in carrier_of(desk).letters if letter.notice.kind == "password_changed"]
        assert told.notice.facts["Address"] == "127.0.0.1"
        assert "Set" in (await desk.get("/account", cookie=done.cookie, headers=BROWSER)).text


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"old": "not the old password"}, 401, "The old password is wrong."),
        ({"new": "short"}, 400, "It has 5 of at least 12 characters"),
        ({"new": "qwertyuiopas"}, 400, "It is among the passwords that are tried first"),
        ({"new": PASSWORD}, 400, "The new password is the old one"),
        ({"new_password_again": "another one than that"}, 400, "The new password and its repetition differ"),
    ],
)
async def test_what_is_typed_wrong_is_said_and_changes_nothing(opened: Opened, fields: dict[str, str], status: int, words: str) -> None:
    async with opened() as desk:
        cookie = await desk.cookie("ann")

        answer = await change(desk, cookie, **fields)

        assert (answer.status, words in answer.text) == (status, True), answer.text
        assert (await desk.get("/api/auth/me", cookie=cookie)).status == 200
        assert (await desk.login("ann", PASSWORD)).status == 200


@pytest.mark.parametrize("field", ["old_password", "new_password"])
async def test_a_form_without_a_password_changes_nothing(opened: Opened, field: str) -> None:
    async with opened() as desk:
        cookie = await desk.cookie("ann")
        page = await desk.get(PAGE, cookie=cookie, headers=BROWSER)
        form = {**hidden_fields(page, "own-password-form"), "old_password": PASSWORD, "new_password": NEW}
        del form[field]
        answer = await desk.post(
            PAGE, data=form, cookie="; ".join([cookie, *(one.partition(";")[0] for one in page.cookies)]), headers=BROWSER
        )

        assert (answer.status, "enter the old password and the new one" in answer.text.lower()) == (400, True)
        assert (await desk.login("ann", PASSWORD)).status == 200


async def test_who_has_no_password_here_has_no_page(tmp_path: Path) -> None:
    async with open_federation(tmp_path, table={"realm": "PARTNER.EXAMPLE", "username_claim": "name"}, users={"writable": True}) as there:
        there.stub.claims = {"name": "ada"}
        cookie = (await there.sign_in("/account")).cookie

        for answer in (
            await there.desk.get(PAGE, cookie=cookie, headers=BROWSER),
            await there.desk.post(PAGE, data={"x": "y"}, cookie=cookie),
        ):
            assert answer.status == 404
        assert PAGE not in (await there.desk.get("/account", cookie=cookie, headers=BROWSER)).text
        assert PAGE in (await there.desk.get("/account", cookie=await there.desk.cookie("ann"), headers=BROWSER)).text


async def test_s077_guesses_of_the_old_password_count_as_those_of_a_sign_in(opened: Opened) -> None:
    async with opened() as desk:
        cookie = await desk.cookie("ann")

        answers = [await change(desk, cookie, old=f"guess number {number}") for number in range(6)]

        assert [answer.status for answer in answers] == [401] * 5 + [429]
        assert (await desk.login("ann", PASSWORD)).status == 429


async def test_of_two_changes_at_once_with_one_old_password_one_counts(opened: Opened) -> None:
    async with opened(server={"auth_rate_limit": 0}) as desk:
        cookies = [await desk.cookie("ann") for _ in range(4)]

        answers = await asyncio.gather(*(change(desk, cookie, f"{NEW} {number}") for number, cookie in enumerate(cookies)))

        won = [number for number, answer in enumerate(answers) if answer.status == 303 and answer.location == "/account"]
        assert len(won) == 1
        assert (await desk.login("ann", f"{NEW} {won[0]}")).status == 200


async def test_who_proved_a_code_before_is_not_asked_for_it_again(opened: Opened) -> None:
    async with opened("otp") as desk:
        app = await app_of(desk)
        signed_in = await app.sign_in()

        done = await change(desk, signed_in.cookie)

        me = (await desk.get("/api/auth/me", cookie=done.cookie)).json
        assert me["amr"] == ["pwd", "otp", "mfa"]


async def test_s103_a_session_without_the_code_does_not_change_the_password(opened: Opened) -> None:
    """Whoever knows the password alone signed in before the person added an app."""
    async with opened("otp") as desk:
        app = await app_of(desk)

        page = await desk.get(PAGE, cookie=app.weak, headers=BROWSER)
        form = {**hidden_fields(await desk.get("/account", cookie=app.weak, headers=BROWSER), "logout-form"), "old_password": PASSWORD}
        sent = await desk.post(PAGE, data={**form, "new_password": NEW, "new_password_again": NEW}, cookie=app.weak, headers=BROWSER)

        assert {answer.location for answer in (page, sent)} == {"/ui/auth/step-up?return_to=%2Faccount%2Fpassword"}
        assert await desk.events("password_changed") == []
        assert (await change(desk, app.cookie)).status == 303


async def test_whoever_is_not_signed_in_is_led_to_the_sign_in(opened: Opened) -> None:
    async with opened() as desk:
        for answer in (await desk.get(PAGE, headers=BROWSER), await desk.post(PAGE, data={"old_password": PASSWORD}, headers=BROWSER)):
            assert (answer.status, answer.location.partition("?")[0]) == (303, "/ui/auth/login")


async def test_s066_a_form_of_another_site_changes_nothing(opened: Opened) -> None:
    async with opened() as desk:
        cookie = await desk.cookie("ann")
        form = {"old_password": PASSWORD, "new_password": NEW, "new_password_again": NEW}

        answer = await desk.post(PAGE, data=form, cookie=cookie, headers={**BROWSER, "Origin": "https://evil.example"})

        assert answer.status == 403
        assert (await desk.login("ann", PASSWORD)).status == 200


async def test_while_the_directory_cannot_tell_the_part_is_left_out(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as desk:
        cookie = await desk.cookie("ann")

        async def down(*_: Any) -> Any:
            raise DirectoryUnavailable("the directory cannot be reached")

        host = desk.service.host("idp")
        monkeypatch.setattr(host._plugin.assembly(host).own_password, "person", down)
        page = await desk.get("/account", cookie=cookie, headers=BROWSER)

        assert (page.status, PAGE in page.text, "Connected applications" in page.text) == (200, False, True)


async def test_where_the_file_may_not_be_written_there_is_no_page(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        cookie = await desk.cookie("ann")

        assert (await desk.get(PAGE, cookie=cookie, headers=BROWSER)).status == 404
        assert PAGE not in (await desk.get("/account", cookie=cookie, headers=BROWSER)).text
