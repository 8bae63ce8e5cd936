"""Notices to people about their own account: a new passkey, a changed password, a sign-in with a new device.

Whoever changes something tells of it in the transaction of the change (service NOTICES), and knows neither addresses nor servers. Carriers
take notices to people, such as by mail. Where no plugin provides the service, nothing is told, and nothing is spent on it.
"""

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Protocol

import msgspec

from greatseal.api.browsers import browser_of
from greatseal.api.components import Component
from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.http import Call
from greatseal.api.languages import ranges_of
from greatseal.api.messages import Message, Text, marked
from greatseal.api.problems import Problem
from greatseal.api.store import Tx

__all__ = ["NOT_YOU", "Letter", "Met", "Notice", "NoticeCarrier", "Notices", "Undeliverable", "seen", "warning"]

NOT_YOU = Message(
    "If this was you, there is nothing to do. If it was not, sign in, end the sessions that are not yours, change your password, "
    "and tell your administrator."
)
"""The text of a notice that warns."""
_NOTHING: Mapping[str, Text] = MappingProxyType({})


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What happened, to a person who is to know of it. It holds no secret, but for a ``link`` that its reader follows.

    ``kind`` is for programs (``passkey_added``), ``title`` says it in one line, ``text`` in sentences what it means and what to do;
    ``facts`` are shown by what they are (``Address``, which is marked). None of them has more than 500 characters, and each is one line.
    ``languages`` are those that the person wishes, best first.
    """

    kind: str
    subject: str
    title: Text
    text: Text
    facts: Mapping[str, Text] = _NOTHING
    languages: tuple[str, ...] = ()
    link: Secret | None = None
    """A link that nobody but the person may have: the notice is given to carriers that are private, and to no other."""
    seconds: int = 86_400
    """How long it is worth telling."""


class Notices(Protocol):
    """Tells people (service NOTICES)."""

    @property
    def reaches(self) -> bool:
        """Whether there is a carrier that reaches the person alone: else nobody gets a notice with a link."""

    def tell(self, tx: Tx, notice: Notice) -> None:
        """Have the person told, as soon as the transaction has committed. They may hear of it twice after a crash.

        The address is that of the person's directory when the notice goes out; who has none there is not told.
        """


class Met(msgspec.Struct, frozen=True, kw_only=True):
    """What a call tells of who sent it: the facts of a notice, and the languages of its browser."""

    facts: Mapping[str, Text] = _NOTHING
    languages: tuple[str, ...] = ()


def seen(call: Call) -> Met:
    """Where a call comes from, what the browser says that it is, and which languages it wishes."""
    facts = {marked("Address"): call.remote, marked("Browser"): browser_of(call.headers.get("User-Agent"))}
    return Met(facts=facts, languages=ranges_of(call.headers.get("Accept-Language", "")))


def warning(kind: str, subject: str, title: Message, met: Met) -> Notice:
    """A notice of what the person should have done themselves, and what to do if it was somebody else."""
    return Notice(kind=kind, subject=subject, title=title, text=NOT_YOU, facts=met.facts, languages=met.languages)


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A notice on its way. ``id`` is the same in every attempt, so that who gets it twice can see that; ``told_at`` is microseconds."""

    id: str
    person: User
    notice: Notice
    told_at: int


class Undeliverable(Problem):
    """It cannot be carried, now or later: the address is none, or the other side refuses it for good."""


class NoticeCarrier(Component):
    """Takes notices to people. Every notice is given to each carrier, which is one that the person can be reached by, or none."""

    private: ClassVar[bool] = False
    """Whether what it carries reaches the person and nobody else. Only then it is given notices with a link."""

    @abstractmethod
    async def carry(self, letter: Letter) -> bool:
        """Carry it, once more after a failure or a crash: True when the other side has taken it, False when the person has no such address.

        Raises :class:`Undeliverable` when it is not worth another attempt, and every other Problem when it is; the detail is for the
        audit log, without secrets.
        """
