"""Authenticators, and who changes a password.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Awaitable, Callable

import msgspec

from greatseal.api.declarations import Secret
from greatseal.api.identity import (
    Attempted,
    Authenticated,
    Authenticator,
    ChangeRefused,
    Denied,
    LoginContext,
    Password,
    PasswordAndCode,
    PasswordChanger,
)
from greatseal.api.passwords import PasswordSetter
from greatseal.api.problems import Unavailable

# ---- Authenticators: password, password and code, Negotiate


class OtpAuthenticator(Authenticator[PasswordAndCode]):
    """The password is another authenticator's to prove, within the same attempt; ``use`` takes a code of the subject, once."""

    name = "otp"
    credential = PasswordAndCode

    def __init__(self, use: Callable[[str, Secret], Awaitable[bool]]) -> None:
        self.use = use

    async def attempt(self, credential: PasswordAndCode, context: LoginContext) -> Attempted:
        password = Password(username=credential.username, password=credential.password)
        first = await context.password(password)
        if not isinstance(first, Authenticated):
            return first
        if not await self.use(first.subject, credential.code):
            raise Denied("wrong user name or password")
        return msgspec.structs.replace(first, amr=(*first.amr, "otp", "mfa"))


class DirectorySetter(PasswordSetter):
    """Sets a password as the administrator of a directory, who may set those of some people alone."""

    name = "directory"

    def __init__(self, entries: dict[str, str], may_set: frozenset[str]) -> None:
        self.entries = entries
        self.may_set = may_set

    async def set(self, username: str, new: Secret) -> ChangeRefused | None:
        if username not in self.may_set:
            return ChangeRefused(messages=("ask an administrator for a new password",))
        if username not in self.entries:
            raise Unavailable("the directory does not answer")
        self.entries[username] = new.value
        return None


class LocalChanger(PasswordChanger):
    """Sets a password where nobody but this service has it, by a rule of its own."""

    name = "local"

    def __init__(self, passwords: dict[str, str], shortest: int) -> None:
        self.passwords = passwords
        self.shortest = shortest

    async def change(self, username: str, old: Secret, new: Secret, context: LoginContext) -> Authenticated | ChangeRefused:
        if self.passwords.get(username) != old.value:
            raise Denied("wrong user name or password")
        if len(new.value) < self.shortest:
            return ChangeRefused(messages=(f"the new password has {self.shortest} characters at least",))
        self.passwords[username] = new.value
        return Authenticated(username=username, realm="EXAMPLE", amr=("pwd",))
