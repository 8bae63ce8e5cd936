"""The hooks of sign-in by ticket."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from greatseal import hookimpl
from greatseal.api.declarations import Owns
from greatseal.api.identity import Authenticator, LoginContext, LoginOption, LoginOptions
from greatseal.api.kerberos import Negotiator, NotConfigured, Ready
from greatseal.api.languages import Catalogue
from greatseal.api.services import DIRECTORIES, NEGOTIATE
from greatseal.host import Host
from greatseal_spnego.authenticator import ASKED, Spnego
from greatseal_spnego.settings import SpnegoSettings

PAGE = "/ui/auth/login"


class Button(LoginOptions):
    """Leads to the sign-in page again, which asks the browser for a ticket then: one that has none would show a dialog to everybody."""

    name = "spnego"

    def __init__(self, host: Host, negotiator: Negotiator) -> None:
        self._host = host
        self._negotiator = negotiator

    async def options(self, context: LoginContext) -> Sequence[LoginOption]:
        if not isinstance(self._negotiator.state, Ready):
            return []
        query = urlencode({ASKED: "1", **({"return_to": context.return_to} if context.return_to else {})})
        return [LoginOption(id="kerberos", display_name="Sign in with Kerberos", url=f"{self._host.issuer}{PAGE}?{query}")]


class Plugin:
    """Without a feature that accepts tickets it contributes nothing."""

    requires = (DIRECTORIES,)
    uses = (NEGOTIATE,)

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("spnego", SpnegoSettings)]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_spnego")]

    @hookimpl
    def authenticators(self, host: Host) -> Sequence[Authenticator[Any]]:
        negotiator = acceptor(host)
        return [Spnego(host, host.settings(SpnegoSettings), negotiator, host.service(DIRECTORIES))] if negotiator else []

    @hookimpl
    def login_options(self, host: Host) -> Sequence[LoginOptions]:
        negotiator = acceptor(host)
        return [Button(host, negotiator)] if negotiator else []

    @hookimpl
    def notes(self, host: Host) -> Sequence[str]:
        if acceptor(host) is not None:
            return []
        return ["spnego signs nobody in: no feature accepts Kerberos tickets; install greatseal-gssapi, enable gssapi, configure [gssapi]"]


def acceptor(host: Host) -> Negotiator | None:
    """Who accepts tickets; None where nobody is configured to."""
    negotiator = host.optional_service(NEGOTIATE)
    return None if negotiator is None or isinstance(negotiator.state, NotConfigured) else negotiator
