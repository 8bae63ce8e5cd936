"""A person confirms their mail address: who follows the link in a mail to it has it.

The link is what it is good for, sealed, and leaves no row; it may be followed twice, and counts once. What was confirmed counts for that
very address.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
from sqlalchemy import select

from greatseal.api.audit import AuditEvent
from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.http import Call
from greatseal.api.identity import SessionView
from greatseal.api.messages import Message, plural
from greatseal.api.notices import Met, Notice, Notices, seen
from greatseal.api.problems import BadRequest, RateLimited
from greatseal.api.services import NOTICES
from greatseal.api.store import Row, Tx
from greatseal.api.tokens import ClaimsProvider
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp import tables as t
from greatseal_idp.directories import DirectoriesImpl
from greatseal_idp.pages.return_to import MAIL
from greatseal_idp.sessions.limits import LoginLimits

KIND = "ma"
"""Of the envelopes."""
SECONDS = 86_400
MOST, HOUR = 3, 3600.0
"""Mails to one person within an hour."""
_BY_ID = select(t.mail).where(t.mail.c.id == param("subject"))


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Whose it is said to be."""

    subject: str
    email: str


class Mailboxes:
    """Sends the links, and notes what they proved."""

    def __init__(self, host: Host, directories: DirectoriesImpl, limits: LoginLimits) -> None:
        self._host = host
        self._directories = directories
        self._limits = limits

    @property
    def offered(self) -> bool:
        """Whether there is mail that reaches a person alone."""
        notices = self._notices
        return notices is not None and notices.reaches

    async def person(self, session: SessionView) -> User | None:
        """The person of a session whose address can be confirmed; None for who has none. Raises DirectoryUnavailable."""
        user = await self._directories.user(session.subject) if self.offered else None
        return user if user is not None and user.email is not None else None

    async def confirmed_at(self, user: User) -> int | None:
        """When the address that the person has now was confirmed here."""
        row = await self._host.db.read(_find, user.subject)
        return row.confirmed_at if row is not None and row.email == user.email else None

    async def ask(self, call: Call, user: User) -> None:
        """Send a link to the address of the person. Raises RateLimited."""
        await self._limits.address(call.remote)
        if user.email is None:
            raise BadRequest(Message("your account has no mail address; ask your administrator"))
        wait = self._host.limits.hit("mail-confirm", user.subject, MOST, HOUR)
        if wait is not None:
            words = plural("too many mails; try again in one second", "too many mails; try again in %(count)d seconds", wait)
            raise RateLimited(words, headers={"Retry-After": str(wait)})
        link = await self._host.envelopes.seal(KIND, Address(subject=user.subject, email=user.email), seconds=SECONDS)
        url = f"{self._host.issuer}{MAIL}?{urlencode({'link': link})}"
        await self._host.db.write(self._tell, user, url, seen(call))

    async def read(self, link: str) -> Address | None:
        """What a link is good for: the address of a person who has it still."""
        found = await self._host.envelopes.open(KIND, link, Address)
        user = None if found is None else await self._directories.user(found.subject)
        return found if found is not None and user is not None and user.email == found.email else None

    async def confirm(self, link: str) -> bool:
        """Note that the person has the address. False for a link that is not good, or not any more."""
        found = await self.read(link)
        if found is not None:
            await self._host.db.write(_note, found)
        return found is not None

    @property
    def _notices(self) -> Notices | None:
        return self._host.optional_service(NOTICES)

    def _tell(self, tx: Tx, user: User, url: str, met: Met) -> None:
        if (notices := self._notices) is not None:
            notices.tell(
                tx,
                Notice(
                    kind="mail_confirm",
                    subject=user.subject,
                    title=Message("Confirm your mail address"),
                    text=Message(
                        "Follow the link below to confirm that this address is yours. If you did not ask for it, there is nothing to do."
                    ),
                    facts=met.facts,
                    languages=met.languages,
                    link=Secret(url),
                    seconds=SECONDS,
                ),
            )


class ConfirmedMail(ClaimsProvider):
    """The claim ``email_verified`` of who confirmed the address here (OpenID Connect Core s5.1)."""

    name = "idp"
    claims = frozenset({"email_verified"})

    def __init__(self, mailboxes: Mailboxes, directories: DirectoriesImpl) -> None:
        self._mailboxes = mailboxes
        self._directories = directories

    async def of(self, subject: str, wanted: frozenset[str]) -> Mapping[str, Any]:
        user = await self._directories.user(subject) if wanted & self.claims and self._mailboxes.offered else None
        return {"email_verified": True} if user is not None and await self._mailboxes.confirmed_at(user) is not None else {}


def _find(tx: Tx, subject: str) -> Row | None:
    return tx.one(_BY_ID, subject=subject)


def _note(tx: Tx, found: Address) -> None:
    row = _find(tx, found.subject)
    if row is not None and row.email == found.email:
        return
    tx.put(t.MAIL, found.subject, email=found.email, confirmed_at=tx.now)
    tx.audit(AuditEvent(event_type="mail_confirmed", service="idp", sub=found.subject))
