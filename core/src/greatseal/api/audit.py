"""Audit events: who did what, written in the transaction of what they did."""

import msgspec


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One security-relevant fact (rulings R11, R12). What is None is left out of every listing.

    ``service`` tells whose listing shows it (``idp`` or ``ca``), ``outcome`` is ``success`` or ``failure``, ``principal`` is the acting
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
    """Events of one service, newest first: at most ``limit``, after the ``offset`` newest. A filter that is None lets all through."""

    service: str
    offset: int = 0
    limit: int = 100
    event_type: str | None = None
    sub: str | None = None
