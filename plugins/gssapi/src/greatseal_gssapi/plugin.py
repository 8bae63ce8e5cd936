"""The hooks of Kerberos."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from greatseal import hookimpl
from greatseal.api.declarations import Check, CheckResult, Owns
from greatseal.api.services import NEGOTIATE, TICKETS, ServiceKey
from greatseal.host import Host
from greatseal_gssapi.keytab_file import unfit, version_of
from greatseal_gssapi.settings import Directory, GssapiSettings, problems

if TYPE_CHECKING:
    from greatseal_gssapi.credential import AcceptorCredential
    from greatseal_gssapi.tickets import KerberosTickets

SECTION = "gssapi"
GSSPROXY = "GSS_USE_PROXY"
"""What makes libgssapi ask gssproxy, in the environment before its first call."""


class Plugin:
    """Accepts tickets and gets them; without `[gssapi]` it says that nothing is configured."""

    def __init__(self) -> None:
        self._credential: AcceptorCredential | None = None
        self._tickets: KerberosTickets | None = None

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns(SECTION, GssapiSettings), Owns("ipa", Directory)]

    @hookimpl
    def services(self, host: Host) -> Mapping[ServiceKey[Any], Callable[[], object]]:
        def acceptor() -> object:
            from greatseal_gssapi.acceptor import Acceptor

            return Acceptor(host, host.settings(GssapiSettings), self.credential(host))

        return {NEGOTIATE: acceptor, TICKETS: lambda: self.tickets(host)}

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        return problems(host.settings(GssapiSettings)) if host.section_present(SECTION) else []

    @hookimpl
    def notes(self, host: Host) -> Sequence[str]:
        keytab = host.settings(GssapiSettings).keytab_file
        problem = None if keytab is None else unfit(keytab, version_of(keytab))
        return [] if problem is None else [f"Kerberos tickets are not accepted as long as this is so: {problem}"]

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        credential = self.credential(host)
        if credential is None:

            async def nothing() -> CheckResult:
                return CheckResult(ok=True, detail="[gssapi] is not configured")

            return [Check(name="kerberos keytab", run=nothing, ready=False)]
        from greatseal_gssapi.doctor import Doctor

        return Doctor(host, host.settings(GssapiSettings), credential, self.tickets(host)).checks()

    def credential(self, host: Host) -> "AcceptorCredential | None":
        """Made when the first needs it; None without `[gssapi]`."""
        settings = host.settings(GssapiSettings)
        if self._credential is None and (settings.keytab_file is not None or settings.gssproxy):
            if settings.gssproxy:
                os.environ[GSSPROXY] = "yes"
            from greatseal_gssapi.credential import AcceptorCredential

            self._credential = AcceptorCredential(settings, host.clock.monotonic)
        return self._credential

    def tickets(self, host: Host) -> "KerberosTickets":
        """Made when the first needs it."""
        if self._tickets is None:
            credential = self.credential(host)
            from greatseal_gssapi.tickets import KerberosTickets

            self._tickets = KerberosTickets(host, host.settings(GssapiSettings), credential)
        return self._tickets
