"""Telling others what happened: durable, with retries.

The queue is a table of the plugin with ``id``, ``subject``, ``attempts``, ``due_at`` (indexed; None: nothing is owed), ``expires_at``, and
``client_id`` where applications are told. A row is put there by the transaction of what is told, and any process may be killed at any
moment: whoever is told hears of it once at least.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import msgspec
from sqlalchemy import Table, or_, select, update

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.moments import SECOND
from greatseal.api.problems import Problem
from greatseal.api.services import RESOLVER
from greatseal.api.store import Row, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.net.addresses import AddressPolicy
from greatseal.net.outbound import NameResolver, fetch
from greatseal.net.system import SystemResolver

if TYPE_CHECKING:
    from sqlalchemy import Executable

__all__ = ["Deliveries", "Failed", "Outbox", "Posting"]

TIMEOUT = 5.0
"""Seconds that an application has for its answer."""
TAKEN = frozenset({200, 204})
"""Statuses by which it says that it took the notice (Back-Channel Logout s2.8, CIBA Core s10.2)."""
LEASE = 60 * SECOND
"""How long an attempt may take before another process tries again."""
BATCH = 500
LONGEST = 500
"""Characters of an audit event about what went wrong."""


class Posting(msgspec.Struct, frozen=True, kw_only=True):
    """What is POSTed: ``form`` or ``json``."""

    uri: str
    form: Mapping[str, str] | None = None
    json: Mapping[str, object] | None = None
    headers: Mapping[str, str] = {}


class Failed(msgspec.Struct, frozen=True):
    """What went wrong in an attempt, and whether it was the last."""

    problem: str
    final: bool = False


class Deliveries(ABC):
    """The delivery of one table."""

    service: ClassVar[str]
    event: ClassVar[str]
    """The type of the audit event of each attempt, which is of this service."""
    retries: ClassVar[tuple[int, ...]]
    """How long after each failed attempt the next one is due, microseconds; after the last there is none."""
    point: ClassVar[str]
    """The fault point between an attempt and the row that tells of it."""
    at_once: ClassVar[int] = 32
    """Attempts that go on at once in a process."""

    def __init__(self, host: Host, t: Table, over: "Executable") -> None:
        """``over`` takes the row ``key`` out of the queue."""
        # No attempt is put off further than the last of retries: what seems to be was put off by a clock that was ahead.
        due = or_(t.c.due_at <= param("now"), t.c.due_at > param("latest"))
        by_key = t.c.id == param("key")
        self._due = select(t.c.id).where(due).order_by(t.c.due_at).limit(BATCH)
        self._claim = update(t).where(by_key, due).values(attempts=t.c.attempts + 1, due_at=param("until")).returning(*t.columns)
        self._later = update(t).where(by_key).values(due_at=param("again_at"))
        self._over = over
        self._client = "client_id" in t.c
        self._host = host
        self._slots = asyncio.Semaphore(self.at_once)

    @abstractmethod
    async def attempt(self, row: Row) -> Failed | bool:
        """One attempt: True when it was taken, False when nobody is to be told any more. A Problem counts as a failed one."""

    def about(self, row: Row) -> str:  # noqa: ARG002  # of most there is no more to say
        """What the audit event says of a row, beside its person, application and what went wrong."""
        return ""

    def begin(self) -> None:
        """Deliver what is due, beside what goes on now: for ``tx.after_commit``."""
        self._host.spawn(self.event, self.deliver())

    async def deliver(self) -> None:
        """Deliver all that is due: after it was queued, and in a job for retries and for what a crash left behind."""
        while due := await self._host.db.read(self._all_due):
            claimed = await asyncio.gather(*(self._deliver_one(id) for id in due))
            if not any(claimed):
                return

    async def _deliver_one(self, id: str) -> bool:
        async with self._slots:
            row = await self._host.db.write(self._claimed, id)
            if row is None:
                return False
            try:
                outcome = await self.attempt(row)
            except Problem as problem:
                outcome = Failed(problem.cause or problem.detail or type(problem).__name__)
            if outcome is False:
                await self._host.db.write(self._end, id)
                return True
            faults.point(self.point)
            await self._host.db.write(self._settle, row, outcome if isinstance(outcome, Failed) else None)
            return True

    def _all_due(self, tx: Tx) -> list[str]:
        return [row.id for row in tx.all(self._due, now=tx.now, latest=tx.now + self.retries[-1])]

    def _claimed(self, tx: Tx, id: str) -> Row | None:
        return tx.one(self._claim, key=id, now=tx.now, latest=tx.now + self.retries[-1], until=tx.now + LEASE)

    def _end(self, tx: Tx, id: str) -> None:
        tx.run(self._over, key=id)

    def _settle(self, tx: Tx, row: Row, failed: Failed | None) -> None:
        if failed is None or failed.final or row.attempts > len(self.retries) or tx.now >= row.expires_at:
            tx.run(self._over, key=row.id)
        else:
            tx.run(self._later, key=row.id, again_at=tx.now + self.retries[row.attempts - 1])
        said = [self.about(row), *([] if failed is None else [f"attempt {row.attempts}: {failed.problem}"])]
        tx.audit(
            AuditEvent(
                event_type=self.event,
                service=self.service,
                outcome="success" if failed is None else "failure",
                sub=row.subject,
                client_id=row.client_id if self._client else None,
                detail=" ".join(filter(None, said))[:LONGEST] or None,
            )
        )


class Outbox(Deliveries):
    """Notices to applications, POSTed to public addresses."""

    final: ClassVar[frozenset[int]] = frozenset()
    """Statuses of an application that will not take the notice another time either."""

    def __init__(self, host: Host, t: Table, over: "Executable", *, allow_private: bool) -> None:
        """``allow_private``: whether notices go to addresses that are not public."""
        super().__init__(host, t, over)
        self._policy = AddressPolicy(allow_private=allow_private)

    @abstractmethod
    async def posting(self, row: Row) -> Posting | None:
        """What to send; None when nobody is to be told any more. A Problem counts as a failed attempt."""

    async def attempt(self, row: Row) -> Failed | bool:
        """Without redirects."""
        posting = await self.posting(row)
        if posting is None:
            return False
        answer = await fetch(
            posting.uri,
            resolver=self._resolver(),
            policy=self._policy,
            seconds=TIMEOUT,
            max_body=65_536,
            headers=posting.headers,
            form=posting.form,
            json=posting.json,
        )
        if answer.status in TAKEN:
            return True
        return Failed(f"{posting.uri} answered with status {answer.status}", final=answer.status in self.final)

    def _resolver(self) -> NameResolver:
        return self._host.optional_service(RESOLVER) or SystemResolver()
