"""What was revoked before its time: a small set in memory, checked with every token."""

import asyncio
from collections.abc import Iterable
from typing import Literal

from sqlalchemy import delete, select, tuple_

from greatseal.api.store import Row, Tx, scan
from greatseal.db.tables import insert_new, param
from greatseal.host import Host
from greatseal_idp import tables as t
from greatseal_idp.settings import TokenSettings

Kind = Literal["jti", "family", "origin", "session", "client"]

KIND = t.revoked.name
SLACK = 600_000_000
"""Microseconds: a token that is being signed while its family is revoked is issued a moment later."""

BITE = 500
"""Rows that one transaction of the cleanup deletes."""

_ALL = select(t.revoked)
_INSERT = insert_new(t.revoked)
_EXPIRED = select(t.revoked.c.kind, t.revoked.c.value).where(t.revoked.c.until <= param("passed")).order_by(t.revoked.c.until).limit(BITE)
_FORGET = delete(t.revoked).where(tuple_(t.revoked.c.kind, t.revoked.c.value).in_(_EXPIRED))


class Revocations:
    """The revoked set. What a transaction adds is in it before the caller of the transaction resumes."""

    def __init__(self, host: Host) -> None:
        self._host = host
        settings = host.settings(TokenSettings)
        self._ttl = max(settings.access_token_ttl, settings.id_token_ttl) * 1_000_000  # an ID token can be exchanged
        self._until: dict[str, int] = {}
        self._latest = 0
        self._wanted, self._read = 1, 0
        self._reading = asyncio.Lock()
        host.changes.subscribe(KIND, self._heard)

    def revoke(self, tx: Tx, kind: Kind, value: str, until: int | None = None, *, issued_at: int = 0) -> None:
        """Revoke; ``until`` (microseconds) is when the last token of it expires, by default that of one issued now or ``issued_at``."""
        until = max(tx.now, self._latest, issued_at) + self._ttl + SLACK if until is None else until
        tx.run(_INSERT, kind=kind, value=value, until=until)
        tx.changed(KIND, f"{kind} {value} {until}")

    def issued(self, moment: int) -> None:
        """A token was issued: what is revoked stays so until the latest has expired, also when the clock was ahead and is put right."""
        self._latest = max(self._latest, moment)

    async def load(self) -> None:
        """Read the set once; later changes are told. Called before it is looked at, and free when it was read."""
        if self._read == self._wanted:
            return
        async with self._reading:
            while self._read != self._wanted:
                wanted = self._wanted
                rows = await self._host.db.read(_live)
                self._until.update((f"{row.kind} {row.value}", row.until) for row in rows)
                self._read = wanted

    def any(self, keys: Iterable[str]) -> bool:
        """Whether one of the keys, each ``<kind> <value>``, is revoked."""
        return bool(self._until) and any(key in self._until for key in keys)

    async def forget(self) -> None:
        """For a job: what cannot matter any more leaves the table and the memory."""
        passed = self._host.clock.passed()
        while await self._host.db.write(_forget, passed) == BITE:
            pass
        for key in [key for key, until in self._until.items() if until <= passed]:
            del self._until[key]

    def _heard(self, id: str) -> None:
        """The id says all of it, so that nothing is read. Another one means that it is not known what changed."""
        key, _, until = id.rpartition(" ")
        if until.isdecimal():
            self._until[key] = int(until)
        else:
            self._wanted += 1


@scan
def _live(tx: Tx) -> list[Row]:
    return tx.all(_ALL)


@scan
def _forget(tx: Tx, passed: int) -> int:
    return tx.count(_FORGET, passed=passed)
