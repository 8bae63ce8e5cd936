"""Sign-in by name and password: the directory or the KDC says whether it is right, the entry whether the account may be used."""

from typing import Literal

from greatseal.api.declarations import Secret
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
)
from greatseal.api.kerberos import PasswordVerdict, Tickets
from greatseal.api.messages import Message
from greatseal_ipa.bind_with_code import BindWithCode
from greatseal_ipa.library import EXPIRED, INVALID_CREDENTIALS, MUST_CHANGE, Change, Link, Outcome
from greatseal_ipa.proofs import expired, proven, require_right, require_sendable
from greatseal_ipa.reader import Person, Reader
from greatseal_ipa.schema import SOURCE

AMR = ("pwd",)
ALONE = {"bind": frozenset({"password"}), "kinit": frozenset({"password", "hardened"})}
"""The authentication types of FreeIPA with one of which the password alone can be right."""
MOST_WORDS = 300
"""Characters of what a server's policy says to a person."""
UNTOLD = Message("the directory refused the new password: it is too short, too simple, was used before, or the last change is too recent")
"""Where the server has numbers for it, and no words."""


class IpaPassword(Authenticator[Password]):
    """People of the directory.

    ``kinit`` asks the KDC. An expired password is proven by a bind even then: most KDCs say that it has expired before they look at it.
    Of people whose password FreeIPA does not take without a code, the code is typed behind it, as everywhere with FreeIPA.
    """

    name = SOURCE
    credential = Password

    def __init__(
        self, reader: Reader, how: Literal["bind", "kinit"], tickets: Tickets | None, together: BindWithCode | None = None
    ) -> None:
        self._reader = reader
        self._tickets = tickets if how == "kinit" else None
        self._together = together
        self._alone = ALONE[how]

    async def attempt(self, credential: Password, context: LoginContext) -> Attempted:  # noqa: ARG002  # the contract's parameter
        person = await self._reader.named(credential.username)
        if person is None:
            return NotMine()
        require_sendable(credential.password)
        together = self._together
        if together is not None and self._alone.isdisjoint(person.user.authentication_types) and await together.serves(person.user):
            return await together.prove(person, credential.password)
        if self._tickets is None:
            return await self._by_bind(person, credential.password)
        return await self._by_kinit(self._tickets, person, credential.password)

    async def _by_bind(self, person: Person, password: Secret) -> Attempted:
        outcome = await self._reader.pool.as_user(person.dn, password.value, _itself)
        if self._proves_expired(outcome) or (outcome.ok and outcome.policy in {EXPIRED, MUST_CHANGE}):
            return expired(person)
        require_right(outcome)
        return await proven(self._reader, person, AMR)

    async def _by_kinit(self, tickets: Tickets, person: Person, password: Secret) -> Attempted:
        verdict = await tickets.password(person.principal, password)
        if verdict is PasswordVerdict.RIGHT:
            return await proven(self._reader, person, AMR)
        if verdict is PasswordVerdict.EXPIRED:
            outcome = await self._reader.pool.as_user(person.dn, password.value, _itself)
            if outcome.ok or self._proves_expired(outcome):
                return expired(person)
            require_right(outcome)
        raise Denied(f"the KDC says of the password of {person.principal}: {verdict.value}")

    def _proves_expired(self, outcome: Outcome) -> bool:
        return self._reader.schema.refused_as(outcome.code, outcome.message, outcome.policy) == "expired"


class IpaChanger(PasswordChanger):
    """Changes a password as the person who has it (RFC 3062); the server's policy decides about the new one."""

    name = SOURCE
    anytime = True

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def change(self, username: str, old: Secret, new: Secret, context: LoginContext) -> Authenticated | ChangeRefused:  # noqa: ARG002  # the contract's parameter
        person = await self._reader.named(username)
        if person is None:
            raise Denied("nobody has this name")
        require_sendable(old)
        if not new.value or "\0" in new.value:
            return ChangeRefused(messages=(Message("enter a new password"),))
        if self._reader.schema.password_attribute is not None:
            outcome: Outcome | None = await self._by_value(person, old, new)
        else:
            outcome = await self._by_bind(person, old, new)
        self._reader.forget(username)
        self._reader.forget(person.user.username)
        if outcome is None:
            return ChangeRefused(
                messages=(Message("the directory accepts no change of a password that has expired; ask an administrator"),)
            )
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


def _itself(_link: Link, outcome: Outcome) -> Outcome:
    return outcome


def _words(outcome: Outcome, *secrets: Secret) -> Message:
    """What the server's policy says, without anything that should not be on a page."""
    said = "".join(character for character in outcome.message if character.isprintable())[:MOST_WORDS].strip()
    if not said or any(secret.value in said for secret in secrets):
        return Message("the directory refused the new password")
    return Message("the directory refused the new password: %(reason)s", {"reason": said})
