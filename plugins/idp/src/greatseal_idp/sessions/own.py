"""The sessions of one person, as they see and end them."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import select

from greatseal.api.browsers import browser_of
from greatseal.api.identity import SessionView
from greatseal.api.messages import Text
from greatseal.api.moments import SECOND
from greatseal.api.store import Row, Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp import tables as t
from greatseal_idp.sessions.store import SessionStore
from greatseal_idp.settings import SessionSettings

SHOWN = 50
"""Sessions that are listed, the newest ones."""
BITE = 20
"""Sessions that one transaction ends."""

_OF = (
    select(t.session)
    .where(t.session.c.subject == param("subject"), t.session.c.expires_at > param("now"), t.session.c.last_seen_at > param("idle"))
    .order_by(t.session.c.created_at.desc(), t.session.c.id)
    .limit(SHOWN + 1)
)
_OWNED = select(t.session.c.id).where(t.session.c.id == param("id"), t.session.c.subject == param("subject"))
_OTHERS = select(t.session.c.id).where(t.session.c.subject == param("subject"), t.session.c.id != param("kept")).limit(BITE)


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A live session. Moments are microseconds; ``browser`` is what the browser says of itself, in words."""

    id: str
    browser: Text
    remote: str
    signed_in_at: int
    last_seen_at: int


class OwnSessions:
    """Lists and ends them. What is ended is ended when the method returns."""

    def __init__(self, host: Host, store: SessionStore) -> None:
        self._host = host
        self._store = store
        self._idle_ttl = host.settings(SessionSettings).idle_ttl * SECOND

    async def of(self, subject: str) -> Sequence[Held]:
        """Those of a person, the newest first: one more than :data:`SHOWN` where there are more."""
        return await self._host.db.read(self._of, subject)

    async def end(self, subject: str, id: str) -> None:
        """End one. An id of nobody or of somebody else is as nothing."""
        await self._host.db.write(self._end, subject, id)

    async def end_others(self, session: SessionView) -> None:
        """End all of the person but this one."""
        await self.end_all(session.subject, kept=session.id, event_type="logout")

    async def end_all(self, subject: str, *, event_type: str, kept: str = "") -> None:
        """End all of a person but ``kept``, under the event that says why."""
        while await self._host.db.write(self._end_some, subject, kept, event_type) == BITE:
            pass

    @scan
    def _of(self, tx: Tx, subject: str) -> Sequence[Held]:
        return [_held(row) for row in tx.all(_OF, subject=subject, now=tx.now, idle=tx.now - self._idle_ttl)]

    def _end(self, tx: Tx, subject: str, id: str) -> None:
        if tx.one(_OWNED, id=id, subject=subject) is not None:
            self._store.end(tx, id, event_type="logout")

    @scan
    def _end_some(self, tx: Tx, subject: str, kept: str, event_type: str) -> int:
        rows = tx.all(_OTHERS, subject=subject, kept=kept)
        for row in rows:
            self._store.end(tx, row.id, event_type=event_type)
        return len(rows)


def _held(row: Row) -> Held:
    return Held(
        id=row.id,
        browser=browser_of(row.user_agent),
        remote=row.remote,
        signed_in_at=row.created_at,
        last_seen_at=row.last_seen_at,
    )
