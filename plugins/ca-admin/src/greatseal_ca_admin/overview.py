"""/admin/audit, /admin/stats and /admin/config: what happened, how much there is, what is set."""

import asyncio
import difflib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from greatseal import __version__
from greatseal.api.audit import AuditQuery, AuditRecord
from greatseal.api.declarations import Statistic
from greatseal.api.http import ADMINISTRATORS, OPERATOR_ROLES, Call, Reply, Route, operator_route
from greatseal.api.lists import LARGEST, MOST, filter_of, number_of
from greatseal.api.moments import SECOND, seconds
from greatseal.api.problems import BadRequest
from greatseal.host import Host

SERVICE = "ca"
FRESH = 10.0
"""Seconds for which totals are shown again: they may take a look at every row."""
_DIGITS = re.compile(r"[0-9]{1,12}", re.ASCII)


class Overview:
    """The routes. ``began`` is when the service did, on the clock that never goes back."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._began = host.clock.monotonic()
        self._counting = asyncio.Lock()
        self._counted: tuple[float, dict[str, Mapping[str, int]]] | None = None

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            operator_route("GET", "/admin/audit", self.audit, ("administrator", "auditor"), "Audit events of the CA, newest first"),
            operator_route("GET", "/admin/stats", self.stats, OPERATOR_ROLES, "How much there is"),
            operator_route("GET", "/admin/config", self.config, ADMINISTRATORS, "The configuration, without secrets"),
        ]

    async def audit(self, call: Call) -> Reply:
        # The only lists with an offset are those whose interface names one: this and that of EAB keys.
        limit = number_of(call, "limit", least=1, default=100, most=MOST)
        offset = number_of(call, "offset", least=0, default=0, most=LARGEST)
        query = AuditQuery(
            service=SERVICE,
            offset=offset,
            limit=limit,
            event_type=filter_of(call, "type"),
            sub=filter_of(call, "subject"),
            outcome=_outcome(call),
            since=_moment(call, "from"),
            until=_moment(call, "until"),
        )
        records = await self._host.audit_records(query)
        if not records and not offset and query.event_type is not None:
            self._check_type(query.event_type)
        return Reply.json({"events": [_shown(record) for record in records], "limit": limit, "offset": offset})

    async def stats(self, _call: Call) -> Reply:
        async with self._counting:
            now = self._host.clock.monotonic()
            if self._counted is None or now - self._counted[0] >= FRESH:
                found = self._host.components(Statistic)
                self._counted = now, {name: await found[name].count() for name in sorted(found)}
            uptime = int(now - self._began)
            return Reply.json({"server_version": __version__, "uptime_secs": uptime, **self._counted[1]})

    async def config(self, _call: Call) -> Reply:
        return Reply.json(self._host.configuration())

    def _check_type(self, asked: str) -> None:
        """Raises BadRequest for a type that nobody writes. One of a plugin that is not enabled any more may be in the log."""
        known = [one.name for one in self._host.audit_events() if one.service == SERVICE]
        if asked not in known:
            close = difflib.get_close_matches(asked.lower(), known, n=1)
            cure = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(sorted(known))}"
            raise BadRequest(f"type: no event of this type was found, and no plugin writes it; {cure}")


def _outcome(call: Call) -> str | None:
    outcome = filter_of(call, "outcome")
    if outcome not in {None, "success", "failure"}:
        raise BadRequest("outcome: expected success or failure")
    return outcome


def _moment(call: Call, name: str) -> int | None:
    """A moment of the query, a Unix timestamp or RFC 3339, in microseconds."""
    text = filter_of(call, name)
    if text is None:
        return None
    if _DIGITS.fullmatch(text):
        return int(text) * SECOND
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return int(moment.timestamp() * SECOND)
    except (ValueError, OverflowError):
        pass
    raise BadRequest(f"{name}: expected a Unix timestamp, or a moment as 2026-11-22T09:30:00Z")


def _shown(record: AuditRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "occurred_at": seconds(record.created_at),
        "event_type": record.event_type,
        "subject": record.sub,
        "principal": record.principal,
        "outcome": record.outcome,
        "detail": record.detail,
    }
