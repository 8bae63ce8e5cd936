"""The kernel's schema, and the audit store in it (ruling R12)."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Select, select

from greatseal.api.audit import AuditQuery, AuditRecord
from greatseal.api.declarations import EventType, Schema
from greatseal.api.store import Tx, scan
from greatseal.db.core_tables import audit, metadata
from greatseal.db.tables import param

__all__ = ["EVENTS", "SCHEMA", "recorded"]

SCHEMA = Schema(feature="core", metadata=metadata, migrations="greatseal.db.migrations", head="0005")
"""The tables ``core_<noun>``: audit events, strikes, keys, which cluster key is in force, blocked keys."""

EVENTS = (
    EventType("key.block", "core", "A public key was blocked: nobody may use it any more; the principal is who did it."),
    EventType("key.unblock", "core", "A public key may be used again; the principal is who did it."),
)
"""What the kernel itself writes."""


def _listing(*filters: str) -> Select[tuple[object, ...]]:
    chosen = select(audit).where(audit.c.id < param("before"), *(audit.c[name] == param(name) for name in ("service", *filters)))
    return chosen.order_by(audit.c.id.desc()).limit(param("limit")).offset(param("offset"))


_LISTINGS: Mapping[tuple[str, ...], Select[tuple[object, ...]]] = {
    filters: _listing(*filters) for filters in ((), ("event_type",), ("sub",), ("event_type", "sub"))
}


@scan
def recorded(tx: Tx, query: AuditQuery) -> Sequence[AuditRecord]:
    """The events of a query, newest first."""
    values = {name: value for name, value in (("event_type", query.event_type), ("sub", query.sub)) if value is not None}
    rows = tx.all(_LISTINGS[tuple(values)], service=query.service, before=query.before, limit=query.limit, offset=query.offset, **values)
    return [AuditRecord(**{name: getattr(row, name) for name in AuditRecord.__struct_fields__}) for row in rows]
