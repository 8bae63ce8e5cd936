"""What a bind as a person proves, and what their entry says against it."""

from greatseal.api.declarations import Secret
from greatseal.api.directory import DirectoryUnavailable
from greatseal.api.identity import Authenticated, Denied, PasswordExpired
from greatseal.api.messages import Message
from greatseal_ipa.library import INVALID_CREDENTIALS, UNWILLING, Outcome
from greatseal_ipa.reader import Person, Reader
from greatseal_ipa.schema import SOURCE

INAPPROPRIATE_AUTHENTICATION = 48
CONSTRAINT_VIOLATION = 19
NO_SUCH_OBJECT = 32
WRONG = frozenset({INVALID_CREDENTIALS, UNWILLING, INAPPROPRIATE_AUTHENTICATION, CONSTRAINT_VIOLATION, NO_SUCH_OBJECT})
"""Codes of a bind that say something of the account or the password; every other one is about the server."""
PLAIN = "the name or the password is wrong"


async def proven(reader: Reader, person: Person, amr: tuple[str, ...]) -> Authenticated | PasswordExpired:
    """What was typed is right. What the entry says against it may be some seconds old, so it is read again then."""
    state = person.user.state
    if state.disabled or state.locked or state.expired or state.password_expired:
        again = await reader.person(person.user.username, fresh=True)
        if again is None:
            raise Denied("the account is not there any more")
        person, state = again, again.user.state
    if state.password_expired and not (state.disabled or state.locked or state.expired):
        return expired(person)
    user = person.user
    return Authenticated(username=user.username, realm=user.realm, amr=amr, password_changed_at=user.password_changed_at)


def expired(person: Person) -> PasswordExpired:
    """The password is right, and must be changed first."""
    return PasswordExpired(username=person.user.username, realm=person.user.realm, changer=SOURCE)


def require_sendable(password: Secret) -> None:
    """Raises Denied for an empty password, with which a bind proves nothing (RFC 4513 s5.1.2), and for one that some servers cut."""
    if not password.value or "\0" in password.value:
        raise Denied(PLAIN)


def require_right(outcome: Outcome) -> None:
    """Raises Denied unless the bind succeeded, and DirectoryUnavailable where the server did not even look at the password."""
    if outcome.ok:
        return
    if outcome.code not in WRONG:
        said = f"a bind as a user gave {outcome.code}: {outcome.message}"
        raise DirectoryUnavailable(Message("the directory cannot check passwords now"), cause=said)
    raise Denied(f"the bind gave {outcome.code}: {outcome.message}")
