"""The hooks of kerberos_client_auth."""

from collections.abc import Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.clients import ClientAuthMethod
from greatseal.api.declarations import Check, CheckResult, EventType, Reads
from greatseal.api.kerberos import NotConfigured, Ready, Unusable
from greatseal.api.services import CLIENTS, NEGOTIATE, TOKENS
from greatseal.host import Host
from greatseal_client_auth_kerberos.methods import EVENT, KerberosClientAuth
from greatseal_client_auth_kerberos.settings import KerberosClients

NO_KEYTAB = "set [gssapi] keytab_file"


class Plugin:
    """A client authentication method, where `[ipa] gssapi` is true and the plugin gssapi can accept tickets."""

    requires = (CLIENTS, TOKENS)
    uses = (NEGOTIATE,)

    @hookimpl
    def settings(self) -> Sequence[Reads]:
        return [Reads("ipa", KerberosClients)]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType(EVENT, "idp", "A Kerberos client got tokens: sub is its principal, client_id its registration, detail the scopes.")
        ]

    @hookimpl
    def client_auth_methods(self, host: Host) -> Sequence[ClientAuthMethod[Any]]:
        negotiator = host.optional_service(NEGOTIATE)
        if negotiator is None or not host.settings(KerberosClients).gssapi:
            return []
        return [KerberosClientAuth(negotiator, lambda: host.service(TOKENS), host.log)]

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        async def run() -> CheckResult:
            return health(host)

        return [Check(name="kerberos-clients", run=run, ready=False)] if host.settings(KerberosClients).gssapi else []


def health(host: Host) -> CheckResult:
    """Whether clients can prove themselves by tickets now."""
    negotiator = host.optional_service(NEGOTIATE)
    state = NotConfigured() if negotiator is None else negotiator.state
    match state:
        case Ready():
            return CheckResult(ok=True, detail="clients may use kerberos_client_auth")
        case Unusable(reason=reason):
            return CheckResult(ok=False, detail="clients with kerberos_client_auth are refused: no ticket can be accepted", cause=reason)
        case NotConfigured():
            return CheckResult(ok=False, detail=f"clients with kerberos_client_auth are refused: no keytab is configured; {NO_KEYTAB}")
