"""Audit events of consent."""

from greatseal.api.declarations import EventType

EVENTS = (
    EventType("consent_granted", "idp", "A person allowed a client what it asked for; detail is the scopes."),
    EventType("consent_withdrawn", "idp", "A person took back what a client was allowed; its refresh tokens of the person ended."),
    EventType("consent_denied", "idp", "A person did not allow a client what it asked for."),
)
