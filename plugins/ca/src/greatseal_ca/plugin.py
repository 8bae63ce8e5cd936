"""Certificate authority: root and issuing CA, profiles, CSR rules, inventory."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from greatseal import hookimpl
from greatseal.api.declarations import Check, EventType, Job, Lifespan, Owns, Placement, Reads, Schema, Statistic, Welcome
from greatseal.api.http import Route
from greatseal.api.issuance import FinalizeCheck, IdentifierType, Issuer
from greatseal.api.languages import Catalogue
from greatseal.api.pages import StartPart
from greatseal.api.services import ISSUANCE, ServiceKey
from greatseal.host import Host
from greatseal_ca import health, profiles
from greatseal_ca.authorities import Authorities
from greatseal_ca.checks import AuthHook, BlockedKeyCheck, IdentifierPatterns, KeyTypes
from greatseal_ca.cross_signing import CrossSigning
from greatseal_ca.identifiers import BUILT_IN
from greatseal_ca.inventory import Inventory
from greatseal_ca.issue import CertificateAuthority
from greatseal_ca.issuer import X509Issuer
from greatseal_ca.lists import Lists
from greatseal_ca.operators import OperatorsOfCa
from greatseal_ca.pointers import Pointers
from greatseal_ca.profile_routes import ProfilesOfOperators
from greatseal_ca.profiles import PLAIN, Profiles
from greatseal_ca.root import ROOT, RootIssuer
from greatseal_ca.routes import CaCertificates
from greatseal_ca.settings import CaSettings, IssueAs, ProfileSettings, ProfilesSettings, default_ca
from greatseal_ca.shards import Shards
from greatseal_ca.start import start_parts
from greatseal_ca.status import StatusService
from greatseal_ca.stored import StoredProfiles
from greatseal_ca.tables import SCHEMA

if TYPE_CHECKING:
    import click

    from greatseal_ca.ceremonies import Ceremonies


class Parts:
    """What the hooks of one kernel share; ``problems`` tell of settings that do not go together."""

    def __init__(self, host: Host) -> None:
        self._host = host
        listed = host.settings_list(CaSettings)
        cas = {ca.id: ca for ca in listed}
        configured = host.settings_by_key(ProfileSettings)
        default, wrong = default_ca(listed)
        self.problems = [*wrong, *profiles.problems(cas, configured)]
        self.profiles = Profiles(cas, configured, host.settings_by_key(IssueAs))
        self.authorities = Authorities(cas, self.profiles, default)
        self.inventory = Inventory(host.blocked_keys)
        self.pointers = Pointers(host.base_url, default, cas, self.profiles.settings)
        self.problems += self.pointers.problems(self.profiles)
        self.shards = Shards()
        self.lists = Lists(host, cas, self.pointers, self.shards)
        self.status = StatusService(host, self.authorities, self.lists)
        self.issuance = CertificateAuthority(host, self.profiles, self.authorities, self.inventory, self.lists)
        self.cas = cas
        self.stored = StoredProfiles(host, cas, self.profiles, self.authorities, self.pointers)

    @cached_property
    def ceremonies(self) -> "Ceremonies":
        """What commands do with the keys of the CAs."""
        from greatseal_ca.ceremonies import Ceremonies

        return Ceremonies(self._host, self.cas, self.profiles, self.authorities, self.issuance)


class Plugin:
    """Certificate authority: root and issuing CA, profiles, CSR rules, inventory."""

    def __init__(self) -> None:
        self._parts: Parts | None = None

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [
            Owns("ca[]", CaSettings),
            Owns("profiles", ProfilesSettings),
            Owns("profiles.*", ProfileSettings),
            Reads("profiles.*", IssueAs),
        ]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_ca")]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("ca.created", "ca", "A root or issuing certificate was made at the first start."),
            EventType("ca.renewed", "ca", "A CA has another issuing certificate, by its own root or one elsewhere."),
            EventType("ca.cross_sign", "ca", "The root of a CA, the subject, certifies another CA; the principal asked for it."),
            EventType("cert.issue", "ca", "A certificate was issued; the principal is the account."),
            EventType("cert.revoke", "ca", "A certificate was revoked; the principal is who did it, the subject the account."),
            EventType("crl.force", "ca", "An operator, the principal, had the revocation lists of a CA made again; the detail names it."),
            EventType("profile.create", "ca", "An operator, the principal, made a profile; the detail names it."),
            EventType("profile.update", "ca", "An operator, the principal, replaced a profile; the detail names it."),
            EventType("profile.delete", "ca", "An operator, the principal, deleted a profile; the detail names it."),
            EventType("cert.unknown", "ca", "A reservation was given up: a crash hid whether it was signed; it counts as revoked."),
        ]

    @hookimpl
    def commands(self) -> "Sequence[click.Command]":
        from greatseal_ca.commands import COMMANDS
        from greatseal_ca.trust import trust

        return [*COMMANDS, trust]

    @hookimpl
    def ctl(self) -> "Sequence[click.Command]":
        from greatseal_ca.ctl import COMMANDS

        return COMMANDS

    @hookimpl
    def services(self, host: Host) -> Mapping[ServiceKey[Any], Callable[[], object]]:
        return {ISSUANCE: lambda: self.parts(host).issuance}

    @hookimpl
    def finalize_checks(self, host: Host) -> Sequence[FinalizeCheck]:
        settings = self.parts(host).profiles.settings
        checks: list[FinalizeCheck] = [BlockedKeyCheck(host.blocked_keys)]
        may_come = host.section_present("admin")  # operators make profiles while the service runs
        if may_come or any(own.allowed_identifier_patterns for own in settings.values()):
            checks.append(IdentifierPatterns(settings, host.log))
        if may_come or any(own.key_types or own.key_usage != PLAIN.key_usage for own in settings.values()):
            checks.append(KeyTypes(settings))
        if any(own.auth_hook for own in settings.values()):
            checks.append(AuthHook(settings, host.scripts))
        return checks

    @hookimpl
    def identifier_types(self) -> Sequence[IdentifierType]:
        return BUILT_IN

    @hookimpl
    def issuers(self, host: Host) -> Sequence[Issuer]:
        parts = self.parts(host)
        return [X509Issuer(parts.authorities, parts.pointers, parts.shards), RootIssuer(parts.authorities, parts.cas, parts.pointers)]

    @hookimpl
    def statistics(self, host: Host) -> Sequence[Statistic]:
        inventory = self.parts(host).inventory
        return [Statistic(name="certs", count=lambda: host.db.read(inventory.totals))]

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        parts = self.parts(host)
        return [
            *CaCertificates(host, parts.authorities).routes(),
            *parts.status.routes(),
            *OperatorsOfCa(host, parts.issuance, parts.authorities, parts.profiles, parts.lists).routes(),
            *ProfilesOfOperators(host, parts.profiles, parts.stored).routes(),
            *CrossSigning(host, parts.authorities, parts.inventory, lambda: parts.ceremonies).routes(),
        ]

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        parts = self.parts(host)
        wrong, lives = parts.authorities.look(host)
        return [
            *parts.problems,
            *wrong,
            *parts.profiles.too_long(lives, host.clock.now()),
            *(
                f"[profiles.{profile}] issue_as: {ROOT!r} signs certificates of CAs alone; x509 is for all others"
                for name, profile in parts.profiles.issue_as().items()
                if name == ROOT
            ),
            *(
                f"[profiles.{profile}] issue_as: no enabled plugin issues {name!r}; enable the one that does"
                for name, profile in parts.profiles.issue_as().items()
                if name not in host.components(Issuer)
            ),
        ]

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            parts = self.parts(host)
            await parts.authorities.open(host, parts.inventory)
            await parts.stored.read()
            health.warn_of_cuts(host, parts.authorities, parts.profiles)
            yield

        @asynccontextmanager
        async def told() -> AsyncIterator[None]:
            await self.parts(host).status.open()
            yield

        return [Lifespan(name="ca", open=opened), Lifespan(name="ca-status", open=told, placement=Placement.NODE)]

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        return [*self.parts(host).status.jobs(), *self.parts(host).stored.jobs()]

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        return health.checks(host, self.parts(host).authorities)

    @hookimpl
    def start_page(self, host: Host) -> Sequence[StartPart]:
        return start_parts(self.parts(host).authorities, host.base_url)

    @hookimpl
    def welcome(self, host: Host) -> Sequence[Welcome]:
        paths = [host.state_dir / "ca" / ca_id / "root.pem" for ca_id in self.parts(host).authorities.ids]
        return [Welcome(title="Trust the certificates of this CA", lines=lambda: [str(path) for path in paths])]

    def parts(self, host: Host) -> Parts:
        """What the hooks share, made at the first call."""
        if self._parts is None:
            self._parts = Parts(host)
        return self._parts
