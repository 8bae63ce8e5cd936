"""Settings, letters and the webhook."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator
from email import message_from_bytes, policy
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.notices import NoticeCarrier, Undeliverable
from greatseal.api.problems import Problem
from greatseal.testing.catalogues import languages
from greatseal.testing.notices import SECRET, NoticeCarrierContract, letter_to
from greatseal.testing.schema import schema_matches
from greatseal_notices.letters import Writer, address_of
from greatseal_notices.settings import NoticesSettings
from greatseal_notices.tables import SCHEMA
from greatseal_notices.webhook import SIGNATURE, WebhookCarrier

ANN = User(username="ann", realm="EXAMPLE.ORG", source="file", email="ann@example.org", display_name="Ann Example")
LANGUAGES = languages("greatseal", "greatseal_notices")
WRITER = Writer(
    display_name="Example Organisation", sender="accounts@example.org", account="https://id.example.org/account", languages=LANGUAGES
)
KEY = Secret("a secret of the webhook")
NOW = 1_800_000_000_000_000
MAIL = {"smtp_server": "mail.example.org", "from_address": "accounts@example.org"}
HOOK = {"webhook_url": "https://hooks.example.org/notices", "webhook_hmac_secret": KEY}
HEADERS = [
    "From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Language", "Content-Type", "Content-Transfer-Encoding",
    "MIME-Version",
]  # fmt: skip


STATUSES = [(400, True), (422, True), (401, False), (404, False), (429, False), (302, False), (500, False)]


def test_the_migrations_make_the_tables(database_url: str) -> None:
    assert schema_matches(SCHEMA, database_url) == []


@pytest.mark.parametrize(
    ("given", "server"),
    [
        (MAIL, ("mail.example.org", 587)),
        ({**MAIL, "smtp_tls": "implicit"}, ("mail.example.org", 465)),
        ({**MAIL, "smtp_server": "mail.example.org:2525"}, ("mail.example.org", 2525)),
        ({**MAIL, "smtp_server": "[2001:db8::1]:25"}, ("2001:db8::1", 25)),
        ({**MAIL, "smtp_server": "localhost", "smtp_tls": "off"}, ("localhost", 25)),
        ({**MAIL, "smtp_server": "mail.localhost", "smtp_tls": "off"}, ("mail.localhost", 25)),
        ({**MAIL, "smtp_server": "127.0.0.1", "smtp_tls": "off"}, ("127.0.0.1", 25)),
    ],
)
def test_the_server_and_its_port(given: Any, server: tuple[str, int]) -> None:
    assert NoticesSettings(**given).server == server


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"smtp_server": "mail.example.org"}, "from_address is missing"),
        ({**MAIL, "from_address": "nobody"}, "is no mail address"),
        ({**MAIL, "smtp_server": "mail example"}, "expected a host"),
        ({**MAIL, "smtp_server": "mail.example.org:99999"}, "expected a host"),
        ({**MAIL, "smtp_tls": "off"}, "for a mail server of this machine"),
        ({**MAIL, "smtp_username": "a"}, "go together"),
        ({**MAIL, "smtp_password": KEY}, "go together"),
        ({**HOOK, "webhook_url": "http://hooks.example.org/"}, "expected https"),
        ({**HOOK, "webhook_url": "ftp://localhost/"}, "expected https"),
        ({**HOOK, "webhook_url": "https://user@hooks.example.org/"}, "expected https"),
        ({**HOOK, "webhook_url": "https://[::1"}, "expected https"),
        ({**HOOK, "webhook_url": "https:///x"}, "expected https"),
        ({**HOOK, "webhook_hmac_secret": Secret("short")}, "16 characters"),
        ({"webhook_url": HOOK["webhook_url"]}, "16 characters"),
    ],
)
def test_settings_that_cannot_work_are_refused(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        NoticesSettings(**given)


def test_nothing_need_be_configured() -> None:
    assert NoticesSettings().smtp_server is None
    assert NoticesSettings(**HOOK).smtp_server is None
    assert NoticesSettings(webhook_url="http://localhost:8000/", webhook_hmac_secret=KEY).webhook_url == "http://localhost:8000/"


@pytest.mark.parametrize(
    ("email", "address"),
    [
        ("ann@example.org", "ann@example.org"),
        (" Ann.Example+tag@Example.ORG ", "Ann.Example+tag@Example.ORG"),
        ("ann@b\u00fccher.example", "ann@xn--bcher-kva.example"),
        ("o'hara@example.org", "o'hara@example.org"),
    ],
)
def test_an_address_goes_out_in_ascii(email: str, address: str) -> None:
    assert address_of(email) == address


@pytest.mark.parametrize(
    "email",
    ["", "ann", "@example.org", "ann@", "a b@example.org", "a@b\r\nBcc: eve", "<ann@example.org>", "a..b@example.org", ".a@example.org",
     "a.@example.org", '"a b"@example.org', "ann@example.org, eve@example.org", "\u00e4@example.org", "a" * 65 + "@example.org",
     "ann@exa mple.org", "ann@" + "\u00fc" * 80 + ".org"],
)  # fmt: skip
def test_what_is_no_address_is_undeliverable(email: str) -> None:
    with pytest.raises(Undeliverable, match="none that mail can be sent to"):
        address_of(email)


@given(st.text(), st.text(), st.text(), st.text())
def test_no_value_adds_a_header_or_a_line(name: str, title: str, fact: str, display: str) -> None:
    letter = letter_to(msgspec.structs.replace(ANN, display_name=name), Fact=fact)
    letter = msgspec.structs.replace(letter, notice=msgspec.structs.replace(letter.notice, title=title))

    encoded = bytes(msgspec.structs.replace(WRITER, display_name=display).mail(letter, NOW))

    mail = message_from_bytes(encoded, policy=policy.default)
    assert sorted(mail.keys()) == sorted(HEADERS)
    assert [one.addr_spec for one in mail["To"].addresses] == ["ann@example.org"]
    assert [one.addr_spec for one in mail["From"].addresses] == ["accounts@example.org"]
    text = mail.get_content()
    assert len([line for line in text.splitlines() if line.startswith("  ")]) == 3
    assert max(map(len, encoded.split(b"\r\n"))) <= 998


def test_every_attempt_has_the_same_id_and_the_date_of_its_own() -> None:
    first, second = (WRITER.mail(letter_to(ANN), now) for now in (NOW, NOW + 60_000_000))

    assert first["Message-ID"] == second["Message-ID"] == "<018f0000-0000-8000-8000-000000000001@example.org>"
    assert first["Date"] != second["Date"]
    assert first["Auto-Submitted"] == "auto-generated"


@pytest.mark.parametrize(
    ("browser", "directory", "language"), [((), ("de",), "de"), (("fr",), ("de",), "fr"), ((), (), "en"), ((), ("xx",), "en")]
)
def test_without_a_browser_a_mail_is_in_the_language_of_the_directory(
    browser: tuple[str, ...], directory: tuple[str, ...], language: str
) -> None:
    letter = letter_to(msgspec.structs.replace(ANN, languages=directory))

    mail = WRITER.mail(msgspec.structs.replace(letter, notice=msgspec.structs.replace(letter.notice, languages=browser)), NOW)

    assert mail["Content-Language"] == language


def test_what_a_person_reads() -> None:
    text = WRITER.text(letter_to(ANN, link=SECRET, Passkey="My phone"), LANGUAGES.best(["en"]))

    assert text == (
        "Hello Ann Example,\n\n"
        "A passkey was added to your account.\n\n"
        "  Account: ann@EXAMPLE.ORG\n"
        "  When: 15 January 2027, 08:00 UTC\n"
        "  Passkey: My phone\n\n"
        "If this was you, there is nothing to do.\n\n"
        f"{SECRET}\n\n"
        "Your account: https://id.example.org/account\n\n"
        "-- \n"
        "Example Organisation. A program wrote this mail; nobody reads answers to it.\n"
    )


class TestWebhook(NoticeCarrierContract):
    """By a real server."""

    person = ANN

    @pytest.fixture(autouse=True)
    async def _server(self, start_service: Any, unused_tcp_port_factory: Any = None) -> AsyncIterator[None]:
        self.bodies: list[tuple[str, bytes]] = []
        self.status = 200

        async def take(request: web.Request) -> web.Response:
            if self.status < 300:
                self.bodies.append((request.headers[SIGNATURE], await request.read()))
            return web.Response(status=self.status)

        application = web.Application()
        application.router.add_post("/notices", take)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        settings = {"webhook_url": f"http://localhost:{port}/notices", "webhook_hmac_secret": KEY.value}
        service = await start_service("notices", "idp", notices=settings)
        self.made = service.host("notices").components(NoticeCarrier)["webhook"]
        yield
        await runner.cleanup()

    async def carrier(self) -> NoticeCarrier:
        return self.made

    async def carried(self) -> list[str]:
        return [body.decode() for _, body in self.bodies]

    async def break_down(self) -> None:
        self.status = 503

    async def test_the_body_is_signed_and_says_all_but_secrets(self) -> None:
        assert isinstance(self.made, WebhookCarrier)
        assert not self.made.private
        await self.made.carry(letter_to(ANN, Passkey="My phone"))

        ((signature, body),) = self.bodies
        assert signature == f"sha256={hmac.digest(KEY.value.encode(), body, sha256).hex()}"
        assert json.loads(body) == {
            "id": "018f0000-0000-8000-8000-000000000001",
            "kind": "passkey_added",
            "at": NOW // 1_000_000,
            "sub": "ann@EXAMPLE.ORG",
            "username": "ann",
            "email": "ann@example.org",
            "title": "A passkey was added to your account",
            "text": "If this was you, there is nothing to do.",
            "facts": {"Passkey": "My phone"},
        }

    @pytest.mark.parametrize(("status", "final"), STATUSES)
    async def test_a_status_says_whether_it_may_come_again(self, status: int, final: bool) -> None:
        self.status = status

        with pytest.raises(Problem) as refused:
            await self.made.carry(letter_to(ANN))

        assert isinstance(refused.value, Undeliverable) is final
        assert str(status) in (refused.value.cause or refused.value.detail)
        await asyncio.sleep(0)
