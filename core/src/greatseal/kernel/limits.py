"""Node-wide rate limits over a rolling window."""

import math
from array import array
from bisect import bisect_right
from collections import OrderedDict

from greatseal.host import Clock

MAX_KEYS = 50_000
"""Keys that one bucket remembers; the one hit longest ago is forgotten first."""


class LimitsImpl:
    """Exact rolling windows in memory (:class:`greatseal.host.Limits`).

    Only what was let through is remembered, so that a key costs at most ``limit`` times 8 bytes and hammering does not prolong the wait.
    Buckets have their own bounds: many addresses in one do not wash out another.
    """

    def __init__(self, clock: Clock, *, max_keys: int = MAX_KEYS) -> None:
        self._clock = clock
        self._max_keys = max_keys
        self._buckets: dict[str, OrderedDict[str, array[float]]] = {}

    def hit(self, bucket: str, key: str, limit: int, window: float) -> int | None:
        """Count one; whole seconds to wait when ``limit`` were let through in the last ``window`` seconds, else None. 0 is off."""
        if limit <= 0:
            return None
        now = self._clock.monotonic()
        keys = self._buckets.setdefault(bucket, OrderedDict())
        times = keys.get(key)
        if times is None:
            times = keys[key] = array("d")
            if len(keys) > self._max_keys:
                keys.popitem(last=False)
        keys.move_to_end(key)
        del times[: bisect_right(times, now - window)]
        if len(times) >= limit:
            # With a limit that was lowered meanwhile more must leave than the oldest.
            return max(1, math.ceil(times[len(times) - limit] + window - now))
        times.append(now)
        return None

    def reset(self, bucket: str, key: str) -> None:
        """Forget what was counted for ``key``."""
        if keys := self._buckets.get(bucket):
            keys.pop(key, None)

    def undo(self, bucket: str, key: str) -> None:
        """Forget what was counted last for ``key``."""
        if (keys := self._buckets.get(bucket)) and (times := keys.get(key)):
            times.pop()
