"""The queue (service NOTICES): written by the transaction of what is told, emptied by carriers."""

from collections.abc import Mapping

import msgspec
from sqlalchemy import delete, insert, select

from greatseal.api.declarations import Secret
from greatseal.api.directory import Directories
from greatseal.api.messages import Text
from greatseal.api.moments import SECOND
from greatseal.api.notices import Letter, Notice, NoticeCarrier, Undeliverable
from greatseal.api.store import Row, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.outbox import Deliveries, Failed
from greatseal_notices.tables import notice as t

MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
MOST_WAITING = 10
"""Notices of one kind that wait for one person and carrier: there are more only while nothing can be carried."""
MOST_CARRIED = 10
"""Those that are carried within an hour."""

_QUEUE = insert(t).values({column.name: param(column.name) for column in t.columns})
_WAITING = (
    select(t.c.id)
    .where(t.c.subject == param("person"), t.c.kind == param("sort"), t.c.carrier == param("by"))
    .order_by(t.c.id)
    .limit(MOST_WAITING)
)
OVER = delete(t).where(t.c.id == param("key"))


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of the words of a notice."""

    title: Text
    text: Text
    facts: Mapping[str, Text]
    languages: tuple[str, ...] = ()


class NoticeQueue(Deliveries):
    """See :class:`greatseal.api.notices.Notices`."""

    service, event = "idp", "notice_sent"
    retries = (MINUTE // 2, 2 * MINUTE, 10 * MINUTE, HOUR, 4 * HOUR, 12 * HOUR)
    point = "notices.carried"
    at_once = 8

    def __init__(self, host: Host, directories: Directories) -> None:
        super().__init__(host, t, OVER)
        self._directories = directories

    @property
    def reaches(self) -> bool:
        """Whether a carrier reaches the person alone."""
        return any(carrier.private for carrier in self._carriers.values())

    def tell(self, tx: Tx, notice: Notice) -> None:
        """See the contract. What is over the limit of a kind is left out: the person has heard of it ten times by then."""
        names = [name for name, carrier in self._carriers.items() if carrier.private or notice.link is None]
        for name in names:
            if len(tx.all(_WAITING, person=notice.subject, sort=notice.kind, by=name)) < MOST_WAITING:
                self._queue(tx, name, notice)
        if names:
            tx.after_commit(self.begin)

    async def attempt(self, row: Row) -> Failed | bool:
        carrier = self._carriers.get(row.carrier)
        if carrier is None:
            return False
        if self._host.clock.now() >= row.expires_at:
            return Failed("nobody took it in time", final=True)
        limited = f"{row.carrier} {row.kind} {row.subject}"
        if row.attempts == 1 and self._host.limits.hit("notices", limited, MOST_CARRIED, HOUR / SECOND) is not None:
            return Failed(f"there were {MOST_CARRIED} of this kind within an hour", final=True)
        person = await self._directories.user(row.subject)
        if person is None:
            return False
        try:
            return await carrier.carry(Letter(id=row.id, person=person, notice=self._notice(row), told_at=row.told_at))
        except Undeliverable as problem:
            return Failed(problem.detail, final=True)

    def about(self, row: Row) -> str:
        return f"{row.kind} by {row.carrier}"

    @property
    def _carriers(self) -> Mapping[str, NoticeCarrier]:
        return self._host.components(NoticeCarrier)

    def _queue(self, tx: Tx, carrier: str, notice: Notice) -> None:
        id = self._host.handles.new_id()
        said = Said(title=notice.title, text=notice.text, facts=dict(notice.facts), languages=notice.languages)
        link = None
        if notice.link is not None:
            link = self._host.keys.seal(notice.link.value.encode(), table=t.name, row=id, field="link")
        tx.run(
            _QUEUE,
            id=id,
            carrier=carrier,
            subject=notice.subject,
            kind=notice.kind,
            said=msgspec.json.encode(said).decode(),
            link=link,
            attempts=0,
            told_at=tx.now,
            due_at=tx.now,
            expires_at=tx.now + notice.seconds * SECOND,
        )

    def _notice(self, row: Row) -> Notice:
        said = msgspec.json.decode(row.said, type=Said)
        link = None
        if row.link is not None:
            link = Secret(self._host.keys.open(bytes(row.link), table=t.name, row=row.id, field="link").decode())
        return Notice(
            kind=row.kind,
            subject=row.subject,
            title=said.title,
            text=said.text,
            facts=said.facts,
            languages=said.languages,
            link=link,
        )
