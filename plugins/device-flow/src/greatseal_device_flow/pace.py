"""How fast devices poll (RFC 8628 s3.5): in memory, so that waiting costs no write. A restart forgives everybody once."""

from collections import OrderedDict
from math import inf

from greatseal.host import Clock

SLOWER = 5
"""Seconds by which the interval of a device grows that polls too fast."""
MOST = 50_000
"""Devices that are remembered; the one that polled longest ago is forgotten first."""


class Pace:
    """The last poll of each device, and its interval in seconds."""

    def __init__(self, clock: Clock, interval: int) -> None:
        self._clock = clock
        self._interval = interval
        self._polls: OrderedDict[bytes, tuple[float, int]] = OrderedDict()

    def poll(self, digest: bytes) -> int | None:
        """Note a poll. The interval from now on when it came too soon after the one before it, else None: the first never does."""
        now = self._clock.monotonic()
        last, interval = self._polls.pop(digest, (-inf, self._interval))
        too_fast = now - last < interval
        interval += SLOWER if too_fast else 0
        self._polls[digest] = now, interval
        if len(self._polls) > MOST:
            self._polls.popitem(last=False)
        return interval if too_fast else None

    def forget(self, digest: bytes) -> None:
        """It polls no more."""
        self._polls.pop(digest, None)
