"""The kernel's schema, and the audit store in it."""

from collections.abc import Sequence
from functools import cache

from sqlalchemy import Select, func, select

from greatseal.api.audit import AuditQuery, AuditRecord
from greatseal.api.declarations import EventType, Schema
from greatseal.api.store import Tx, scan
from greatseal.db.core_tables import audit, metadata
from greatseal.db.tables import param

__all__ = ["EVENTS", "SCHEMA", "counted", "recorded"]

SCHEMA = Schema(feature="core", metadata=metadata, migrations="greatseal.db.migrations", head="0005")
"""The tables ``core_<noun>``: audit events, strikes, keys, which cluster key is in force, blocked keys."""

EVENTS = (
    EventType("key.block", "core", "A public key was blocked: nobody may use it any more; the principal is who did it."),
    EventType("key.unblock", "core", "A public key may be used again; the principal is who did it."),
    EventType("audit.drop", "ca", "The audit log was full, and its oldest events were dropped; the detail says how many."),
    EventType("security.violation", "ca", "Somebody tried what only an attacker tries; the detail says what. Many raise the alarm."),
)
"""What the kernel itself writes, and what more than one plugin does."""


_FILTERS = {
    "event_type": audit.c.event_type == param("event_type"),
    "sub": audit.c.sub == param("sub"),
    "outcome": audit.c.outcome == param("outcome"),
    "since": audit.c.created_at >= param("since"),
    "until": audit.c.created_at < param("until"),
}


@cache
def _listing(filters: tuple[str, ...]) -> Select[tuple[object, ...]]:
    within = (audit.c.service == param("service"), audit.c.id < param("before"), audit.c.id > param("after"))
    conditions = (*within, *(_FILTERS[name] for name in filters))
    return select(audit).where(*conditions).order_by(audit.c.id.desc()).limit(param("limit")).offset(param("offset"))


_TOTAL = select(func.count().label("total")).select_from(audit)


@scan
def counted(tx: Tx) -> dict[str, int]:
    """How many events there are."""
    row = tx.one(_TOTAL)
    return {"total": 0 if row is None else row.total}


@scan
def recorded(tx: Tx, query: AuditQuery) -> Sequence[AuditRecord]:
    """The events of a query, newest first."""
    values = {name: value for name in _FILTERS if (value := getattr(query, name)) is not None}
    listing = _listing(tuple(values))
    rows = tx.all(listing, service=query.service, before=query.before, after=query.after, limit=query.limit, offset=query.offset, **values)
    return [AuditRecord(**{name: getattr(row, name) for name in AuditRecord.__struct_fields__}) for row in rows]
