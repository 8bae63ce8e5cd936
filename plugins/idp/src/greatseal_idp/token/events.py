"""The audit events of the token side."""

from greatseal.api.declarations import EventType

EVENTS = (
    EventType("code_replay", "idp", "An authorization code came a second time: all that it gave was revoked."),
    EventType("refresh_replay", "idp", "A superseded refresh token came again: its family was revoked."),
    EventType("refresh_family_revoked", "idp", "A refresh family and its access tokens were revoked; detail has its id."),
    EventType("refresh_families_revoked", "idp", "All refresh families of a person, or those at one client, were revoked."),
    EventType("token_revoked", "idp", "A client revoked a token, or (failure) tried to revoke another client's."),
)
