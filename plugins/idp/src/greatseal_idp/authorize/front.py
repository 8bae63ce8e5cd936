"""All that a browser of a person meets, put together."""

from typing import Protocol

from greatseal.api.declarations import EventType, Job
from greatseal.api.directory import Directories
from greatseal.api.http import Route
from greatseal.host import Host
from greatseal_idp.authorize.consent import ConsentEndpoint
from greatseal_idp.authorize.endpoint import AuthorizeEndpoint
from greatseal_idp.authorize.par import ParEndpoint
from greatseal_idp.authorize.parts import Parts
from greatseal_idp.pages.account import AccountPage
from greatseal_idp.pages.change_password import ChangePasswordPage
from greatseal_idp.pages.errands import Errands
from greatseal_idp.pages.forms import Forms
from greatseal_idp.pages.login import LoginPages
from greatseal_idp.sessions.parts import Sessions
from greatseal_idp.sessions.return_to import default_return_to

SWEEP_SECONDS = 600.0

EVENTS = (
    EventType("consent_granted", "idp", "A person allowed a client what it asked for; detail is the scopes."),
    EventType("consent_withdrawn", "idp", "A person took back what a client was allowed; its refresh tokens of the person ended."),
    EventType("consent_denied", "idp", "A person did not allow a client what it asked for."),
)


class FrontParts(Parts, Protocol):
    """The parts that the pages need beside those of authorization."""

    @property
    def directories(self) -> Directories: ...
    @property
    def sessions(self) -> Sessions: ...


class Front:
    """Authorization with its pages."""

    def __init__(self, host: Host, provider: FrontParts) -> None:
        forms = Forms(host)
        authorize = AuthorizeEndpoint(host, provider)
        self._authorize = authorize
        self._par = ParEndpoint(provider, authorize)
        self._consent = ConsentEndpoint(provider, authorize, forms, provider.sessions.origin)
        errands = Errands(provider.clients, authorize, default=default_return_to(host.issuer))
        self._login = LoginPages(host, login=provider.login, pages=provider.pages, forms=forms, errands=errands)
        self._change = ChangePasswordPage(host, login=provider.sessions.login, pages=provider.pages, forms=forms, errands=errands)
        self._account = AccountPage(
            login=provider.login,
            directories=provider.directories,
            roles=provider.sessions.roles,
            clients=provider.clients,
            consents=authorize.consents,
            pages=provider.pages,
            forms=forms,
        )

    def routes(self) -> list[Route]:
        """Every route of a person's way."""
        parts = (self._authorize, self._par, self._consent, self._login, self._change, self._account)
        return [route for part in parts for route in part.routes()]

    def jobs(self) -> list[Job]:
        """What has to be done from time to time."""
        return [Job(name="idp-authorizations", every=SWEEP_SECONDS, run=self._authorize.waiting.sweep)]
