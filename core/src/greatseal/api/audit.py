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
