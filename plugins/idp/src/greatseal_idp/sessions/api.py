"""The session API of pages and programs: JSON under /api/auth."""

from urllib.parse import urlsplit

import msgspec

from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Reply, Route, Session
from greatseal.api.identity import (
    Authenticated,
    Authenticator,
    Continue,
    Credential,
    Denied,
    LoginContext,
    LoginOptions,
    NegotiateHeader,
    NotMine,
    Password,
    PasswordAndCode,
    PasswordChanger,
    PasswordExpired,
    SessionCaller,
)
from greatseal.api.problems import BadRequest
from greatseal.host import Host
from greatseal_idp.directories import DirectoriesImpl
from greatseal_idp.rbac import Roles
from greatseal_idp.sessions.answers import members
from greatseal_idp.sessions.login import WRONG, WRONG_WITH_CODE, LoginImpl, bounded
from greatseal_idp.sessions.options import link_options
from greatseal_idp.sessions.schemes import OwnOrigin
from greatseal_idp.settings import WebUi

FEATURES = ("passkey", "federation", "device_flow", "registration", "spiffe", "token_authority")
"""Members of ``features`` at /api/auth/info that are false unless a plugin says otherwise."""
PROFILE = ("display_name", "given_name", "family_name", "email", "email_verified", "phone", "uid_number", "gid_number", "source")


class Credentials(msgspec.Struct, frozen=True):
    """The body of a sign-in."""

    username: str
    password: str
    return_to: str | None = None


class CodeCredentials(Credentials, frozen=True, kw_only=True):
    """The body of a sign-in with a one-time code."""

    otp_code: str
    remember: bool = False


class SessionApi:
    """Sign-in, sign-out, and what a session is."""

    def __init__(self, host: Host, login: LoginImpl, directories: DirectoriesImpl, roles: Roles, origin: OwnOrigin) -> None:
        self._host = host
        self._login = login
        self._directories = directories
        self._roles = roles
        self._origin = origin
        self._realm = host.realm

    def routes(self) -> list[Route]:
        by_code = Route("POST", "/api/auth/otp", self.login_with_code, summary="Sign in with name, password and one-time code.")
        return [
            Route("POST", "/api/auth/login", self.login, summary="Sign in with name and password; sets the session cookie."),
            *((by_code,) if PasswordAndCode in self._credentials() else ()),
            Route("POST", "/api/auth/logout", self.logout, auth=Session(leaving=True), summary="End the session and tell its clients."),
            Route("GET", "/api/auth/me", self.me, auth=Session(), summary="Who is signed in, and what they may do."),
            Route("GET", "/api/auth/profile", self.profile, auth=Session(), summary="The person as their directory knows them."),
            Route("GET", "/api/auth/info", self.info, summary="Issuer, realm, features and look of this service."),
            Route("GET", "/api/auth/providers", self.providers, summary="Other identity providers to sign in with."),
            Route("GET", "/api/auth/federated-hint", self.federated_hint, summary="The provider that a user has to take."),
        ]

    async def login(self, call: Call) -> Reply:
        self._origin.check(call)
        given = await call.body(Credentials)
        return await self._sign_in(call, Password(username=given.username, password=Secret(given.password)), given.return_to)

    async def login_with_code(self, call: Call) -> Reply:
        self._origin.check(call)
        given = await call.body(CodeCredentials)
        code = Secret("".join(given.otp_code.split()))
        credential = PasswordAndCode(username=given.username, password=Secret(given.password), code=code, remember=given.remember)
        return await self._sign_in(call, credential, given.return_to)

    async def logout(self, call: Call) -> Reply:
        session = call.caller_as(SessionCaller).session
        await self._login.end_as(session.id, event_type="logout")
        return Reply.empty().with_headers(self._login.cleared())

    async def me(self, call: Call) -> Reply:
        session = call.caller_as(SessionCaller).session
        return Reply.json({**members(session), "permissions": await self._roles.of(session)})

    async def profile(self, call: Call) -> Reply:
        session = call.caller_as(SessionCaller).session
        user = await self._directories.account(session.subject, auth_time=session.auth_time)
        groups = session.groups if user is None else user.groups
        return Reply.json({"username": session.username, **{name: getattr(user, name, None) for name in PROFILE}, "groups": groups})

    async def info(self, _call: Call) -> Reply:
        credentials = self._credentials()
        features = {
            **dict.fromkeys(FEATURES, False),
            **self._host.discovery("features"),
            "password": Password in credentials,
            "otp": PasswordAndCode in credentials,
            "kerberos": NegotiateHeader in credentials,
            "change_password": bool(self._host.components(PasswordChanger)),
        }
        look = self._host.settings(WebUi)
        optional = {"logo_url": look.logo_url, "default_theme": look.default_theme}
        return Reply.json(
            {
                "issuer": self._host.issuer,
                "realm": self._realm,
                "display_name": look.display_name or urlsplit(self._host.issuer).hostname or self._host.issuer,
                "features": features,
                **{name: value for name, value in optional.items() if value is not None},
            }
        )

    async def providers(self, call: Call) -> Reply:
        asked = call.query.get("return_to")
        return_to = None if asked is None else self._login.return_to(asked)
        context = LoginContext(call=call, remote=call.remote, return_to=return_to)
        found = await link_options(self._host, context)
        shown = ({"id": one.id, "display_name": one.display_name, "login_url": one.url, "source": one.source} for one in found)
        return Reply.json(list(shown))

    async def federated_hint(self, call: Call) -> Reply:
        username = call.query.get("username")
        if username is None:
            raise BadRequest("the query parameter username is missing")
        await self._login.limits.hint(call.remote)
        username = bounded(username)
        # Everybody is asked, whoever answered: the time must not tell.
        hints = [await options.hint(username) for options in self._host.components(LoginOptions).values()]
        return Reply.json({"upstream_id": next((hint for hint in hints if hint is not None), None)})

    def _credentials(self) -> set[type[Credential]]:
        """By what people can prove themselves here."""
        return {authenticator.credential for authenticator in self._host.components(Authenticator).values()}

    async def _sign_in(self, call: Call, credential: Password | PasswordAndCode, return_to: str | None) -> Reply:
        attempted = await self._login.attempt(call, credential)
        match attempted:
            case Authenticated():
                completed = await self._login.complete(call, attempted, return_to)
            case PasswordExpired():
                completed = attempted
            case NotMine() | Continue():
                raise Denied(WRONG if isinstance(credential, Password) else WRONG_WITH_CODE)
        return await self._login.answer(call, completed, return_to)
