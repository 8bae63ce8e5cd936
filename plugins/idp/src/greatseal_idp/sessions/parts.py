"""Sign-in, sessions and sign-out, put together."""

from collections.abc import Sequence

from greatseal.api.clients import Clients
from greatseal.api.declarations import EventType, Job
from greatseal.api.http import AuthScheme, Route
from greatseal.host import Host
from greatseal_idp.directories import DirectoriesImpl
from greatseal_idp.pages.render import Pages
from greatseal_idp.rbac import Roles
from greatseal_idp.sessions.api import SessionApi
from greatseal_idp.sessions.backchannel import Backchannel
from greatseal_idp.sessions.login import LoginImpl
from greatseal_idp.sessions.logout import Logout
from greatseal_idp.sessions.schemes import OwnOrigin, PermissionScheme, SessionScheme
from greatseal_idp.sessions.store import SessionStore
from greatseal_idp.signing import Signing
from greatseal_idp.token.endings import Endings
from greatseal_idp.token.revoked import Revocations

EVENTS = (
    EventType("login_success", "idp", "Somebody signed in; sub is the user."),
    EventType("login_failure", "idp", "A sign-in failed; detail says why and from where. An unknown name is not written."),
    EventType("password_changed", "idp", "A person changed a password that had expired; sub is the user."),
    EventType("logout", "idp", "A session was ended by its holder, or by an application in their browser."),
    EventType("session_revoked", "idp", "A session was ended by somebody else than its holder."),
    EventType("rate_limited", "idp", "An address or a user name has tried too often; once for each window."),
    EventType("backchannel_logout_out", "idp", "A client was told of a logout, or could not be told."),
)

DELIVER_SECONDS = 15.0
SWEEP_SECONDS = 600.0
HOUR = 3600.0


class Sessions:
    """The parts of sign-in, put together."""

    def __init__(
        self,
        host: Host,
        *,
        directories: DirectoriesImpl,
        endings: Endings,
        revocations: Revocations,
        clients: Clients,
        signing: Signing,
        pages: Pages,
    ) -> None:
        self.backchannel = Backchannel(host, clients, signing)
        self.store = SessionStore(host, directories, endings, revocations, self.backchannel)
        self.login = LoginImpl(host, self.store, directories)
        self.roles = Roles(host, directories)
        self.origin = OwnOrigin(host)
        self._api = SessionApi(host, self.login, directories, self.roles, self.origin)
        self._logout = Logout(host, self.store, self.login, clients, signing, pages=pages)

    def schemes(self) -> Sequence[AuthScheme]:
        """The rules Session and Permission."""
        sessions = SessionScheme(self.store, self.origin)
        return [sessions, PermissionScheme(sessions, self.roles)]

    def routes(self) -> list[Route]:
        """The session API and the end session endpoint."""
        return [*self._api.routes(), *self._logout.routes()]

    def jobs(self) -> Sequence[Job]:
        """Retries of logout notifications, and the end of sessions and known places whose time is over."""
        return [
            Job(name="idp-backchannel", every=DELIVER_SECONDS, run=self.backchannel.deliver),
            Job(name="idp-places", every=HOUR, run=self.login.places.forget_old, jitter=60.0),
            Job(name="idp-sessions", every=SWEEP_SECONDS, run=self.store.sweep, jitter=60.0),
        ]
