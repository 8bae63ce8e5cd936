"""What has expired leaves the tables, in small bites."""

from collections.abc import Awaitable, Callable, Sequence

from sqlalchemy import Column, ColumnElement, Delete, Table, delete, select

from greatseal.api.store import Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp import tables as t
from greatseal_idp.settings import TokenSettings

BITE = 500
"""Rows that one transaction deletes, so that requests do not wait for long."""
REPLAYED = 600
"""Seconds that a used code is remembered at least, so that a second use is still seen (RFC 6749 s4.1.2)."""


def _expired(of: Table, key: Column[str], end: Column[int], *also: ColumnElement[bool]) -> Delete:
    found = select(key).where(end < param("before"), *also).limit(BITE)
    return delete(of).where(key.in_(found))


_CODES = _expired(t.code, t.code.c.digest, t.code.c.expires_at)
_ENDED = _expired(t.family, t.family.c.id, t.family.c.expires_at, t.family.c.revoked_at.is_(None))
_REVOKED = _expired(t.family, t.family.c.id, t.family.c.revoked_at)
_IDLE = (
    select(t.family.c.id)
    .where(t.family.c.id > param("after"), t.family.c.idle_expires_at < param("before"))
    .order_by(t.family.c.id)
    .limit(BITE)
)
_FORGET = delete(t.family).where(t.family.c.id == param("family"), t.family.c.idle_expires_at < param("before"))


class Cleanup:
    """The job. A refresh token whose family left is as unknown as a forged one."""

    def __init__(self, host: Host, *also: Callable[[], Awaitable[None]]) -> None:
        settings = host.settings(TokenSettings)
        self._host = host
        self._also = also
        self._kept = max(settings.access_token_ttl, settings.id_token_ttl, REPLAYED) * 1_000_000

    async def run(self) -> None:
        """Delete expired codes, and families that ended."""
        now = self._host.clock.passed()
        for statement, before in ((_CODES, now - self._kept), (_ENDED, now), (_REVOKED, now - self._kept)):
            while await self._host.db.write(_bite, statement, before) == BITE:
                pass
        # An index here would double the cost of every refresh; a reader looks through the table, and no writer waits for it.
        after = ""
        while idle := await self._host.db.read(_idle, after, now):
            await self._host.db.write(_forget, idle, now)
            after = idle[-1]
        for one in self._also:
            await one()


@scan
def _bite(tx: Tx, statement: Delete, before: int) -> int:
    return tx.count(statement, before=before)


@scan
def _idle(tx: Tx, after: str, before: int) -> list[str]:
    return [row.id for row in tx.all(_IDLE, after=after, before=before)]


@scan
def _forget(tx: Tx, families: Sequence[str], before: int) -> None:
    for family in families:
        tx.run(_FORGET, family=family, before=before)
