"""The audit log of the identity provider (document, "Audit log"; rulings R11, R12 and R90)."""

from typing import Any

from greatseal.api.audit import AuditQuery, AuditRecord
from greatseal.api.http import Call, Permission, Reply, Route
from greatseal.host import Host
from greatseal_idp.admin.reading import filter_of, page_of, seconds


class AuditAdmin:
    """/api/admin/audit."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Route]:
        """Every route."""
        return [Route("GET", "/api/admin/audit", self.listed, auth=Permission("audit:read"), summary="Audit events, newest first")]

    async def listed(self, call: Call) -> Reply:
        page = page_of(call)
        query = AuditQuery(
            service="idp", offset=page.offset, limit=page.limit, event_type=filter_of(call, "event_type"), sub=filter_of(call, "sub")
        )
        return Reply.json([_shown(record) for record in await self._host.audit_records(query)])


def _shown(record: AuditRecord) -> dict[str, Any]:
    """An event; what does not apply is left out, never null."""
    optional = {"sub": record.sub, "client_id": record.client_id, "detail": record.detail}
    return {
        "id": record.id,
        "event_type": record.event_type,
        **{name: value for name, value in optional.items() if value},
        "created_at": seconds(record.created_at),
    }
