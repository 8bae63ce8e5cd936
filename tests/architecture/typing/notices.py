"""Carriers of notices beside mail and webhook: a message in a room of the person, and one that everybody of a team reads."""

import asyncio

from greatseal.api.notices import Letter, NoticeCarrier, Undeliverable
from greatseal.api.problems import Unavailable


class Room(NoticeCarrier):
    """A chat in which the person is alone with the service. It takes links."""

    name = "room"
    private = True

    def __init__(self, server: "asyncio.Queue[tuple[str, str]]", rooms: dict[str, str]) -> None:
        self.server = server
        self.rooms = rooms

    async def carry(self, letter: Letter) -> bool:
        room = self.rooms.get(letter.person.username)
        if room is None:
            return False
        link = letter.notice.link.value if letter.notice.link is not None else ""
        await self.server.put((room, f"{letter.id} {letter.notice.title} {link}"))
        return True


class TeamChannel(NoticeCarrier):
    """What many read gets no links."""

    name = "team"

    async def carry(self, letter: Letter) -> bool:
        if not letter.notice.facts:
            raise Undeliverable("the channel takes no empty messages")
        raise Unavailable("the channel cannot be reached", cause="it has no server")
