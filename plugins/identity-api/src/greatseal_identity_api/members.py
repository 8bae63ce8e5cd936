"""The members of a group as the bytes of an answer, which hosts of a whole network may ask for at one moment."""

import asyncio
from collections import OrderedDict

import msgspec

from greatseal.api.directory import Group
from greatseal.api.problems import Conflict
from greatseal_identity_api.objects import member_of

MOST = 200_000
"""Members of a group that is told: at most 100 bytes each for common names, 20 MB."""
PIECE = 2_000
"""Members that are written at a time, in about 3 ms; meanwhile nobody else is served."""
KEPT = 4
"""Answers of more than one piece that are kept: those who ask at once share their memory."""


class TooManyMembers(Conflict):
    """The group is larger than what is told: half a group would be a wrong answer."""

    error = "too_many_members"


class Members:
    """Writes the members of groups."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Group, bytes]] = OrderedDict()

    async def of(self, group: Group) -> bytes:
        """A JSON array. Raises TooManyMembers."""
        if len(group.members) > MOST:
            raise TooManyMembers(f"the group has {len(group.members)} members; {MOST} are told at most")
        if not group.whole:
            raise TooManyMembers("the group has more members than its directory lists")
        if len(group.members) <= PIECE:
            return _array(_written(group, 0))
        known, body = self._kept.get(group.name, (None, b""))
        if known != group:
            pieces = []
            for begin in range(0, len(group.members), PIECE):
                pieces.append(_written(group, begin))
                await asyncio.sleep(0)
            body = _array(b",".join(pieces))
            self._kept[group.name] = group, body
        self._kept.move_to_end(group.name)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return body


def _written(group: Group, begin: int) -> bytes:
    """A piece of the array, without its brackets."""
    return msgspec.json.encode([member_of(username, group.realm) for username in group.members[begin : begin + PIECE]])[1:-1]


def _array(members: bytes) -> bytes:
    return b"[" + members + b"]"
