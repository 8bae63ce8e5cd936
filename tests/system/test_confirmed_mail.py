"""A person confirms the mail address of their account."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from rig.carrier import CARRIER, carrier_of
from security.idp_desk import BROWSER, open_desk

from greatseal.testing.desk import Answer, hidden_fields
from greatseal.testing.distributions import install
from greatseal_idp import tables as t

PAGE = "/account/mail"
Opened = Callable[..., Any]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """``opened()``: a desk at which ann has a mail address, and whose notices are kept."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    carrier = install(folder, "greatseal-carrier", CARRIER)

    @asynccontextmanager
    async def open_it(**sections: Any) -> AsyncIterator[Any]:
        async with open_desk(tmp_path, "notices", carrier, **sections) as desk:
            users = tmp_path / "users.toml"
            users.write_text(users.read_text().replace('username = "ann"', 'username = "ann"\nemail = "ann@example.org"'))
            yield desk

    return open_it


async def form(desk: Any, path: str, cookie: str = "") -> Answer:
    """What comes of the form of a page."""
    page = await desk.get(path, cookie=cookie, headers=BROWSER)
    assert page.status == 200, page.text
    jar = "; ".join(filter(None, (cookie, *(one.partition(";")[0] for one in page.cookies))))
    answer: Answer = await desk.post(PAGE, data=hidden_fields(page, "mail-form"), cookie=jar, headers=BROWSER)
    return answer


async def links(desk: Any) -> list[str]:
    """The paths of the links that were sent."""
    while tasks := [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == "deliver"]:
        await asyncio.gather(*tasks)
    urls = [urlsplit(one.notice.link.value) for one in carrier_of(desk).letters if one.notice.kind == "mail_confirm"]
    return [f"{url.path}?{url.query}" for url in urls]


async def verified(desk: Any, cookie: str) -> Any:
    tokens = await desk.tokens(cookie, scope="openid email offline_access")
    return (await desk.userinfo(tokens["access_token"])).json.get("email_verified")


async def test_who_follows_the_link_in_the_mail_has_the_address(opened: Opened, database_url: str) -> None:
    async with opened(database={"url": database_url}) as desk:
        cookie = await desk.cookie("ann")
        before = await verified(desk, cookie)
        account = await desk.get("/account", cookie=cookie, headers=BROWSER)

        sent = await form(desk, PAGE, cookie)
        (link,) = await links(desk)
        assert await verified(desk, cookie) is None, "looking at a link proves nothing"
        done = await form(desk, link)

        assert (before, "Not confirmed yet" in account.text) == (None, True)
        assert ('id="sent"' in sent.text, 'id="done"' in done.text) == (True, True)
        assert await verified(desk, cookie) is True
        assert "Confirmed " in (await desk.get("/account", cookie=cookie, headers=BROWSER)).text
        assert [event.sub for event in await desk.events("mail_confirmed")] == ["ann@LOCALHOST"]


async def test_a_link_says_whose_account_it_is_for_and_counts_once(opened: Opened) -> None:
    """The address in the account of somebody else may be one's own."""
    async with opened() as desk:
        cookie = await desk.cookie("ann")
        await form(desk, PAGE, cookie)
        (link,) = await links(desk)

        page = await desk.get(link, cookie=await desk.cookie("ben"), headers=BROWSER)
        answers = await asyncio.gather(*(form(desk, link) for _ in range(5)))
        at = (await desk.rows(t.mail))[0].confirmed_at
        desk.clock.step(60)
        answers.append(await form(desk, link))

        assert ("ann@LOCALHOST" in page.text, page.headers["Referrer-Policy"]) == (True, "no-referrer")
        assert all('id="done"' in answer.text and not answer.cookies for answer in answers)
        assert [row.confirmed_at for row in await desk.rows(t.mail)] == [at]
        assert len(await desk.events("mail_confirmed")) == 1
        assert await verified(desk, await desk.cookie("ben")) is None


