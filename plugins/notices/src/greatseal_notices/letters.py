"""A notice as a mail: plain text, and headers that no value can add to (RFC 5322, RFC 3834)."""

from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

import msgspec

from greatseal.api.languages import Language, Languages
from greatseal.api.messages import Message, marked
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
    languages: Languages

    def mail(self, letter: Letter, now: int) -> EmailMessage:
        """The mail; its Message-ID is the same in every attempt. Raises Undeliverable for an address that is none."""
        recipient = address_of(letter.person.email or "")
        mail = EmailMessage(policy=SMTP)
        mail["From"] = Address(line_of(self.display_name), addr_spec=self.sender)
        mail["To"] = Address(addr_spec=recipient)
        language = self.languages.best((*letter.notice.languages, *letter.person.languages))
        mail["Subject"] = line_of(f"{self.display_name}: {language.text(letter.notice.title)}")
        mail["Date"] = format_datetime(datetime.fromtimestamp(now // SECOND, UTC))
        mail["Message-ID"] = f"<{letter.id}@{self.sender.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(self.text(letter, language), cte="quoted-printable")
        mail["Content-Language"] = language.tag  # what is set before is cleared with the content
        return mail

    def text(self, letter: Letter, language: Language) -> str:
        """What the person reads."""
        notice, person = letter.notice, letter.person
        facts = {marked("Account"): notice.subject, marked("When"): day_and_time(letter.told_at), **notice.facts}
        told = "".join(f"  {line_of(language.known(name))}: {line_of(language.text(value))}\n" for name, value in facts.items())
        link = "" if notice.link is None else f"{notice.link.value}\n\n"
        hello = Message("Hello %(name)s,", {"name": line_of(person.display_name or person.username)})
        account = Message("Your account: %(link)s", {"link": self.account})
        written = Message("%(service)s. A program wrote this mail; nobody reads answers to it.", {"service": line_of(self.display_name)})
        return (
            f"{language.text(hello)}\n\n{line_of(language.text(notice.title))}.\n\n{told}\n{line_of(language.text(notice.text))}\n\n"
            f"{link}{language.text(account)}\n\n-- \n{language.text(written)}\n"
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
