"""What every carrier of notices must do, as a test class to inherit; and a NOTICES that keeps what it is told."""

from abc import ABC, abstractmethod
from typing import ClassVar

import pytest

from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.notices import Letter, Notice, NoticeCarrier, Undeliverable
from greatseal.api.problems import Problem
from greatseal.api.store import Tx

__all__ = ["FakeNotices", "NoticeCarrierContract", "letter_to"]

MOMENT = 1_800_000_000_000_000
SECRET = "https://issuer.example/a-link-of-its-reader"  # noqa: S105  # a link


class FakeNotices:
    """NOTICES (:class:`greatseal.api.notices.Notices`): ``told`` are the notices of transactions, whether they committed or not."""

    def __init__(self, *, reaches: bool = True) -> None:
        self.reaches = reaches
        self.told: list[Notice] = []

    def tell(self, tx: Tx, notice: Notice) -> None:  # noqa: ARG002  # nothing is stored
        """As the contract says, to the list."""
        self.told.append(notice)


def letter_to(person: User, *, link: str | None = None, **facts: str) -> Letter:
    """A letter on its way."""
    notice = Notice(
        kind="passkey_added",
        subject=person.subject,
        title="A passkey was added to your account",
        text="If this was you, there is nothing to do.",
        facts=facts,
        link=None if link is None else Secret(link),
    )
    return Letter(id="018f0000-0000-8000-8000-000000000001", person=person, notice=notice, told_at=MOMENT)


class NoticeCarrierContract(ABC):
    """Inherit, say how to make the carrier and what came out at its other end, and the rest is tested.

    .. code-block:: python

        class TestRooms(NoticeCarrierContract):
            person = User(username="ann", realm="EXAMPLE", source="file", email="ann@example.org")

            async def carrier(self):
                return Rooms(self.server.url)

            async def carried(self):
                return self.server.messages
    """

    person: ClassVar[User]
    """Somebody whom it reaches."""

    @abstractmethod
    async def carrier(self) -> NoticeCarrier:
        """The same one until the test ends; its other side is there."""

    @abstractmethod
    async def carried(self) -> list[str]:
        """Every message that arrived, as text."""

    @abstractmethod
    async def break_down(self) -> None:
        """The other side takes nothing from now on, and may take it later."""

    async def test_declares_itself(self) -> None:
        carrier = await self.carrier()

        assert carrier.name
        assert isinstance(carrier.private, bool)

    async def test_a_letter_arrives_with_its_facts(self) -> None:
        carrier = await self.carrier()

        assert await carrier.carry(letter_to(self.person, Passkey="My phone", Address="192.0.2.1"))

        (message,) = await self.carried()
        for words in ("A passkey was added to your account", "My phone", "192.0.2.1", self.person.subject):
            assert words in message

    async def test_no_fact_adds_to_what_is_around_it(self) -> None:
        carrier = await self.carrier()

        assert await carrier.carry(letter_to(self.person, Passkey="x\r\nBcc: eve@example.com\r\n\r\n<b>\0\u202e"))

        (message,) = await self.carried()
        assert not [line for line in message.splitlines() if line.startswith("Bcc:")]

    async def test_a_link_arrives_where_nobody_but_the_person_reads(self) -> None:
        carrier = await self.carrier()
        if not carrier.private:
            return

        assert await carrier.carry(letter_to(self.person, link=SECRET))

        (message,) = await self.carried()
        assert SECRET in message

    async def test_what_is_not_taken_now_may_be_tried_again(self) -> None:
        carrier = await self.carrier()
        await self.break_down()

        with pytest.raises(Problem) as refused:
            await carrier.carry(letter_to(self.person))

        assert not isinstance(refused.value, Undeliverable)
        assert await self.carried() == []
