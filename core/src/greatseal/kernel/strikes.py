"""Single use of keys that come from outside: jti, nonces of others, one-time codes."""

import heapq

from sqlalchemy import delete, select, tuple_, update

from greatseal.api.store import Database, Tx, scan
from greatseal.db.core_tables import strike
from greatseal.db.tables import insert_new, param
from greatseal.host import Clock

TAKE = insert_new(strike)
TAKE_EXPIRED = (
    update(strike)
    .where(strike.c.kind == param("kind"), strike.c.key == param("key"), strike.c.until < param("now"))
    .values(until=param("until"))
)
FORGET = delete(strike).where(
    tuple_(strike.c.kind, strike.c.key).in_(
        select(strike.c.kind, strike.c.key).where(strike.c.until < param("now")).order_by(strike.c.until).limit(param("most"))
    )
)
PORTION = 1000
"""Rows that one transaction of the cleanup deletes: others wait for it."""


class StrikesImpl:
    """A :class:`greatseal.host.Strikes`. ``size`` bounds what is remembered in memory, about 250 bytes each."""

    def __init__(self, clock: Clock, size: int = 100_000) -> None:
        self._clock = clock
        self._size = size
        self._seen: dict[tuple[str, str], int] = {}
        self._by_expiry: list[tuple[int, tuple[str, str]]] = []

    def once(self, tx: Tx, kind: str, key: str, until: int) -> bool:
        """See :meth:`greatseal.host.Strikes.once`."""
        if tx.count(TAKE, kind=kind, key=key, until=until) == 1:
            return True
        return tx.count(TAKE_EXPIRED, kind=kind, key=key, until=until, now=tx.now) == 1

    def seen(self, kind: str, key: str, until: int) -> bool:
        """See :meth:`greatseal.host.Strikes.seen`."""
        now, entry = self._clock.now(), (kind, key)
        if self._seen.get(entry, -1) >= now:
            return True
        self._forget(now)
        self._seen[entry] = until
        heapq.heappush(self._by_expiry, (until, entry))
        return False

    def _forget(self, now: int) -> None:
        """Make room: what has expired, then what expires first."""
        while self._by_expiry and (self._by_expiry[0][0] < now or len(self._by_expiry) >= self._size):
            _, entry = heapq.heappop(self._by_expiry)
            del self._seen[entry]


async def forget_expired(db: Database) -> int:
    """Delete the durable strikes that have expired, in portions; how many they were."""
    total = 0
    while True:
        gone = await db.write(_forget_portion)
        total += gone
        if gone < PORTION:
            return total


@scan
def _forget_portion(tx: Tx) -> int:
    return tx.count(FORGET, now=tx.now, most=PORTION)
