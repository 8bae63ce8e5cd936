"""External account binding: only clients that the operator knows get an account."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from greatseal import hookimpl
from greatseal.api.acme import AccountBinding
from greatseal.api.declarations import Check, CheckResult, EventType, Lifespan, Owns, Reads, Schema, Statistic
from greatseal.api.http import Route
from greatseal.api.services import EABKEYS, NEGOTIATE, ServiceKey
from greatseal.attempts import TicketLimits
from greatseal.host import Host
from greatseal_eab.binding import ExternalAccountBinding
from greatseal_eab.keys import EabKeys
from greatseal_eab.principals import EabOfPrincipals, health
from greatseal_eab.proofs import Proofs
from greatseal_eab.routes import EabAdmin
from greatseal_eab.settings import AttemptLimit, EabProxy, EabServer, Proxies, canonical_key, proxy_problems
from greatseal_eab.tables import SCHEMA


class Plugin:
    """Keys by configuration, by the admin API and for Kerberos principals, each good for one account."""

    uses = (NEGOTIATE,)

    def __init__(self) -> None:
        self._keys: EabKeys | None = None

    def keys(self, host: Host) -> EabKeys:
        """The keys, made when the first hook needs them."""
        if self._keys is None:
            settings = host.settings(EabServer)
            configured = {kid: canonical_key(key.value) for kid, key in settings.eab_keys.items()}
            self._keys = EabKeys(host, configured, settings.master_secret)
        return self._keys

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("server", EabServer), Owns("eab", EabProxy), Reads("server", Proxies), Reads("server", AttemptLimit)]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("eab.create", "ca", "An EAB key was stored; the subject is its kid, the principal who did it."),
            EventType("eab.delete", "ca", "An EAB key was deleted; the principal is who did it."),
            EventType(
                "eab.obtain",
                "ca",
                "A Kerberos principal asked for its credentials; the subject is their kid, a failure that they were used.",
            ),
            EventType("eab.use", "ca", "A new account was bound to an EAB key."),
            EventType("eab.reject", "ca", "The MAC of a binding is not by the EAB key of its kid."),
        ]

    @hookimpl
    def account_bindings(self, host: Host) -> Sequence[AccountBinding]:
        return [ExternalAccountBinding(self.keys(host), required=host.settings(EabServer).external_account_required)]

    @hookimpl
    def services(self, host: Host) -> Mapping[ServiceKey[Any], Callable[[], object]]:
        return {EABKEYS: lambda: Proofs(self.keys(host))}

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        header, negotiator = host.settings(EabProxy).identity_header, host.optional_service(NEGOTIATE)
        limits = TicketLimits(host.limits, "eab", host.settings(AttemptLimit).auth_rate_limit)
        of_principals = EabOfPrincipals(host, self.keys(host), negotiator, header, limits)
        return [*EabAdmin(host, self.keys(host)).routes(), *of_principals.routes()]

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        header, proxies = host.settings(EabProxy).identity_header, host.settings(Proxies).trusted_proxies
        return proxy_problems(header, proxies, gssapi=host.section_present("gssapi"))

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        async def run() -> CheckResult:
            return health(host, derives=self.keys(host).derives)

        return [Check(name="eab-of-principals", run=run, ready=False)]

    @hookimpl
    def statistics(self, host: Host) -> Sequence[Statistic]:
        return [Statistic(name="eab_keys", count=self.keys(host).count)]

    @hookimpl
    def operations(self, host: Host) -> Sequence[Callable[..., Any]]:
        keys = self.keys(host)
        return [keys.create, keys.delete, keys.obtain]

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        @asynccontextmanager
        async def serving() -> AsyncIterator[None]:
            await self.keys(host).store_configured()
            yield

        return [Lifespan(name="eab", open=serving)]
