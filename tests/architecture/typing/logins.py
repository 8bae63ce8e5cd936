"""LOGIN as an upstream callback and others use it, and the authenticators behind it.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import assert_never

import msgspec

from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Reply
from greatseal.api.identity import (
    Attempted,
    Authenticated,
    Authenticator,
    ChangeRefused,
    Completed,
    Denied,
    FactorRequired,
    LoggedIn,
    Login,
    LoginContext,
    Password,
    PasswordAndCode,
    PasswordChanger,
    PasswordExpired,
    Upstream,
)

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


# ---- Pages and endpoints


async def upstream_callback(login: Login, call: Call, upstream_id: str, claims: Mapping[str, str], local: str, return_to: str) -> Reply:
    """GET /internal/callback/{upstream_id}, after the ID token was verified and its subject mapped to a local user."""
    username, _, realm = local.rpartition("@")
    upstream = Upstream(id=upstream_id, subject=claims["sub"], session=claims.get("sid"))
    authenticated = Authenticated(username=username, realm=realm, amr=("fed",), acr=claims.get("acr"), upstream=upstream)
    return page(await login.complete(call, authenticated, return_to))


async def upstream_logout(login: Login, sessions: Sequence[str]) -> Reply:
    """POST /backchannel/logout/{upstream_id}: the plugin noted the ids of ``LoggedIn.session`` that came of this upstream session."""
    for id in sessions:
        await login.end(id)
    return Reply.empty(200)


def page(completed: Completed) -> Reply:
    match completed:
        case LoggedIn(return_to=return_to, headers=headers):
            return Reply(status=303, headers=(("Location", return_to), *headers))
        case FactorRequired(headers=headers):
            return Reply(status=303, headers=(("Location", "/ui/auth/login"), *headers))
        case PasswordExpired():
            return Reply(status=303, headers=(("Location", "/login/change-password"),))
        case _:
            assert_never(completed)