async def test_an_address_that_changed_before_the_link_was_followed_is_not_confirmed(opened: Opened, tmp_path: Path) -> None:
    async with opened() as desk:
        cookie = await desk.cookie("ann")
        await form(desk, PAGE, cookie)
        (link,) = await links(desk)
        users = tmp_path / "users.toml"
        users.write_text(users.read_text().replace("ann@example.org", "ann@other.example"))

        page = await desk.get(link, headers=BROWSER)
        posted = await desk.post(
            PAGE,
            data={**hidden_fields(await desk.get(PAGE, cookie=cookie, headers=BROWSER), "mail-form"), "link": link.partition("link=")[2]},
            cookie=cookie,
            headers=BROWSER,
        )

        assert ['id="over"' in one.text for one in (page, posted)] == [True, True]
        assert await desk.rows(t.mail) == []


async def test_another_address_is_not_confirmed_and_its_link_is_over(opened: Opened, tmp_path: Path) -> None:
    async with opened() as desk:
        cookie = await desk.cookie("ann")
        await form(desk, PAGE, cookie)
        (link,) = await links(desk)
        assert 'id="done"' in (await form(desk, link)).text

        users = tmp_path / "users.toml"
        users.write_text(users.read_text().replace("ann@example.org", "ann@other.example"))

        assert await verified(desk, cookie) is None
        assert 'id="over"' in (await desk.get(link, headers=BROWSER)).text


async def test_a_link_that_is_none_or_too_old_leads_nowhere(opened: Opened) -> None:
    async with opened() as desk:
        await form(desk, PAGE, await desk.cookie("ann"))
        (link,) = await links(desk)
        desk.clock.step(86_400)

        for path in (link, f"{PAGE}?link=ma_x"):
            answer = await desk.get(path, headers=BROWSER)
            assert (answer.status, 'id="over"' in answer.text) == (403, True)


async def test_three_mails_an_hour_and_none_for_who_has_no_address_or_no_session(opened: Opened) -> None:
    async with opened() as desk:
        cookie = await desk.cookie("ann")

        answers = [await form(desk, PAGE, cookie) for _ in range(4)]

        assert [answer.status for answer in answers] == [200, 200, 200, 429]
        assert len(await links(desk)) == 3
        ben = await desk.cookie("ben")
        assert (await desk.get(PAGE, cookie=ben, headers=BROWSER)).status == 404
        shown = [PAGE in (await desk.get("/account", cookie=one, headers=BROWSER)).text for one in (cookie, ben)]
        assert shown == [True, False]
        for answer in (await desk.get(PAGE, headers=BROWSER), await desk.post(PAGE, data={"x": "y"}, headers=BROWSER)):
            assert answer.location.startswith("/ui/auth/login")


async def test_s066_a_form_of_another_site_sends_and_confirms_nothing(opened: Opened) -> None:
    async with opened() as desk:
        cookie = await desk.cookie("ann")
        await form(desk, PAGE, cookie)
        (link,) = await links(desk)
        evil = {**BROWSER, "Origin": "https://evil.example"}

        assert (await desk.post(PAGE, data={"link": link.partition("link=")[2]}, headers=evil)).status == 403
        assert (await desk.post(PAGE, data={"x": "y"}, cookie=cookie, headers=evil)).status == 403
        assert await desk.events("mail_confirmed") == []
        assert len(await links(desk)) == 1


async def test_the_link_of_who_is_no_more_leads_nowhere(opened: Opened, tmp_path: Path) -> None:
    async with opened() as desk:
        await form(desk, PAGE, await desk.cookie("ann"))
        (link,) = await links(desk)
        users = tmp_path / "users.toml"
        users.write_text(users.read_text().replace('username = "ann"', 'username = "anna"'))

        assert (await desk.get(link, headers=BROWSER)).status == 403


async def test_where_no_mail_reaches_a_person_nothing_is_confirmed(tmp_path: Path) -> None:
    async with open_desk(tmp_path, "notices") as desk:
        users = tmp_path / "users.toml"
        users.write_text(users.read_text().replace('username = "ann"', 'username = "ann"\nemail = "ann@example.org"'))
        cookie = await desk.cookie("ann")

        assert (await desk.get(PAGE, cookie=cookie, headers=BROWSER)).status == 404
        assert PAGE not in (await desk.get("/account", cookie=cookie, headers=BROWSER)).text
