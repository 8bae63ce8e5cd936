"""Notices to a mail server that we did not write (aiosmtpd): over TLS, with a sign-in, and when it does not take them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rig.mailbox import Mailbox, Protection
from security.idp_desk import PASSWORD, Desk, open_desk

from greatseal.api.declarations import CheckResult
from greatseal.testing.service import free_port
from greatseal_notices.tables import notice as t

FIREFOX = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
RETRIES = (30, 120, 600, 3600, 4 * 3600, 12 * 3600)


@pytest.fixture
def mailbox(tmp_path: Path) -> Callable[..., Mailbox]:
    """``mailbox(protection)``: a server that is to be served."""

    def made(protection: Protection = "starttls", **more: Any) -> Mailbox:
        return Mailbox(tmp_path, protection, **more)

    return made


@asynccontextmanager
async def desk_of(box: Mailbox, folder: Path, *, email: str = "ann@example.org", **changes: Any) -> AsyncIterator[Desk]:
    """A desk at which ann has a mail address; ben has none."""
    users = folder / "users.toml"

    async with open_desk(folder, "notices", notices=box.settings(**changes), webui={"display_name": "Example Organisation"}) as desk:
        text = users.read_text().replace('username = "ann"', f'username = "ann"\nemail = "{email}"\ndisplay_name = "Ann Example"')
        users.write_text(text)
        yield desk


async def settled(desk: Any) -> None:
    """Until no attempt goes on any more."""
    while tasks := [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == "deliver"]:
        await asyncio.gather(*tasks)


async def told(desk: Any) -> list[tuple[str, str]]:
    """Outcome and detail of every attempt."""
    await settled(desk)
    return [(event.outcome, event.detail) for event in await desk.events("notice_sent") if event.sub == "ann@LOCALHOST"]


async def waiting(desk: Any) -> list[Any]:
    await settled(desk)
    return [row for row in await desk.rows(t) if row.subject == "ann@LOCALHOST"]


async def checked(desk: Any) -> CheckResult:
    """What doctor says of the mail server."""
    found: CheckResult = (await desk.service.kernel.health.run(ready_only=False))["mail server"]
    return found


def queue_of(desk: Any) -> Any:
    return desk.service.kernel.hooks.instances["notices"].queue(desk.service.host("notices"))


@pytest.mark.parametrize("protection", ["starttls", "implicit"])
async def test_a_sign_in_with_a_new_device_is_told_by_mail(mailbox: Callable[..., Mailbox], tmp_path: Path, protection: Protection) -> None:
    with mailbox(protection).served() as box:
        async with desk_of(box, tmp_path) as desk:
            answer = await desk.login("ann", PASSWORD, headers=FIREFOX)
            mail = await asyncio.to_thread(box.read)
            known = "; ".join(one.partition(";")[0] for one in answer.cookies)
            await desk.login("ann", PASSWORD, headers={**FIREFOX, "Cookie": known})
            await desk.login("ben", PASSWORD, headers=FIREFOX)

            assert await told(desk) == [("success", "new_device by mail")]
            assert await waiting(desk) == []
    assert box.mails.empty()
    assert box.envelopes == [("accounts@example.org", ["ann@example.org"])]
    assert [one.split()[1] for one in box.signed_in] == (["right"] if protection == "starttls" else [])
    assert (mail["From"], mail["To"]) == ("Example Organisation <accounts@example.org>", "ann@example.org")
    assert mail["Subject"] == "Example Organisation: A sign-in with a new device"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"].endswith("@example.org>")
    assert mail["Date"].datetime is not None
    assert mail.get_content_type() == "text/plain"
    text = mail.get_content()
    for words in ("Hello Ann Example,", "Account: ann@LOCALHOST", "Address: 127.0.0.1", "Browser: Firefox on Linux", f"{desk.url}/account"):
        assert words in text
    for name in ("Cc", "Bcc", "Reply-To"):
        assert mail[name] is None


async def test_what_is_refused_for_now_comes_later_under_the_same_id(mailbox: Callable[..., Mailbox], tmp_path: Path) -> None:
    with mailbox().served() as box:
        box.data = ["451 try again", "421 too busy"]
        async with desk_of(box, tmp_path) as desk:
            await desk.login("ann", PASSWORD, headers=FIREFOX)
            ((outcome, detail),) = await told(desk)
            assert (outcome, "451" in detail) == ("failure", True)
            await queue_of(desk).deliver()
            assert len(await told(desk)) == 1, "it is not due yet"

            for seconds in RETRIES[:2]:
                desk.clock.step(seconds)
                await queue_of(desk).deliver()

            assert [outcome for outcome, _ in await told(desk)] == ["failure", "failure", "success"]
            assert await waiting(desk) == []
    assert box.mails.qsize() == 1


@pytest.mark.parametrize("command", ["rcpt", "data"])
async def test_what_is_refused_for_good_is_given_up(mailbox: Callable[..., Mailbox], tmp_path: Path, command: str) -> None:
    with mailbox().served() as box:
        setattr(box, command, ["550 nobody of that name here"])
        async with desk_of(box, tmp_path) as desk:
            await desk.login("ann", PASSWORD, headers=FIREFOX)

            ((outcome, detail),) = await told(desk)
            assert outcome == "failure"
            assert 'answered 550: "nobody of that name here"' in detail
            assert await waiting(desk) == []


async def test_a_mail_server_that_never_takes_it_is_given_up_after_a_day(mailbox: Callable[..., Mailbox], tmp_path: Path) -> None:
    box = mailbox()  # nothing listens
    async with desk_of(box, tmp_path) as desk:
        await desk.login("ann", PASSWORD, headers=FIREFOX)
        await settled(desk)
        for seconds in (*RETRIES, 24 * 3600):
            desk.clock.step(seconds)
            await queue_of(desk).deliver()

        attempts = await told(desk)
        assert {outcome for outcome, _ in attempts} == {"failure"}
        assert 5 <= len(attempts) <= 7
        assert "Connection refused" in attempts[0][1]
        assert await waiting(desk) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"smtp_ca_cert_file": None}, "certificate verify failed"),
        ({"smtp_password": "another password"}, "535"),
        ({"smtp_username": None, "smtp_password": None}, "530"),
    ],
    ids=["unknown authority", "wrong password", "no sign-in"],
)
async def test_what_an_administrator_can_mend_is_tried_again(
    mailbox: Callable[..., Mailbox], tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with mailbox().served() as box:
        given = {name: value for name, value in box.settings(**changes).items() if value is not None}
        async with open_desk(tmp_path, "notices", notices=given) as desk:
            users = tmp_path / "users.toml"
            users.write_text(users.read_text().replace('username = "ann"', 'username = "ann"\nemail = "ann@example.org"'))
            await desk.login("ann", PASSWORD)

            ((outcome, detail),) = await told(desk)
            assert outcome == "failure"
            assert said in detail
            assert len(await waiting(desk)) == 1
            assert (await checked(desk)).ok is (said == "530")
    assert box.mails.empty()
    assert "another password" not in detail


async def test_a_certificate_of_another_host_is_refused(mailbox: Callable[..., Mailbox], tmp_path: Path) -> None:
    with mailbox(name="mail.example.org").served() as box:
        async with desk_of(box, tmp_path) as desk:
            await desk.login("ann", PASSWORD)

            ((outcome, detail),) = await told(desk)
            assert (outcome, "certificate" in detail) == ("failure", True)
    assert (box.mails.empty(), box.signed_in) == (True, [])


async def test_a_server_without_starttls_hears_no_password(mailbox: Callable[..., Mailbox], tmp_path: Path) -> None:
    with mailbox("off").served() as box:
        async with desk_of(box, tmp_path, smtp_tls="starttls", smtp_username="greatseal", smtp_password="a password") as desk:
            await desk.login("ann", PASSWORD)

            ((outcome, detail),) = await told(desk)
            assert (outcome, "STARTTLS" in detail) == ("failure", True)
    assert box.mails.empty()


async def test_on_this_machine_a_mail_server_needs_no_tls(mailbox: Callable[..., Mailbox], tmp_path: Path) -> None:
    with mailbox("off").served() as box:
        async with desk_of(box, tmp_path) as desk:
            await desk.login("ann", PASSWORD)
            await asyncio.to_thread(box.read)
            assert (await checked(desk)).ok
            assert "mail server" not in (await desk.get("/readyz")).json["checks"]


@pytest.mark.parametrize("greeting", [b"", b"220 hello\r\n", b"220-" + b"x" * 70_000], ids=["silent", "then silent", "endless line"])
async def test_a_server_that_hangs_costs_its_time_and_no_more(mailbox: Callable[..., Mailbox], tmp_path: Path, greeting: bytes) -> None:
    box, over = mailbox("off"), asyncio.Event()

    async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await over.wait()
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", box.port):
        async with desk_of(box, tmp_path, smtp_timeout_secs=0.5) as desk:
            answer = await desk.login("ann", PASSWORD)
            assert answer.status == 200, "nobody waits for a mail server"

            ((outcome, _),) = await told(desk)
            assert outcome == "failure"
            assert len(await waiting(desk)) == 1
        over.set()


async def test_a_server_that_hangs_up_within_a_mail_is_tried_again(mailbox: Callable[..., Mailbox], tmp_path: Path) -> None:
    box = mailbox("off")

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        while (line := await reader.readline()) and not line.startswith(b"DATA"):
            writer.write(b"250 yes\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", box.port), desk_of(box, tmp_path) as desk:
        await desk.login("ann", PASSWORD)

        ((outcome, detail),) = await told(desk)
        assert (outcome, "closed the connection" in detail) == ("failure", True)
        assert len(await waiting(desk)) == 1


@pytest.mark.parametrize("email", ["a@b\\r\\nBcc: eve", "a b@example.org", "<ann@example.org>", "ann,eve@example.org"])
async def test_an_address_that_is_none_gets_no_mail(mailbox: Callable[..., Mailbox], tmp_path: Path, email: str) -> None:
    with mailbox().served() as box:
        async with desk_of(box, tmp_path, email=email) as desk:
            await desk.login("ann", PASSWORD)

            ((outcome, detail),) = await told(desk)
            assert (outcome, "mail address" in detail) == ("failure", True)
            assert await waiting(desk) == []
    assert (box.mails.empty(), box.envelopes) == (True, [])


async def test_a_port_that_nobody_listens_on_is_told_by_doctor(mailbox: Callable[..., Mailbox], tmp_path: Path) -> None:
    box = mailbox()
    async with desk_of(box, tmp_path, smtp_server=f"localhost:{free_port()}") as desk:
        said = await checked(desk)
    assert (said.ok, "Connection refused" in said.cause) == (False, True)
