"""A feature with a carrier of notices that keeps what it is given: ``install(folder, "greatseal-carrier", CARRIER)``."""

import asyncio
from collections.abc import Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.components import Component
from greatseal.api.notices import Letter, NoticeCarrier, Undeliverable
from greatseal.api.problems import Unavailable

CARRIER = "from rig.carrier import Plugin\n"


class Kept(NoticeCarrier):
    """``fails`` are the failures of the next attempts, in order; ``came`` is set whenever a letter comes."""

    name = "kept"
    private = True

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.came = asyncio.Event()
        self.fails: list[Unavailable | Undeliverable] = []

    async def carry(self, letter: Letter) -> bool:
        if self.fails:
            raise self.fails.pop(0)
        self.letters.append(letter)
        self.came.set()
        return True


class Plugin:
    """Its carrier."""

    def __init__(self) -> None:
        self.carrier = Kept()

    @hookimpl
    def components(self) -> Sequence[Component]:
        return [self.carrier]


def carrier_of(desk: Any) -> Kept:
    """That of a running service."""
    found: Kept = desk.service.kernel.hooks.instances["carrier"].carrier
    return found
