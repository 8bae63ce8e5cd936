"""Audit events of sign-in, sessions and sign-out."""

from greatseal.api.declarations import EventType

EVENTS = (
    EventType("login_success", "idp", "Somebody signed in; sub is the user."),
    EventType("login_failure", "idp", "A sign-in failed; detail says why and from where. An unknown name is not written."),
    EventType("password_changed", "idp", "A person changed their password, or set one by a link in a mail; sub is the user."),
    EventType("password_reset_asked", "idp", "Somebody asked for a link by which a person chooses a new password, and it is sent to them."),
    EventType("mail_confirmed", "idp", "A person confirmed the mail address of their account by a link in a mail to it."),
    EventType("logout", "idp", "A session was ended by its holder, or by an application in their browser."),
    EventType("session_revoked", "idp", "A session was ended by somebody else than its holder."),
    EventType("rate_limited", "idp", "An address or a user name has tried too often; once for each window."),
    EventType("backchannel_logout_out", "idp", "A client was told of a logout, or could not be told."),
)
