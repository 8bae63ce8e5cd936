"""Who is told of what, and that a change and its notice are one, on both databases."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rig.carrier import CARRIER, carrier_of
from rig.softkeys import SoftKey
from security.idp_desk import PASSWORD, open_desk
from security.idp_otp import App
from security.idp_passkeys import Passkeys
from sqlalchemy import update

from greatseal.api.declarations import Secret
from greatseal.api.notices import Notice, Undeliverable
from greatseal.api.problems import Unavailable
from greatseal.api.services import NOTICES
from greatseal.testing.distributions import install
from greatseal_notices import queue
from greatseal_notices.tables import notice as t

FIREFOX = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
ANN = "ann@LOCALHOST"
Opened = Callable[..., Any]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """``opened(*features)``: a desk whose notices are kept."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    carrier = install(folder, "greatseal-carrier", CARRIER)

    @asynccontextmanager
    async def open_it(*features: str, **sections: Any) -> AsyncIterator[Any]:
        async with open_desk(tmp_path, "notices", carrier, *features, **sections) as desk:
            await settled(desk)
            carrier_of(desk).letters.clear()
            yield desk

    return open_it


async def settled(desk: Any) -> None:
    """Until no attempt goes on any more."""
    while tasks := [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == "deliver"]:
        await asyncio.gather(*tasks)
    assert desk is not None


async def kinds(desk: Any) -> list[str]:
    await settled(desk)
    return [letter.notice.kind for letter in carrier_of(desk).letters]


async def told(desk: Any, kind: str) -> Any:
    """The one letter of that kind."""
    await settled(desk)
    (letter,) = [letter for letter in carrier_of(desk).letters if letter.notice.kind == kind]
    return letter


def tell(desk: Any, **fields: Any) -> Any:
    """Tell ann, in a transaction of its own."""
    host = desk.service.host("idp")
    given = {"kind": "test", "subject": ANN, "title": "Something happened", "text": "It did.", **fields}
    return host.db.write(lambda tx: host.optional_service(NOTICES).tell(tx, Notice(**given)))


async def test_a_browser_is_new_until_it_has_signed_in_and_to_each_person(opened, database_url):
    async with opened(database={"url": database_url}) as desk:
        first = await desk.login("ann", PASSWORD, headers=FIREFOX)
        known = "; ".join(one.partition(";")[0] for one in first.cookies)
        await desk.login("ann", PASSWORD, headers={**FIREFOX, "Cookie": known})
        assert await kinds(desk) == ["new_device"]

        await desk.login("ben", PASSWORD, headers={**FIREFOX, "Cookie": known})
        await desk.login("ann", PASSWORD, headers=FIREFOX)
        assert len(await kinds(desk)) == 3
        assert sorted(letter.notice.subject for letter in carrier_of(desk).letters) == [ANN, ANN, "ben@LOCALHOST"]
        assert facts_of(await told_of(desk, "ben@LOCALHOST")) == {"Address": "127.0.0.1", "Browser": "Firefox on Linux"}
        assert (await desk.login("ann", "wrong", headers=FIREFOX)).status == 401
        assert len(await kinds(desk)) == 3


def facts_of(letter: Any) -> dict[str, str]:
    """The facts of a notice, in English."""
    return {str(name): str(value) for name, value in letter.notice.facts.items()}


async def told_of(desk: Any, subject: str) -> Any:
    await settled(desk)
    (letter,) = [letter for letter in carrier_of(desk).letters if letter.notice.subject == subject]
    return letter


async def test_a_program_without_cookies_is_known_by_its_name_and_address(opened):
    async with opened() as desk:
        for agent in ("curl/8.5.0", "curl/8.6.0", "wget/1.21", "curl/8.7.0"):
            await desk.login("ann", PASSWORD, headers={"User-Agent": agent})
        assert await kinds(desk) == ["new_device", "new_device"]
        assert sorted(str(letter.notice.facts["Browser"]) for letter in carrier_of(desk).letters) == ["Program curl", "Program wget"]


async def test_a_passkey_that_is_added_and_deleted_is_told(opened, database_url):
    async with opened("passkey", passkey={"rp_id": "localhost"}, database={"url": database_url}) as desk:
        passkeys, cookie, key = Passkeys(desk), await desk.cookie("ann"), SoftKey()
        made = await passkeys.register(cookie, key, "My phone")
        added = await told(desk, "passkey_added")
        assert (added.notice.subject, added.notice.facts["Passkey"], added.notice.facts["Address"]) == (ANN, "My phone", "127.0.0.1")
        assert "end the sessions that are not yours" in str(added.notice.text)

        assert (await desk.ask("DELETE", f"/api/auth/passkeys/{made['id']}", cookie=cookie)).status == 204
        assert facts_of(await told(desk, "passkey_deleted")) == {"Passkey": "My phone"}
        await passkeys.register(cookie, SoftKey(), "Blue key")
        carrier_of(desk).letters.clear()
        await desk.ask("DELETE", f"/api/admin/passkeys?sub={ANN}", cookie=desk.admin)
        assert facts_of(await told(desk, "passkey_deleted")) == {"Passkey": "Blue key", "By": "an administrator"}


