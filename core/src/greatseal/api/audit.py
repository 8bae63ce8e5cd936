"""Audit events: who did what, written in the transaction of what they did."""

import msgspec


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One security-relevant fact. What is None is left out of every listing.

    All events are rows of the table ``core_audit``. ``service`` tells whose listing shows it: those of ``idp`` are listed by
    ``GET /api/admin/audit`` and ``greatseal ctl audit``, those of ``ca`` by ``GET /admin/audit``; those of any other word are in the table
    alone, until a plugin lists them with ``host.audit_records``. ``outcome`` is ``success`` or ``failure``, ``principal`` is the acting
    person or program where that is not ``sub``, ``detail`` is free text without secrets.
    """

    event_type: str
    service: str
    outcome: str = "success"
    sub: str | None = None
    client_id: str | None = None
    principal: str | None = None
    detail: str | None = None


class AuditRecord(AuditEvent, frozen=True, kw_only=True):
    """A stored event: ``id`` increases strictly, ``created_at`` is microseconds."""

    id: int
    created_at: int


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one service, newest first: at most ``limit`` with ids below ``before`` and above ``after``, but for the ``offset`` newest.

    A filter that is None lets all through. ``since`` and ``until`` are microseconds: from the one on, before the other.
    """

    service: str
    before: int = 2**63 - 1
    after: int = 0
    offset: int = 0
    limit: int = 100
    event_type: str | None = None
    sub: str | None = None
    outcome: str | None = None
    since: int | None = None
    until: int | None = None
