"""The audit log of the identity provider."""

import difflib
from typing import Any

from greatseal.api.audit import AuditQuery, AuditRecord
from greatseal.api.http import Call, Permission, Reply, Route
from greatseal.api.lists import LARGEST, filter_of, next_link, number_of
from greatseal.api.moments import SECOND, seconds
from greatseal.api.problems import BadRequest
from greatseal.host import Host

SERVICE = "idp"
MOST = 100
"""Events on a page at most."""


class AuditAdmin:
    """/api/admin/audit."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Route]:
        """Every route."""
        return [Route("GET", "/api/admin/audit", self.listed, auth=Permission("audit:read"), summary="Audit events, newest first")]

    async def listed(self, call: Call) -> Reply:
        limit = number_of(call, "limit", least=1, default=MOST, most=MOST)
        query = AuditQuery(
            service=SERVICE,
            before=number_of(call, "after", least=1, default=LARGEST, most=LARGEST),
            offset=number_of(call, "offset", least=0, default=0, most=LARGEST),
            limit=limit + 1,
            event_type=filter_of(call, "event_type"),
            sub=filter_of(call, "sub"),
            outcome=_outcome(call),
            since=_moment(call, "since"),
            until=_moment(call, "until"),
        )
        records = await self._host.audit_records(query)
        if not records and query.event_type is not None and "after" not in call.query and not query.offset:
            self._check_type(query.event_type)
        reply = Reply.json([_shown(record) for record in records[:limit]])
        if len(records) <= limit:
            return reply
        # By key, whatever offset this page has: events that come meanwhile shift nothing.
        link = next_link(call, self._host.issuer, limit=str(limit), offset="0", after=str(records[limit - 1].id))
        return reply.with_headers(link)

    def _check_type(self, asked: str) -> None:
        """Raises BadRequest for a type that nobody writes. One of a plugin that is not enabled any more may be in the log."""
        known = [one.name for one in self._host.audit_events() if one.service == SERVICE]
        if asked not in known:
            close = difflib.get_close_matches(asked.lower(), known, n=1)
            cure = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(sorted(known))}"
            raise BadRequest(f"event_type: no event of this type was found, and no plugin writes it; {cure}")


def _outcome(call: Call) -> str | None:
    outcome = filter_of(call, "outcome")
    if outcome not in {None, "success", "failure"}:
        raise BadRequest("outcome: expected success or failure")
    return outcome


def _moment(call: Call, name: str) -> int | None:
    """A Unix timestamp of the query in microseconds."""
    given = number_of(call, name, least=0, default=0, most=LARGEST // SECOND)
    return given * SECOND if name in call.query else None


def _shown(record: AuditRecord) -> dict[str, Any]:
    """An event; what does not apply is left out, never null."""
    optional = {"sub": record.sub, "client_id": record.client_id, "detail": record.detail}
    return {
        "id": record.id,
        "event_type": record.event_type,
        **{name: value for name, value in optional.items() if value},
        "created_at": seconds(record.created_at),
    }
