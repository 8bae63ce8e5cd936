"""Which entries of a log are of certificates that are revoked (draft-ietf-plants-merkle-tree-certs-05 s7.5): ranges of indices.

A range ``[start, end)`` is half open. Certificates that are revoked, and those whose issuance was given up, are in it until a while after
they ended.
"""

from collections.abc import Sequence

from sqlalchemy import delete, select

from greatseal.api.moments import SECOND
from greatseal.api.store import Tx, scan
from greatseal.db.tables import insert_new, param
from greatseal.host import Host
from greatseal_mtc.tables import entry, revoked

REVOKED = "mtc_revoked"
"""The kind of change that tells of one more revoked entry of a log, by the id of its CA."""
BITE = 500
KEPT = 86_400 * SECOND
"""How long one that has ended is still told: clocks of relying parties differ."""

_ADD = insert_new(revoked)
_POSITIONS = (
    select(entry.c.position)
    .join(revoked, revoked.c.certificate_id == entry.c.certificate_id)
    .where(revoked.c.ca_id == param("ca_id"), entry.c.log_number == param("log_number"))
    .order_by(entry.c.position)
)
_ANY = (
    select(entry.c.position)
    .join(revoked, revoked.c.certificate_id == entry.c.certificate_id)
    .where(
        entry.c.ca_id == param("ca_id"),
        entry.c.log_number == param("log_number"),
        entry.c.position >= param("start"),
        entry.c.position < param("end"),
    )
    .limit(1)
)
_ENDED = select(revoked.c.certificate_id).where(revoked.c.ca_id == param("ca_id"), revoked.c.not_after < param("passed")).limit(BITE)
_DROP = delete(revoked).where(revoked.c.certificate_id == param("id"))


def add_revoked(tx: Tx, certificate_id: str, ca_id: str, not_after: int) -> None:
    """The certificate is revoked, or counts as such, whether it has an index yet or not."""
    if tx.count(_ADD, certificate_id=certificate_id, ca_id=ca_id, not_after=not_after):
        tx.changed(REVOKED, ca_id)


def any_revoked(tx: Tx, ca_id: str, log_number: int, start: int, end: int) -> bool:
    """Whether an entry of these is."""
    return tx.one(_ANY, ca_id=ca_id, log_number=log_number, start=start, end=end) is not None


@scan
def positions(tx: Tx, ca_id: str, log_number: int) -> list[int]:
    """The indices of revoked certificates in a log, ascending."""
    return [row.position for row in tx.all(_POSITIONS, ca_id=ca_id, log_number=log_number)]


def ranges_of(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Half-open ranges of ascending indices; neighbours are in one."""
    found: list[tuple[int, int]] = []
    for index in indices:
        if found and found[-1][1] == index:
            found[-1] = (found[-1][0], index + 1)
        else:
            found.append((index, index + 1))
    return found


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
            found = ranges_of(await self._host.db.read(positions, ca_id, log_number))
            if before == self._changes:
                self._known[ca_id, log_number] = found
        return found

    async def tidy(self, ca_ids: Sequence[str]) -> None:
        """Drop those that ended a while ago."""
        for ca_id in ca_ids:
            while await self._host.db.write(_drop_ended, ca_id, self._host.clock.passed() - KEPT) == BITE:
                pass

    def _forget(self, ca_id: str) -> None:
        self._changes += 1
        for key in [key for key in self._known if key[0] == ca_id]:
            del self._known[key]


@scan
def _drop_ended(tx: Tx, ca_id: str, passed: int) -> int:
    rows = tx.all(_ENDED, ca_id=ca_id, passed=passed)
    for row in rows:
        tx.run(_DROP, id=row.certificate_id)
    if rows:
        tx.changed(REVOKED, ca_id)
    return len(rows)
