"""How long a failure takes: as long as others of late, so that nobody learns from it whether the name exists (security check S078)."""

import asyncio
from collections import deque

from greatseal.host import Clock

REMEMBERED = 64
SLOWEST = 2.0
"""Seconds. One slow answer of a network does not hold up everybody who mistypes after it for longer."""


class Pace:
    """A stack may know at once that there is no such name, and take a hash to find a password wrong."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._took: deque[float] = deque(maxlen=REMEMBERED)

    async def failed(self, began: float, delay: float) -> None:
        """Wait until a failure that began then (monotonic seconds) has taken as long as the slowest of late, and ``delay`` seconds more.

        The stack's own delay (pam_faildelay) is waited for here, where it holds up no helper.
        """
        took = self._clock.monotonic() - began
        self._took.append(min(took, SLOWEST))
        wait = max(0.0, max(self._took) - took) + delay
        if wait > 0:
            await asyncio.sleep(wait)
