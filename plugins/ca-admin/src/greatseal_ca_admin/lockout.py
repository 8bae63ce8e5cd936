"""Failed sign-ins of an operator, counted in the database: so many in a row lock them for a while."""

from sqlalchemy import ColumnElement, delete, or_, select, update

from greatseal.api.audit import AuditEvent
from greatseal.api.moments import SECOND
from greatseal.api.store import Tx
from greatseal.db.tables import insert_new, param
from greatseal_ca_admin import tables as t
from greatseal_ca_admin.settings import AdminSettings

_BEGIN = insert_new(t.attempt, t.attempt.c.operator_id, t.attempt.c.failed_attempts)


def _open() -> ColumnElement[bool]:
    """Nobody is locked for twice as long as a lock lasts: one who seems to be is so by a clock that was ahead."""
    return or_(t.attempt.c.locked_until.is_(None), t.attempt.c.locked_until <= param("now"), t.attempt.c.locked_until > param("latest"))


_FAIL = (
    update(t.attempt)
    .where(t.attempt.c.operator_id == param("id"), _open())
    .values(failed_attempts=t.attempt.c.failed_attempts + 1, locked_until=None)
    .returning(t.attempt.c.failed_attempts)
)
_LOCK = update(t.attempt).where(t.attempt.c.operator_id == param("id")).values(failed_attempts=0, locked_until=param("until"))
_SUCCEED = (
    update(t.attempt)
    .where(t.attempt.c.operator_id == param("id"), _open())
    .values(failed_attempts=0, locked_until=None, last_seen_at=param("now"))
)
_UNLOCK = update(t.attempt).where(t.attempt.c.operator_id == param("id")).values(failed_attempts=0, locked_until=None)
_IS_OPEN = select(t.attempt.c.operator_id).where(t.attempt.c.operator_id == param("id"), _open())
_FORGET = delete(t.attempt).where(t.attempt.c.operator_id == param("id"))


class Lockout:
    """Of one service."""

    def __init__(self, settings: AdminSettings) -> None:
        self._most = settings.max_failed_auth
        self._length = settings.lockout_duration_secs * SECOND

    def is_locked(self, tx: Tx, operator_id: str) -> bool:
        """Whether nobody may sign in as this operator now."""
        tx.run(_BEGIN, operator_id=operator_id, failed_attempts=0)
        return tx.one(_IS_OPEN, id=operator_id, now=tx.now, latest=tx.now + 2 * self._length) is None

    def failed(self, tx: Tx, operator_id: str, name: str) -> None:
        """Count a failure; the last of so many locks, and is a security violation. One of a locked operator does not count."""
        tx.run(_BEGIN, operator_id=operator_id, failed_attempts=0)
        row = tx.one(_FAIL, id=operator_id, now=tx.now, latest=tx.now + 2 * self._length)
        if row is None or row.failed_attempts < self._most:
            return
        tx.run(_LOCK, id=operator_id, until=tx.now + self._length)
        detail = f"{self._most} sign-ins failed; the operator is locked for {self._length // SECOND} s"
        tx.audit(AuditEvent(event_type="operator.lock", service="ca", outcome="failure", sub=name, detail=detail))
        tx.audit(AuditEvent(event_type="security.violation", service="ca", outcome="failure", sub=name, detail=detail))

    def succeeded(self, tx: Tx, operator_id: str) -> bool:
        """Begin to count anew; False when the operator is locked."""
        tx.run(_BEGIN, operator_id=operator_id, failed_attempts=0)
        return tx.count(_SUCCEED, id=operator_id, now=tx.now, latest=tx.now + 2 * self._length) == 1


def unlock(tx: Tx, operator_id: str) -> None:
    """End a lock, and begin to count anew."""
    tx.run(_UNLOCK, id=operator_id)


def forget(tx: Tx, operator_id: str) -> None:
    """Of an operator who is deleted."""
    tx.run(_FORGET, id=operator_id)
