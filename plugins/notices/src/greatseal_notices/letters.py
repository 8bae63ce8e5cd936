"""A notice as a mail: plain text, and headers that no value can add to (RFC 5322, RFC 3834)."""

from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

import msgspec

from greatseal.api.moments import SECOND, day_and_time
from greatseal.api.notices import Letter, Undeliverable
from greatseal_notices.settings import ADDRESS

LONGEST = 500
"""Characters of a fact."""


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes: the name of the service, its address, and the page where people look after their account."""

    display_name: str
    sender: str
    account: str

    def mail(self, letter: Letter, now: int) -> EmailMessage:
        """The mail; its Message-ID is the same in every attempt. Raises Undeliverable for an address that is none."""
        recipient = address_of(letter.person.email or "")
        mail = EmailMessage(policy=SMTP)
        mail["From"] = Address(line_of(self.display_name), addr_spec=self.sender)
        mail["To"] = Address(addr_spec=recipient)
        mail["Subject"] = line_of(f"{self.display_name}: {letter.notice.title}")
        mail["Date"] = format_datetime(datetime.fromtimestamp(now // SECOND, UTC))
        mail["Message-ID"] = f"<{letter.id}@{self.sender.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(self.text(letter), cte="quoted-printable")
        return mail

    def text(self, letter: Letter) -> str:
        """What the person reads."""
        notice, person = letter.notice, letter.person
        facts = {"Account": notice.subject, "When": day_and_time(letter.told_at), **notice.facts}
        link = "" if notice.link is None else f"{notice.link.value}\n\n"
        return (
            f"Hello {line_of(person.display_name or person.username)},\n\n"
            f"{line_of(notice.title)}.\n\n"
            + "".join(f"  {line_of(name)}: {line_of(value)}\n" for name, value in facts.items())
            + f"\n{line_of(notice.text)}\n\n{link}"
            f"Your account: {self.account}\n\n"
            f"-- \n{line_of(self.display_name)}. A program wrote this mail; nobody reads answers to it.\n"
        )


def address_of(email: str) -> str:
    """The address as it goes over the wire (RFC 5321 s4.1.2): a domain in other scripts in its ASCII form.

    Raises Undeliverable for one with quotes, comments or characters that a command or header could be ended by.
    """
    local, _, domain = email.strip().rpartition("@")
    try:
        address = f"{local}@{domain.encode('idna').decode()}"
    except UnicodeError:
        address = ""
    if not ADDRESS.fullmatch(address):
        raise Undeliverable("the mail address of the person is none that mail can be sent to")
    return address


def line_of(text: str) -> str:
    """The text in one line of what can be shown."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[:LONGEST]).split())
