"""What an outage of the database left open is taken up as soon as it answers again."""

import asyncio
from collections.abc import Awaitable, Callable

from greatseal.api.problems import Unavailable

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between tries. After that it is left to the sweeps."""


async def once_back(work: Callable[[], Awaitable[object]]) -> None:
    """Do it, again while the database is Unavailable."""
    for pause in PAUSES:
        try:
            await work()
        except Unavailable:
            await asyncio.sleep(pause)
        else:
            return
    await work()