async def test_an_app_is_told_from_its_first_code_on_and_recovery_codes_by_their_use(opened, database_url):
    async with opened("otp", database={"url": database_url}) as desk:
        cookie = await desk.cookie("ann")
        app = App(desk, "ann", cookie)
        await app.scan("My phone")
        assert await kinds(desk) == ["new_device"]
        await app.confirm()
        assert facts_of(await told(desk, "code_token_added")) == {"App": "My phone"}
        codes = await app.recovery_codes()
        assert (await app.sign_in(codes[0])).status == 200
        assert facts_of(await told(desk, "recovery_code_used")) == {"Codes that are left": "9"}
        assert (await app.sign_in(codes[0])).status == 401
        await app.delete()
        assert facts_of(await told(desk, "code_token_deleted")) == {"App": "My phone"}
        assert (await kinds(desk)).count("recovery_code_used") == 1
        assert codes[0] not in str(carrier_of(desk).letters)


async def test_without_the_plugin_nothing_is_told_and_no_row_is_written(tmp_path):
    async with open_desk(tmp_path, "passkey", passkey={"rp_id": "localhost"}) as desk:
        passkeys, cookie = Passkeys(desk), await desk.cookie("ann")
        await passkeys.register(cookie, SoftKey(), "My phone")

        assert desk.service.host("idp").optional_service(NOTICES) is None
        assert await desk.events("notice_sent") == []


async def test_with_no_carrier_nothing_waits(tmp_path):
    async with open_desk(tmp_path, "notices") as desk:
        await desk.login("ann", PASSWORD)

        assert await desk.rows(t) == []


async def test_a_change_that_is_undone_tells_nobody(opened):
    async with opened() as desk:
        host = desk.service.host("idp")

        def undone(tx: Any) -> None:
            host.optional_service(NOTICES).tell(tx, Notice(kind="test", subject=ANN, title="It happened", text="Not."))
            raise RuntimeError("undone")

        with pytest.raises(RuntimeError, match="undone"):
            await host.db.write(undone)

        assert await kinds(desk) == []
        assert await desk.rows(t) == []


async def test_a_link_rests_sealed_and_goes_to_private_carriers_alone(opened, database_url):
    async with opened(database={"url": database_url}) as desk:
        carrier = carrier_of(desk)
        carrier.fails = [Unavailable("later")]
        await tell(desk, link=Secret("https://localhost/the-link"))
        await settled(desk)
        (row,) = await desk.rows(t)
        assert b"the-link" not in bytes(row.link)
        assert "the-link" not in str(row)

        desk.clock.step(30)
        await queue_of(desk).deliver()
        assert carrier.letters[0].notice.link.value == "https://localhost/the-link"
        assert "the-link" not in str(await desk.events("notice_sent"))

        type(carrier).private = False
        try:
            await tell(desk, kind="another", link=Secret("https://localhost/the-link"))
            assert (await kinds(desk), await desk.rows(t)) == (["test"], [])
        finally:
            type(carrier).private = True


def queue_of(desk: Any) -> Any:
    return desk.service.kernel.hooks.instances["notices"].queue(desk.service.host("notices"))


async def test_failures_are_tried_again_until_the_time_is_over(opened, database_url):
    async with opened(database={"url": database_url}) as desk:
        carrier = carrier_of(desk)
        carrier.fails = [Unavailable("later", cause="the reason") for _ in range(3)]
        await tell(desk, seconds=900)
        await settled(desk)
        for seconds in (30, 120):
            desk.clock.step(seconds)
            await queue_of(desk).deliver()
        assert len(carrier.fails) == 0
        desk.clock.step(900)
        await queue_of(desk).deliver()

        events = await desk.events("notice_sent")
        assert [event.detail for event in events][-4:] == [
            "test by kept attempt 1: the reason",
            "test by kept attempt 2: the reason",
            "test by kept attempt 3: the reason",
            "test by kept attempt 4: nobody took it in time",
        ]
        assert (carrier.letters, await desk.rows(t)) == ([], [])


async def test_what_is_undeliverable_is_not_tried_again(opened):
    async with opened() as desk:
        carrier_of(desk).fails = [Undeliverable("there is no such box")]
        await tell(desk)
        await settled(desk)

        assert [event.detail for event in await desk.events("notice_sent")][-1] == "test by kept attempt 1: there is no such box"
        assert await desk.rows(t) == []


async def test_a_kind_is_told_ten_times_an_hour_and_no_more_wait(opened):
    async with opened() as desk:
        carrier = carrier_of(desk)
        carrier.fails = [Unavailable("later") for _ in range(20)]
        for _ in range(queue.MOST_WAITING + 3):
            await tell(desk)
        await settled(desk)
        assert len(await desk.rows(t)) == queue.MOST_WAITING

        carrier.fails.clear()
        desk.clock.step(30)
        await queue_of(desk).deliver()
        await tell(desk, kind="another")
        await tell(desk)
        found = await kinds(desk)
        assert (found.count("test"), found.count("another")) == (queue.MOST_CARRIED, 1)
        assert "within an hour" in [event.detail for event in await desk.events("notice_sent")][-1]


async def test_whoever_is_gone_and_whatever_no_carrier_takes_leaves_the_queue(opened):
    async with opened() as desk:
        await tell(desk, subject="nobody@LOCALHOST")
        carrier_of(desk).fails = [Unavailable("later")]
        await tell(desk)
        await settled(desk)
        await desk.service.host("idp").db.write(lambda tx: tx.run(update(t).values(carrier="gone")))
        desk.clock.step(30)
        await queue_of(desk).deliver()

        assert (await kinds(desk), await desk.rows(t)) == ([], [])
