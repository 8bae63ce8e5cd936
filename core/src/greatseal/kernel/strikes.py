"""Single use of keys that come from outside: jti, nonces of others, one-time codes."""

import heapq

import msgspec
from sqlalchemy import delete, select, tuple_, update

from greatseal.api.moments import SECOND
from greatseal.api.store import Database, Tx, operation, scan
from greatseal.db.core_tables import strike
from greatseal.db.tables import insert_new, param
from greatseal.host import Clock, Handles

TAKE = insert_new(strike)
TAKE_EXPIRED = (
    update(strike)
    .where(strike.c.kind == param("kind"), strike.c.key == param("key"), strike.c.until < param("now"), strike.c.until < param("until"))
    .values(until=param("until"))
)
FORGET = delete(strike).where(
    tuple_(strike.c.kind, strike.c.key).in_(
        select(strike.c.kind, strike.c.key).where(strike.c.until < param("passed")).order_by(strike.c.until).limit(param("most"))
    )
)
PORTION = 1000
"""Rows that one transaction of the cleanup deletes: others wait for it."""


class Key(msgspec.Struct, frozen=True):
    """What is to be used up, until when it counts."""

    kind: str
    key: str
    until: int


class Taken(msgspec.Struct, frozen=True):
    """Whether it was the first use."""

    first: bool


class StrikesImpl:
    """A :class:`greatseal.host.Strikes`. ``size`` bounds what is remembered in memory, about 250 bytes each."""

    def __init__(self, clock: Clock, db: Database, handles: Handles, size: int = 100_000) -> None:
        self._clock = clock
        self._db = db
        self._handles = handles
        self.taking = operation("core.strike", self._owner)(_take)
        self._size = size
        self._seen: dict[tuple[str, str], int] = {}
        self._by_age: list[tuple[float, tuple[str, str]]] = []
        """When each may be looked at whether it has expired, on the clock that never goes back."""

    async def take(self, kind: str, key: str, until: int) -> bool:
        """See :meth:`greatseal.host.Strikes.take`."""
        return (await self._db.write(self.taking, Key(kind, key, until))).first

    def take_within(self, tx: Tx, kind: str, key: str, until: int) -> bool:
        """See :meth:`greatseal.host.Strikes.take_within`."""
        return _take(tx, Key(kind, key, until)).first

    def seen(self, kind: str, key: str, until: int) -> bool:
        """See :meth:`greatseal.host.Strikes.seen`."""
        entry, now, monotonic = (kind, key), self._clock.now(), self._clock.monotonic()
        self._forget(now, monotonic)
        if entry in self._seen:
            return True
        if len(self._seen) >= self._size:
            del self._seen[heapq.heappop(self._by_age)[1]]
        self._seen[entry] = until
        self._keep(entry, until - now, monotonic)
        return False

    def _owner(self, asked: Key) -> str:
        return self._handles.owner_of_key(f"{asked.kind}:{asked.key}")

    def _keep(self, entry: tuple[str, str], left: int, monotonic: float) -> None:
        heapq.heappush(self._by_age, (monotonic + max(left, 0) / SECOND, entry))

    def _forget(self, now: int, monotonic: float) -> None:
        """Forget what has expired by both clocks."""
        while self._by_age and self._by_age[0][0] < monotonic:
            _, entry = heapq.heappop(self._by_age)
            if self._seen[entry] >= now:
                self._keep(entry, self._seen[entry] - now, monotonic)  # the clock was set back meanwhile
            else:
                del self._seen[entry]


def _take(tx: Tx, asked: Key) -> Taken:
    found = {"kind": asked.kind, "key": asked.key, "until": asked.until}
    return Taken(tx.count(TAKE, **found) == 1 or tx.count(TAKE_EXPIRED, **found, now=tx.now) == 1)


async def forget_expired(db: Database, clock: Clock) -> int:
    """Delete the durable strikes that have expired, in portions; how many they were."""
    total = 0
    while True:
        gone = await db.write(_forget_portion, clock.passed())
        total += gone
        if gone < PORTION:
            return total


@scan
def _forget_portion(tx: Tx, passed: int) -> int:
    return tx.count(FORGET, passed=passed, most=PORTION)
