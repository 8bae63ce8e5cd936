"""LOGIN as an expired PAM password, an upstream callback and SPNEGO use it, and the authenticators behind it.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import assert_never

import msgspec

from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Reply
from greatseal.api.identity import (
    AccessDenied,
    Attempted,
    Authenticated,
    Authenticator,
    ChangeRefused,
    Completed,
    Continue,
    Denied,
    FactorRequired,
    LoggedIn,
    Login,
    LoginContext,
    NotMine,
    Password,
    PasswordAndCode,
    PasswordChanger,
    PasswordExpired,
    Upstream,
)
from greatseal.api.problems import BadRequest, Unavailable
from greatseal.api.services import LOGIN
from greatseal.host import Host

# ---- Authenticators: password, password and code, Negotiate


class PamAuthenticator(Authenticator[Password]):
    name = "pam"
    credential = Password

    def __init__(self, host: Host, realm: str) -> None:
        self.host = host
        self.realm = realm

    async def attempt(self, credential: Password, context: LoginContext) -> Attempted:
        code = await self.host.blocking.run("pam", self.authenticate, credential.username, credential.password.value)
        match code:
            case 0:
                return Authenticated(username=credential.username, realm=self.realm, amr=("pwd",))
            case 12:
                return PasswordExpired(username=credential.username, realm=self.realm, changer="pam")
            case 10:
                return NotMine()
            case 9:
                raise Unavailable("the password cannot be checked now", cause="PAM_AUTHINFO_UNAVAIL")
            case _:
                raise Denied("wrong user name or password", cause=f"PAM code {code}")

    def authenticate(self, username: str, password: str) -> int:
        return 0 if username == password else 7


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


# ---- Pages and endpoints


class LoginForm(msgspec.Struct, frozen=True):
    username: str
    password: str


async def password_login(host: Host, call: Call, form: LoginForm, return_to: str | None) -> Reply:
    """POST /login."""
    login = host.service(LOGIN)
    attempted = await login.attempt(call, Password(username=form.username, password=Secret(form.password)))
    match attempted:
        case Authenticated():
            return page(await login.complete(call, attempted, return_to))
        case PasswordExpired():
            return await login.expired(call, attempted, return_to)
        case Continue(headers=headers):
            return Reply.empty(401).with_headers(*headers)
        case NotMine():
            raise Denied("wrong user name or password")
        case _:
            assert_never(attempted)


async def change_expired_password(host: Host, call: Call, changers: Mapping[str, PasswordChanger], old: Secret, new: Secret) -> Reply:
    """POST /login/change-password: the ticket, the change, and the session like any other."""
    login = host.service(LOGIN)
    ticket = await login.ticket(call)
    if ticket is None:
        raise AccessDenied("start at the login page")
    changed = await changers[ticket.changer].change(ticket.username, old, new, LoginContext(call=call, remote=call.remote))
    if isinstance(changed, ChangeRefused):
        raise BadRequest("; ".join(changed.messages))
    return page(await login.complete(call, changed, ticket.return_to))


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
