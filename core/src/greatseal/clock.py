"""The only source of time.

A wall clock may be set, ahead or back, at any moment. The rules that hold whatever it does:

- In a transaction ``tx.now`` is the only "now" (:class:`greatseal.api.store.Tx`).
- That something was used or revoked is a fact in a row, never a comparison: nothing comes back when the clock does.
- An expiry is ``now < end``. A clock that is set back lengthens what was issued before by as much, and no more.
- What is allowed because it is recent, and what somebody holds for a while, is compared on both sides: ``0 <= now - then < length``.
- What is forgotten because it expired is measured with ``clock.passed()``, which a jump ahead does not reach.
- Waits, limits and ages of memory are measured with ``clock.monotonic()``.
"""

import time
from collections import deque
from typing import TYPE_CHECKING

from greatseal.api.moments import SECOND

if TYPE_CHECKING:
    from greatseal.host import Clock

WATCHED = 3600.0
"""Seconds before which the wall clock is believed to have passed."""


class _Shown:
    """What a wall clock showed in the last hour."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, monotonic: float, now: int) -> None:
        """Remember a look, and of those that are an hour old the last."""
        self._looks.append((monotonic, now))
        while len(self._looks) > 1 and self._looks[1][0] <= monotonic - WATCHED:
            self._looks.popleft()

    def earliest(self, monotonic: float) -> int:
        """The earliest moment shown in the last hour; 0 before an hour was watched."""
        if self._looks[0][0] > monotonic - WATCHED:
            return 0
        return min(now for _, now in self._looks)


async def look(clock: "Clock") -> None:
    """For a job: what ``passed`` knows comes from regular looks."""
    clock.passed()


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._shown = _Shown()

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def passed(self) -> int:
        """See :meth:`greatseal.host.Clock.passed`. Each call is a look at the wall clock."""
        monotonic = self.monotonic()
        self._shown.look(monotonic, self.now())
        return self._shown.earliest(monotonic)


class FakeClock:
    """A clock that moves only when told, for tests. ``start`` is in microseconds since 1970 UTC; it was watched for an hour before."""

    def __init__(self, start: int = 1_767_225_600_000_000) -> None:
        self._now = start
        self._monotonic = 1000.0
        self._shown = _Shown()
        self._shown.look(self._monotonic - WATCHED, self._now - round(WATCHED * SECOND))
        self._shown.look(self._monotonic, self._now)

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._monotonic

    def passed(self) -> int:
        """See :meth:`greatseal.host.Clock.passed`."""
        return self._shown.earliest(self._monotonic)

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass on both clocks."""
        unwatched = max(seconds - WATCHED, 0.0)
        for some in (unwatched, seconds - unwatched):
            self._monotonic += some
            self.step(some)

    def step(self, seconds: float) -> None:
        """Set the wall clock alone, ahead or back, as an operator might."""
        self._now += round(seconds * SECOND)
        self._shown.look(self._monotonic, self._now)
