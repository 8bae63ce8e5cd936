"""The alarm: many audit events ``security.violation`` in a short time are told, and may end all issuing."""

import asyncio

from sqlalchemy import select

from greatseal.api.audit import AuditEvent, AuditQuery
from greatseal.api.http import ADMINISTRATORS, Call, Reply, Route, operator_route
from greatseal.api.issuance import Finalization, FinalizeCheck
from greatseal.api.moments import SECOND
from greatseal.api.problems import Unavailable
from greatseal.api.store import Tx
from greatseal.db.tables import param
from greatseal.host import Host, Snapshot
from greatseal_ca_admin import tables as t
from greatseal_ca_admin.settings import AdminSettings

WATCHED, RESUMED = "security.violation", "issuance.resume"
WINDOW = 300 * SECOND
EVERY = 5.0
"""Seconds between two looks."""
LATE = 1000
"""Events that are looked at again: on PostgreSQL one with a smaller id may be there later."""
ISSUANCE = "issuance"
_HALTED = select(t.halt.c.raised_at).where(t.halt.c.id == param("id"))


class Alarm:
    """Of one service. What was seen is in memory; after a restart the events of the window are read again."""

    def __init__(self, host: Host) -> None:
        settings = host.settings(AdminSettings)
        self._host = host
        self._threshold = settings.audit_alarm_threshold
        self._halts = settings.audit_alarm_action == "halt"
        self._newest = 0
        self._seen: dict[int, int] = {}
        self._told_at: float | None = None
        self._looking = asyncio.Lock()  # or what was read before a reset would raise the alarm after it
        self.halted: Snapshot[int] = host.changes.snapshot((t.HALT.name,), _halted_at)
        """Since when nothing is issued, microseconds; 0 while it is."""

    def routes(self) -> list[Route]:
        """How an administrator ends the halt."""
        summary = "Allow issuing again after the alarm"
        return [operator_route("POST", "/admin/alarm/reset", self.reset, ADMINISTRATORS, summary)] if self._halts else []

    def checks(self) -> list[FinalizeCheck]:
        """What keeps certificates from being issued."""
        return [NothingIsHalted(self.halted)] if self._halts else []

    async def watch(self) -> None:
        """Look at what came since the last time; the first time at the whole window."""
        async with self._looking:
            await self._watch()

    async def _watch(self) -> None:
        now = self._host.clock.now()
        newest = await self._newest_of(None, self._newest)
        after = max(self._newest - LATE, await self._newest_of(RESUMED, max(self._newest - LATE, 0)))
        query = AuditQuery(service="ca", after=after, event_type=WATCHED, since=now - WINDOW, limit=self._threshold)
        self._seen |= {one.id: one.created_at for one in await self._host.audit_records(query)}
        self._newest = newest
        self._seen = {id: moment for id, moment in self._seen.items() if 0 <= now - moment < WINDOW}
        if len(self._seen) >= self._threshold and not self._was_told():
            await self._raise()

    async def reset(self, call: Call) -> Reply:
        """What raised it does not raise it again."""
        async with self._looking:
            await self._host.db.write(_resume, call.caller.subject)
            self._seen.clear()
            self._told_at = None
        return Reply.empty()

    def _was_told(self) -> bool:
        return self._told_at is not None and self._host.clock.monotonic() - self._told_at < WINDOW / SECOND

    async def _raise(self) -> None:
        if self._halts:
            await self._host.db.write(_halt)
        self._told_at = self._host.clock.monotonic()
        what = "nothing is issued until an administrator allows it: POST /admin/alarm/reset" if self._halts else "see GET /admin/audit"
        self._host.log.critical("many security violations", at_least=self._threshold, within_secs=WINDOW // SECOND, what=what)

    async def _newest_of(self, event_type: str | None, default: int) -> int:
        """The id of the newest event above ``default``, which is the answer where there is none."""
        since = None if event_type is None else self._host.clock.now() - WINDOW
        query = AuditQuery(service="ca", after=default, event_type=event_type, since=since, limit=1)
        return next((one.id for one in await self._host.audit_records(query)), default)


class NothingIsHalted(FinalizeCheck):
    """Refuses every finalization while the alarm has ended all issuing."""

    name = "alarm"
    phase = "authorize"
    order = 1

    def __init__(self, halted: Snapshot[int]) -> None:
        self._halted = halted

    async def check(self, finalization: Finalization) -> None:  # noqa: ARG002  # whatever it is
        if await self._halted.get():
            raise Unavailable("no certificates are issued now; the operators of this CA know why", cause="the alarm", retry_after=600)


def _halted_at(tx: Tx) -> int:
    row = tx.one(_HALTED, id=ISSUANCE)
    return 0 if row is None else int(row.raised_at)


def _halt(tx: Tx) -> None:
    if tx.one(_HALTED, id=ISSUANCE) is None:
        tx.put(t.HALT, ISSUANCE, raised_at=tx.now)
        tx.audit(AuditEvent(event_type="issuance.halt", service="ca", outcome="failure", detail="the alarm ended all issuing"))


def _resume(tx: Tx, by: str) -> None:
    """Also where nothing was halted: from this event on violations are counted anew."""
    tx.remove(t.HALT, ISSUANCE)
    tx.audit(AuditEvent(event_type=RESUMED, service="ca", principal=by))
