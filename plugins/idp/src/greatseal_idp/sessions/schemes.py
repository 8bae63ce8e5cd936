"""The rules Session and Permission, and what keeps other sites from using the cookie."""

from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import quote, urlsplit

from greatseal.api.http import AuthScheme, Call, Permission, Rule, Session
from greatseal.api.identity import SessionCaller
from greatseal.api.messages import Message
from greatseal.api.problems import Forbidden, Unauthenticated
from greatseal.host import Host
from greatseal.http.csrf import FORM, refuse_foreign
from greatseal_idp.pages.return_to import ACCOUNT, STEP_UP
from greatseal_idp.rbac import Roles, grants
from greatseal_idp.sessions.ladder import Ladder
from greatseal_idp.sessions.store import SessionStore
from greatseal_idp.settings import Rbac

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class InsufficientUserAuthentication(Unauthenticated):
    """The sign-in is not strong enough for what is asked (RFC 9470 s3)."""

    error = "insufficient_user_authentication"

    def __init__(self, wanted: Sequence[str], step_up_url: str) -> None:
        words = "a stronger sign-in is needed (RFC 9470 s3): open step_up_url in a browser, or sign in again with more than a password"
        challenge = f'Bearer error="{self.error}", error_description="a stronger sign-in is needed", acr_values="{" ".join(wanted)}"'
        members = {"acr_values": wanted, "step_up_url": step_up_url}
        super().__init__(words, headers={"WWW-Authenticate": challenge}, members=members)


class OwnOrigin:
    """Whether a call came from a page of ours."""

    def __init__(self, host: Host) -> None:
        self._own = frozenset(f"{url.scheme}://{url.netloc}" for url in (urlsplit(host.issuer), urlsplit(host.base_url)))

    def check(self, call: Call) -> None:
        """Raises ForeignOrigin for a call that changes something and is not of our own origin.

        A body must be JSON. A form counts only on a route that takes forms: its handler checks the form's token.
        """
        if call.method in SAFE:
            return
        media_type = call.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        refuse_foreign(
            origin=call.headers.get("Origin"),
            fetch_site=call.headers.get("Sec-Fetch-Site"),
            own_origins=self._own,
            content_type=media_type if call.has_body else None,
            form_token_valid=FORM in call.route.content_types,
        )


class SessionScheme(AuthScheme):
    """A signed-in person. No challenge in the 401: browsers would pop up a dialog."""

    rule: ClassVar[type[Rule]] = Session

    def __init__(self, store: SessionStore, origin: OwnOrigin) -> None:
        self._store = store
        self._origin = origin

    async def authenticate(self, call: Call) -> SessionCaller:
        rule = call.route.auth
        leaving = isinstance(rule, Session) and rule.leaving
        session = await (self._store.of(call) if leaving else self._store.usable(call))
        if session is None:
            raise Unauthenticated(Message("there is no session; sign in first"))
        self._origin.check(call)
        return SessionCaller(subject=session.view.subject, session=session.view)


class PermissionScheme(AuthScheme):
    """A signed-in person with a role that grants the route's permission."""

    rule: ClassVar[type[Rule]] = Permission

    def __init__(self, host: Host, sessions: SessionScheme, roles: Roles, ladder: Ladder) -> None:
        self._sessions = sessions
        self._roles = roles
        self._ladder = ladder
        self._wanted = host.settings(Rbac).admin_acr_values
        self._step_up = f"{host.issuer}{STEP_UP}?return_to="
        self._back = quote(f"{urlsplit(host.issuer).path}{ACCOUNT}", safe="")

    async def authenticate(self, call: Call) -> SessionCaller:
        caller = await self._sessions.authenticate(call)
        rule = call.route.auth
        assert isinstance(rule, Permission)  # the kernel gives this scheme no other
        if not grants(await self._roles.of(caller.session), rule.name):
            raise Forbidden(Message("no role of yours grants this"), members={"required_permission": rule.name})
        if self._wanted and self._ladder.met(caller.session.acr, self._wanted) is None:
            raise InsufficientUserAuthentication(self._wanted, self._step_up + self._back)
        return caller
