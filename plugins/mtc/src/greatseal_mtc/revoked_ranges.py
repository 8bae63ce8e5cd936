"""What is told of revoked entries (draft-ietf-plants-merkle-tree-certs-05 s7.5): half-open ranges ``[start, end)`` of indices of each log.

Of a log that is not written any more, all indices that the database knows no certificate of are revoked: nobody could revoke these later.
"""

from collections.abc import Sequence

from greatseal.api.moments import SECOND
from greatseal.api.store import Tx, scan
from greatseal.host import Host
from greatseal_mtc.merkle import MAX_SIZE
from greatseal_mtc.recording import numbers_of, recorded_size
from greatseal_mtc.revoked import BITE, REVOKED, drop_ended, positions

KEPT = 86_400 * SECOND
"""How long one that has ended is still told: clocks of relying parties differ."""


def ranges_of(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Half-open ranges of ascending indices; neighbours are in one."""
    found: list[tuple[int, int]] = []
    for index in indices:
        if found and found[-1][1] == index:
            found[-1] = (found[-1][0], index + 1)
        else:
            found.append((index, index + 1))
    return found


@scan
def told(tx: Tx, ca_id: str, log_number: int) -> list[tuple[int, int]]:
    """The ranges of a log."""
    found = ranges_of(positions(tx, ca_id, log_number))
    numbers = numbers_of(tx, ca_id)
    if numbers is None or log_number >= numbers.current:
        return found
    known = recorded_size(tx, ca_id, log_number)
    if found and found[-1][1] == known:
        known, _ = found.pop()
    return [*found, (known, MAX_SIZE)]


class RevokedRanges:
    """The ranges of every log, in memory until one more is revoked."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._known: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self._changes = 0
        host.changes.subscribe(REVOKED, self._forget)

    async def of(self, ca_id: str, log_number: int) -> list[tuple[int, int]]:
        """Those of one log."""
        found = self._known.get((ca_id, log_number))
        if found is None:
            before = self._changes
            found = await self._host.db.read(told, ca_id, log_number)
            if before == self._changes:
                self._known[ca_id, log_number] = found
        return found

    async def tidy(self, ca_ids: Sequence[str]) -> None:
        """Drop those that ended a while ago."""
        for ca_id in ca_ids:
            while await self._host.db.write(drop_ended, ca_id, self._host.clock.passed() - KEPT) == BITE:
                pass

    def _forget(self, ca_id: str) -> None:
        self._changes += 1
        for key in [key for key in self._known if key[0] == ca_id]:
            del self._known[key]
