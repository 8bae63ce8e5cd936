"""What programs are told of a sign-in and of a session, in JSON."""

from greatseal.api.directory import User
from greatseal.api.http import Reply
from greatseal.api.identity import FactorRequired, LoggedIn, SessionView
from greatseal.api.moments import SECOND
from greatseal.api.problems import Forbidden


class PasswordHasExpired(Forbidden):
    """The password is right and must be changed first."""

    error = "password_expired"


class FactorMissing(Forbidden):
    """What was proven is right and not enough; ``credentials`` says what is."""

    error = "factor_required"


def logged_in(done: LoggedIn, user: User | None) -> Reply:
    """The session was made."""
    name = user.display_name if user is not None else None
    body = {**members(done.session), "display_name": name, "return_to": done.return_to}
    return Reply.json(body).with_headers(*done.headers)


def missing(required: FactorRequired) -> FactorMissing:
    """What to raise where more is needed."""
    shown: dict[str, object] = {"credentials": required.credentials}
    if required.enrol is not None:
        words = "this person must get a second factor first: they sign in with a browser"
        return FactorMissing(words, members={**shown, "enrol": required.enrol}, headers=dict(required.headers))
    return FactorMissing("more than this is needed to sign in", members=shown, headers=dict(required.headers))


def expired(redirect: Reply) -> Reply:
    """Of a password that must be changed first; ``redirect`` leads to the page."""
    headers = dict(redirect.headers)
    body = {
        "error": PasswordHasExpired.error,
        "error_description": "the password must be changed first",
        "change_password_url": headers.pop("Location"),
    }
    return Reply.json(body, status=PasswordHasExpired.status, headers=headers)


def members(session: SessionView) -> dict[str, object]:
    """The session itself."""
    return {
        "username": session.username,
        "sub": session.subject,
        "groups": session.groups,
        "acr": session.acr,
        "amr": session.amr,
        "auth_time": session.auth_time // SECOND,
        "expires_at": session.expires_at // SECOND,
    }
