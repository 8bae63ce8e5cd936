"""Sign-in by name and password: the directory or the KDC says whether it is right, the entry whether the account may be used."""

from typing import Literal

from greatseal.api.declarations import Secret
from greatseal.api.directory import DirectoryUnavailable
from greatseal.api.identity import (
    Attempted,
    Authenticated,
    Authenticator,
    ChangeRefused,
    Denied,
    LoginContext,
    NotMine,
    Password,
    PasswordChanger,
    PasswordExpired,
)
from greatseal.api.kerberos import PasswordVerdict, Tickets
from greatseal_ipa.library import INVALID_CREDENTIALS, MUST_CHANGE, UNWILLING, Change, Link, Outcome
from greatseal_ipa.reader import Person, Reader
from greatseal_ipa.schema import SOURCE

INAPPROPRIATE_AUTHENTICATION = 48
CONSTRAINT_VIOLATION = 19
NO_SUCH_OBJECT = 32
WRONG = frozenset({INVALID_CREDENTIALS, UNWILLING, INAPPROPRIATE_AUTHENTICATION, CONSTRAINT_VIOLATION, NO_SUCH_OBJECT})
"""Codes of a bind that say something of the account or the password; every other one is about the server."""
MOST_WORDS = 300
"""Characters of what a server's policy says to a person."""
UNTOLD = "the directory refused the new password: it is too short, too simple, was used before, or the last change is too recent"
"""Where the server has numbers for it, and no words."""
PLAIN = "the name or the password is wrong"


class IpaPassword(Authenticator[Password]):
    """People of the directory.

    ``kinit`` asks the KDC. An expired password is proven by a bind even then: most KDCs say that it has expired before they look at it.
    """

    name = SOURCE
    credential = Password

    def __init__(self, reader: Reader, how: Literal["bind", "kinit"], tickets: Tickets | None) -> None:
        self._reader = reader
        self._tickets = tickets if how == "kinit" else None

    async def attempt(self, credential: Password, context: LoginContext) -> Attempted:  # noqa: ARG002  # the contract's parameter
        person = await self._reader.named(credential.username)
        if person is None:
            return NotMine()
        require_sendable(credential.password)
        if self._tickets is None:
            return await self._by_bind(person, credential.password)
        return await self._by_kinit(self._tickets, person, credential.password)

    async def _by_bind(self, person: Person, password: Secret) -> Attempted:
        outcome = await self._reader.pool.as_user(person.dn, password.value, _itself)
        if self._proves_expired(outcome) or (outcome.ok and outcome.policy == MUST_CHANGE):
            return _expired(person)
        require_right(outcome)
        return await self._proven(person)

    async def _by_kinit(self, tickets: Tickets, person: Person, password: Secret) -> Attempted:
        verdict = await tickets.password(person.principal, password)
        if verdict is PasswordVerdict.RIGHT:
            return await self._proven(person)
        if verdict is PasswordVerdict.EXPIRED:
            outcome = await self._reader.pool.as_user(person.dn, password.value, _itself)
            if outcome.ok or self._proves_expired(outcome):
                return _expired(person)
            require_right(outcome)
        raise Denied(f"the KDC says of the password of {person.principal}: {verdict.value}")

    def _proves_expired(self, outcome: Outcome) -> bool:
        return not outcome.ok and self._reader.schema.refused_as(outcome.code, outcome.message, outcome.policy) == "expired"

    async def _proven(self, person: Person) -> Authenticated | PasswordExpired:
        """The password is right. What the entry says against it may be some seconds old, so it is read again then."""
        state = person.user.state
        if state.disabled or state.locked or state.expired or state.password_expired:
            again = await self._reader.person(person.user.username, fresh=True)
            if again is None:
                raise Denied("the account is not there any more")
            person, state = again, again.user.state
        if state.password_expired and not (state.disabled or state.locked or state.expired):
            return _expired(person)
        user = person.user
        return Authenticated(username=user.username, realm=user.realm, amr=("pwd",), password_changed_at=user.password_changed_at)


class IpaChanger(PasswordChanger):
    """Changes an expired password as the person who has it (RFC 3062); the server's policy decides about the new one."""

    name = SOURCE

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def change(self, username: str, old: Secret, new: Secret, context: LoginContext) -> Authenticated | ChangeRefused:  # noqa: ARG002  # the contract's parameter
        person = await self._reader.named(username)
        if person is None:
            raise Denied("nobody has this name")
        require_sendable(old)
        if not new.value or "\0" in new.value:
            return ChangeRefused(messages=("enter a new password",))
        if self._reader.schema.password_attribute is not None:
            outcome: Outcome | None = await self._by_value(person, old, new)
        else:
            outcome = await self._by_bind(person, old, new)
        self._reader.forget(username)
        self._reader.forget(person.user.username)
        if outcome is None:
            return ChangeRefused(messages=("the directory accepts no change of a password that has expired; ask an administrator",))
        if outcome.code == INVALID_CREDENTIALS:
            raise Denied("the old password is wrong")
        if not outcome.ok:
            return ChangeRefused(messages=(_words(outcome, old, new) if self._reader.schema.password_attribute is None else UNTOLD,))
        return Authenticated(username=person.user.username, realm=person.user.realm, amr=("pwd",))

    async def _by_bind(self, person: Person, old: Secret, new: Secret) -> Outcome | None:
        """As the person (RFC 3062). None where the server lets nobody in with an expired password, not even to change it."""
        schema = self._reader.schema

        def change_it(link: Link, bound: Outcome) -> Outcome | None:
            if bound.ok:
                return link.change_password(person.dn, old.value, new.value)
            if schema.refused_as(bound.code, bound.message, bound.policy) == "expired":
                return None
            require_right(bound)
            return bound

        return await self._reader.pool.as_user(person.dn, old.value, change_it)

    async def _by_value(self, person: Person, old: Secret, new: Secret) -> Outcome:
        """As whoever knows the old password, on a connection of the service: nobody can bind with one that must be changed.

        The server takes the old value away only where it is that of the account. It is asked first whether it is, by a bind, so that a
        wrong one is told from a new one that its policy refuses.
        """
        schema = self._reader.schema
        attribute = schema.password_attribute or ""
        bound = await self._reader.pool.as_user(person.dn, old.value, _itself)
        if schema.refused_as(bound.code, bound.message, bound.policy) != "expired":
            require_right(bound)
        changes = [
            Change("delete", attribute, [schema.password_value(old.value)]),
            Change("add", attribute, [schema.password_value(new.value)]),
        ]
        return await self._reader.pool.as_itself(lambda link: link.modify(person.dn, changes))


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
        raise DirectoryUnavailable("the directory cannot check passwords now", cause=said)
    raise Denied(f"the bind gave {outcome.code}: {outcome.message}")


def _itself(_link: Link, outcome: Outcome) -> Outcome:
    return outcome


def _expired(person: Person) -> PasswordExpired:
    return PasswordExpired(username=person.user.username, realm=person.user.realm, changer=SOURCE)


def _words(outcome: Outcome, *secrets: Secret) -> str:
    """What the server's policy says, without anything that should not be on a page."""
    said = "".join(character for character in outcome.message if character.isprintable())[:MOST_WORDS].strip()
    if not said or any(secret.value in said for secret in secrets):
        return "the directory refused the new password"
    return f"the directory refused the new password: {said}"
