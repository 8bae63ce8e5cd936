"""The bound of the audit log: at `[admin] audit_max_events` it drops the oldest events, or what writes events ends."""

import structlog
from sqlalchemy import delete, func, select

from greatseal.api.audit import AuditEvent
from greatseal.api.store import Tx, scan
from greatseal.db.core_tables import audit
from greatseal.db.database import Store
from greatseal.db.tables import param
from greatseal.kernel.settings import Admin

EVERY = 10.0
"""Seconds between two looks: so long the log may be longer."""
PORTION = 1000
"""Events that one transaction drops."""
SPARE = 100
"""The hundredth part is dropped at once, so that the event about it does not make the log too long again."""

_SPAN = select(func.min(audit.c.id).label("oldest"), func.max(audit.c.id).label("newest"))
_DROP = delete(audit).where(audit.c.id <= param("last"))


class AuditBound:
    """Of one service."""

    def __init__(self, store: Store, admin: Admin | None, log: structlog.stdlib.BoundLogger) -> None:
        self._store = store
        self._most = 0 if admin is None else admin.audit_max_events
        self._drops = admin is not None and admin.audit_overflow == "drop_oldest"
        self._log = log

    async def look(self) -> None:
        """Measure the log by the ids of its oldest and newest event."""
        if not self._most:
            return
        full = await self._store.read(_length) >= self._most
        if not self._drops:
            if full and not self._store.audit_is_full:
                self._log.critical("the audit log is full; what writes audit events is refused", audit_max_events=self._most)
            self._store.audit_is_full = full
            return
        left = self._most - self._most // SPARE
        while full and await self._store.write(_drop, left) == PORTION:
            pass


@scan
def _length(tx: Tx) -> int:
    row = tx.one(_SPAN)
    return 0 if row is None or row.newest is None else int(row.newest - row.oldest + 1)


@scan
def _drop(tx: Tx, left: int) -> int:
    """Drop a portion of the oldest events of those that are too many; how many. An event says so."""
    row = tx.one(_SPAN)
    surplus = 0 if row is None or row.newest is None else row.newest - row.oldest + 1 - left
    if row is None or surplus <= 0:
        return 0
    last = row.oldest + min(surplus, PORTION) - 1
    dropped = tx.count(_DROP, last=last)
    tx.audit(AuditEvent(event_type="audit.drop", service="ca", detail=f"{dropped} events to the number {last}: the audit log was full"))
    return min(surplus, PORTION)
