"""A password with a one-time code behind it, as FreeIPA's directory checks it: both at once, by a bind (ipa-pwd-extop/prepost.c)."""

from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.identity import Attempted, Authenticator, LoginContext, NotMine, PasswordAndCode
from greatseal.host import Clock
from greatseal_ipa.ldap3_link import CODE_REQUIRED
from greatseal_ipa.library import EXPIRED, MUST_CHANGE, Link, Outcome, Query, Scope
from greatseal_ipa.proofs import expired, proven, require_right, require_sendable
from greatseal_ipa.reader import Person, Reader
from greatseal_ipa.recent import Recent
from greatseal_ipa.schema import SOURCE

KNOWN_SECONDS = 60.0
"""How long it is remembered whether the servers check codes."""
AMR = ("pwd", "otp", "mfa")


class BindWithCode:
    """For people who have ``otp`` among their authentication types, where the server says that it knows the control."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._known: Recent[bool] = Recent(KNOWN_SECONDS, clock.monotonic, most=1)

    async def serves(self, user: User) -> bool:
        """Whether codes of this person are checked so. Raises DirectoryUnavailable."""
        return user.source == SOURCE and "otp" in user.authentication_types and await self._known.get("", self._ask)

    async def prove(self, person: Person, both: Secret) -> Attempted:
        """``both`` is the password with the code behind it, and sendable. Raises Denied and DirectoryUnavailable."""
        outcome = await self._reader.pool.as_other(lambda link: link.bind(person.dn, both.value, with_code=True), _itself)
        # Whatever else it answers, it is not asked again without the code.
        require_right(outcome)
        if outcome.policy in {EXPIRED, MUST_CHANGE}:
            return expired(person)
        return await proven(self._reader, person, AMR)

    async def _ask(self) -> bool:
        found = await self._reader.ask(Query(base="", attributes=("supportedControl",), scope=Scope.BASE, limit=1))
        return any(CODE_REQUIRED in entry.texts("supportedControl") for entry in found.entries)


class IpaPasswordAndCode(Authenticator[PasswordAndCode]):
    """One bind for both factors, so that the directory counts a wrong one once."""

    name = f"{SOURCE}-code"
    credential = PasswordAndCode

    def __init__(self, reader: Reader, together: BindWithCode) -> None:
        self._reader = reader
        self._together = together

    async def attempt(self, credential: PasswordAndCode, context: LoginContext) -> Attempted:  # noqa: ARG002  # the contract's parameter
        person = await self._reader.named(credential.username)
        if person is None or not await self._together.serves(person.user):
            return NotMine()
        require_sendable(credential.password)
        require_sendable(credential.code)
        return await self._together.prove(person, Secret(credential.password.value + credential.code.value))


def _itself(_link: Link, outcome: Outcome) -> Outcome:
    return outcome
