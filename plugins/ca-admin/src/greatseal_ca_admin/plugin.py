"""Operators of the certificate authority: sign-in, roles, the admin API on its own listener."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from greatseal import hookimpl
from greatseal.api.declarations import EventType, Job, Lifespan, Owns, Reads, Schema
from greatseal.api.http import AuthScheme, ClientTrust, Route
from greatseal.api.issuance import FinalizeCheck
from greatseal.api.services import EABKEYS, ISSUANCE, NEGOTIATE
from greatseal.host import Host
from greatseal_ca_admin import first
from greatseal_ca_admin.admission import Admission
from greatseal_ca_admin.alarm import EVERY, RESUMED, Alarm
from greatseal_ca_admin.eab_sign_in import EabSignIn
from greatseal_ca_admin.first import Trust
from greatseal_ca_admin.lockout import Lockout
from greatseal_ca_admin.overview import Overview
from greatseal_ca_admin.proofs import Proofs
from greatseal_ca_admin.routes import OperatorsAdmin
from greatseal_ca_admin.scheme import Operators
from greatseal_ca_admin.sessions import Sessions
from greatseal_ca_admin.settings import AdminSettings, CaId
from greatseal_ca_admin.sign_in import SignIn
from greatseal_ca_admin.tables import SCHEMA
from greatseal_ca_admin.tickets import TicketSignIn

if TYPE_CHECKING:
    import click


class Parts:
    """What the hooks of one kernel share."""

    def __init__(self, host: Host) -> None:
        self.sessions = Sessions(host)
        self.lockout = Lockout(host.settings(AdminSettings))
        self.trust = Trust(host)
        self.alarm = Alarm(host)
        self.ca_ids = [ca.id for ca in host.settings_list(CaId)]
        self.proofs = Proofs(host, self.ca_ids)


class Plugin:
    """It does something where the configuration has `[admin]`; without that section nothing runs."""

    uses = (ISSUANCE, EABKEYS, NEGOTIATE)

    def __init__(self) -> None:
        self._parts: Parts | None = None

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("admin", AdminSettings), Reads("ca[]", CaId)]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("admin.login", "ca", "An operator signed in, or somebody tried to; the detail says why not."),
            EventType(
                "admin.logout",
                "ca",
                "An operator signed out, or their key or certificate is no good any more; the detail says why.",
            ),
            EventType("operator.create", "ca", "An operator was made; the principal is who did it."),
            EventType("operator.update", "ca", "An operator was changed."),
            EventType("operator.delete", "ca", "An operator was deleted."),
            EventType("operator.lock", "ca", "Too many sign-ins of an operator failed."),
            EventType("operator.unlock", "ca", "An administrator ended such a lock."),
            EventType("issuance.halt", "ca", "The alarm ended all issuing."),
            EventType(RESUMED, "ca", "An administrator allowed issuing again."),
        ]

    @hookimpl
    def commands(self) -> "Sequence[click.Command]":
        from greatseal_ca_admin.commands import COMMANDS

        return COMMANDS

    @hookimpl
    def ctl(self) -> "Sequence[click.Command]":
        from greatseal_ca_admin.ctl import COMMANDS

        return COMMANDS

    @hookimpl
    def auth_schemes(self, host: Host) -> Sequence[AuthScheme]:
        parts = self._shared(host)
        return [Operators(host, parts.sessions, parts.proofs)]

    @hookimpl
    def finalize_checks(self, host: Host) -> Sequence[FinalizeCheck]:
        return self._shared(host).alarm.checks() if host.section_present("admin") else []

    @hookimpl
    def client_trust(self, host: Host) -> Sequence[ClientTrust]:
        return [ClientTrust(name="operators", roots=self._shared(host).trust.roots, listener="admin")]

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        parts = self._shared(host)
        admission, keys = Admission(host, parts.sessions, parts.lockout), host.optional_service(EABKEYS)
        tickets = TicketSignIn(host, admission, host.optional_service(NEGOTIATE))
        sign_in = SignIn(host, parts.sessions, admission, parts.proofs, tickets)
        by_key = [] if keys is None else EabSignIn(host, admission, keys).routes()
        people = OperatorsAdmin(host, parts.ca_ids, parts.trust.again, keys)
        return [*sign_in.routes(), *by_key, *people.routes(), *Overview(host).routes(), *parts.alarm.routes()]

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        return first.problems(host)

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            await first.make_first(host)
            await self._shared(host).trust.read()
            yield

        return [Lifespan(name="ca-admin", open=opened)] if host.section_present("admin") else []

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        if not host.section_present("admin"):
            return []
        parts = self._shared(host)
        return [
            Job(name="ca-admin-alarm", every=EVERY, run=parts.alarm.watch),
            Job(name="ca-admin-sessions", every=600.0, run=parts.sessions.sweep, jitter=600.0),
        ]

    def _shared(self, host: Host) -> Parts:
        if self._parts is None:
            self._parts = Parts(host)
        return self._parts
