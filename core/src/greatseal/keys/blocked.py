"""Public keys that nobody may use any more (:class:`greatseal.api.keys.BlockedKeys`)."""

from sqlalchemy import select

from greatseal.api.audit import AuditEvent
from greatseal.api.keys import BlockedKey
from greatseal.api.store import Database, Row, Tx, scan
from greatseal.db.core_tables import BLOCKED_KEYS, blocked_key
from greatseal.db.tables import param
from greatseal.host import Changes

__all__ = ["PAGE", "BlockedKeysImpl", "listed"]

PAGE = 500
_BY_KEY = select(blocked_key).where(blocked_key.c.spki_sha256 == param("spki_sha256"))
_ALL = select(blocked_key.c.spki_sha256)
_PAGE = select(blocked_key).where(blocked_key.c.spki_sha256 > param("after")).order_by(blocked_key.c.spki_sha256).limit(param("most"))


class BlockedKeysImpl:
    """In memory are the names of all that are blocked, and of some that were or were nearly: a hit there is decided by the row.

    A miss needs no row: this process alone writes to the database, and a name is in memory before the block can commit.
    """

    def __init__(self, db: Database, changes: Changes) -> None:
        self._db = db
        self._perhaps: set[str] = set()
        changes.subscribe(BLOCKED_KEYS.name, self._perhaps.add)

    async def load(self) -> None:
        """Read the names, once before use."""
        self._perhaps.update(await self._db.read(_names))

    async def find(self, spki_sha256: str) -> BlockedKey | None:
        """See :meth:`greatseal.api.keys.BlockedKeys.find`."""
        return await self._db.read(self.find_in, spki_sha256) if spki_sha256 in self._perhaps else None

    def find_in(self, tx: Tx, spki_sha256: str) -> BlockedKey | None:
        """See :meth:`greatseal.api.keys.BlockedKeys.find_in`."""
        if spki_sha256 not in self._perhaps:
            return None
        row = tx.one(_BY_KEY, spki_sha256=spki_sha256)
        return _blocked(row) if row else None

    def block(self, tx: Tx, spki_sha256: str, *, reason: str, by: str) -> bool:
        """See :meth:`greatseal.api.keys.BlockedKeys.block`."""
        self._perhaps.add(spki_sha256)
        if self.find_in(tx, spki_sha256) is not None:
            return False
        tx.put(BLOCKED_KEYS, spki_sha256, reason=reason, blocked_by=by, blocked_at=tx.now)
        tx.audit(AuditEvent(event_type="key.block", service="core", principal=by, detail=f"{spki_sha256}: {reason}"))
        return True

    def unblock(self, tx: Tx, spki_sha256: str, *, by: str) -> bool:
        """See :meth:`greatseal.api.keys.BlockedKeys.unblock`."""
        if not tx.remove(BLOCKED_KEYS, spki_sha256):
            return False
        tx.audit(AuditEvent(event_type="key.unblock", service="core", principal=by, detail=spki_sha256))
        return True


@scan
def listed(tx: Tx, after: str) -> list[BlockedKey]:
    """The next :data:`PAGE` keys by their name, those after ``after``."""
    return [_blocked(row) for row in tx.all(_PAGE, after=after, most=PAGE)]


@scan
def _names(tx: Tx) -> list[str]:
    return [row.spki_sha256 for row in tx.all(_ALL)]


def _blocked(row: Row) -> BlockedKey:
    return BlockedKey(spki_sha256=row.spki_sha256, reason=row.reason, blocked_by=row.blocked_by, blocked_at=row.blocked_at)
