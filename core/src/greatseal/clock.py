"""The only source of time."""

import time


class SystemClock:
    """The machine's clocks."""

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()


class FakeClock:
    """A clock that moves only when told, for tests. ``start`` is in microseconds since 1970 UTC."""

    def __init__(self, start: int = 1_767_225_600_000_000) -> None:
        self._now = start
        self._monotonic = 1000.0

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass on both clocks; a negative number sets only the wall clock back, as an operator might."""
        self._now += round(seconds * 1_000_000)
        self._monotonic += max(seconds, 0.0)
