"""ACME (RFC 8555) in front of the certificate authority."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from greatseal import hookimpl
from greatseal.api.acme import AccountBinding, ChallengeValidator
from greatseal.api.declarations import EventType, Job, Lifespan, Owns, Reads, Schema, Statistic, Welcome
from greatseal.api.http import AuthScheme, Discovery, Route
from greatseal.api.issuance import FinalizeCheck, IssuanceObserver
from greatseal.api.languages import Catalogue
from greatseal.api.messages import Message
from greatseal.api.pages import StartLine, StartPart
from greatseal.api.services import ACCOUNTS, CHALLENGES, EXAMINER, ISSUANCE, ServiceKey
from greatseal.host import Host
from greatseal_acme.accounts import totals
from greatseal_acme.finalize import AccountGrant
from greatseal_acme.routes import Handlers
from greatseal_acme.service import Acme
from greatseal_acme.settings import Acme as AcmeSection
from greatseal_acme.settings import AcmeProfile, AcmeServer, CaId, HttpValidation
from greatseal_acme.tables import SCHEMA

SWEEP_SECONDS = 15.0
HOUR = 3600.0
HTTP = 80
_PRIVILEGED = 1023
"""Up to here an ordinary user cannot listen."""


class Plugin:
    """Accounts, orders, authorizations, challenges and finalization; issuing itself is the service ``ISSUANCE``."""

    requires = (ISSUANCE,)
    expects = MappingProxyType({ChallengeValidator: "enable one, for example http-01"})

    def __init__(self) -> None:
        self._acme: Acme | None = None

    def acme(self, host: Host) -> Acme:
        """The parts, made when the first hook needs them."""
        if self._acme is None:
            self._acme = Acme(host)
        return self._acme

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [
            Owns("server", AcmeServer),
            Owns("acme", AcmeSection),
            Owns("profiles.*", AcmeProfile),
            Reads("server", HttpValidation),
            Reads("ca[]", CaId),
        ]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_acme")]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("account.create", "ca", "An ACME account was made."),
            EventType("account.update", "ca", "The contacts of an ACME account changed."),
            EventType("account.agree", "ca", "An ACME account agreed to terms of service; detail is their URL."),
            EventType("account.key-change", "ca", "An ACME account got a new key; detail has the thumbprints of both."),
            EventType("account.deactivate", "ca", "An ACME account was deactivated: by an operator, the principal, or else by its holder."),
            EventType("account.revoke", "ca", "An operator, the principal, revoked an ACME account for good."),
            EventType("account.grants", "ca", "An operator, the principal, set the profile grants of an ACME account; detail lists them."),
            EventType("authorization.deactivate", "ca", "An authorization was given up by its account."),
            EventType("challenge.valid", "ca", "A validation proved an identifier."),
            EventType("challenge.invalid", "ca", "A validation failed."),
            EventType("order.deny", "ca", "A check refused a finalization: profile, account grant or CAA."),
        ]

    @hookimpl
    def services(self, host: Host) -> Mapping[ServiceKey[Any], Callable[[], object]]:
        return {
            ACCOUNTS: lambda: self.acme(host).accounts,
            CHALLENGES: lambda: self.acme(host).challenges,
            EXAMINER: lambda: self.acme(host).examination,
        }

    @hookimpl
    def auth_schemes(self, host: Host) -> Sequence[AuthScheme]:
        return [self.acme(host).scheme]

    @hookimpl
    def finalize_checks(self, host: Host) -> Sequence[FinalizeCheck]:
        profiles = host.settings_by_key(AcmeProfile)
        may_come = host.section_present("admin")  # operators make profiles while the service runs
        return [AccountGrant(profiles)] if may_come or any(own.require_account_grant for own in profiles.values()) else []

    @hookimpl
    def issuance_observers(self, host: Host) -> Sequence[IssuanceObserver]:
        return [self.acme(host).renewal_info]

    @hookimpl
    def discovery(self, host: Host) -> Sequence[Discovery]:
        acme = self.acme(host)
        return [Discovery("acme", lambda: acme.members(acme.paths.default))]

    @hookimpl
    def statistics(self, host: Host) -> Sequence[Statistic]:
        return [Statistic(name="accounts", count=lambda: host.db.read(totals))]

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        return [*Handlers(host, self.acme(host)).routes(), *self.acme(host).admin.routes()]

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        acme = self.acme(host)

        @asynccontextmanager
        async def serving() -> AsyncIterator[None]:
            acme.nonces.renew()
            try:
                yield
            finally:
                await acme.challenges.validations.close()

        return [Lifespan(name="acme", open=serving)]

    @hookimpl
    def operations(self, host: Host) -> Sequence[Callable[..., Any]]:
        acme = self.acme(host)
        return [acme.accounts.create, acme.elsewhere.use_up]

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        acme = self.acme(host)
        return [
            Job(name="acme-validations", every=SWEEP_SECONDS, run=acme.challenges.validations.sweep),
            Job(name="acme-settle", every=SWEEP_SECONDS, run=acme.finalizations.settle),
            Job(name="acme-purge", every=HOUR, run=acme.purge.run, jitter=60.0),
        ]

    @hookimpl
    def welcome(self, host: Host) -> Sequence[Welcome]:
        if not certbot_works(host):
            return []
        server, port = self.acme(host).paths.default.directory, host.settings(HttpValidation).http_validation_port
        return [Welcome(title="A certificate", lines=lambda: certbot_lines(server, port, str(host.state_dir / "certbot")))]

    @hookimpl
    def start_page(self, host: Host) -> Sequence[StartPart]:
        directory, port = self.acme(host).paths.default.directory, host.settings(HttpValidation).http_validation_port

        def lines() -> list[StartLine]:
            shown = [
                StartLine(words=Message("Certificates are issued by ACME (RFC 8555). Give this directory to your client:"), value=directory)
            ]
            if certbot_works(host):
                order, renewal = certbot_lines(directory, port, "certbot")
                shown.append(StartLine(words=Message("With certbot, a certificate for a name of this machine:"), value=order))
                shown.append(StartLine(words=Message("And its renewal:"), value=renewal))
            elif urlsplit(host.base_url).scheme == "https" and "http-01" in host.components(ChallengeValidator):
                shown.append(StartLine(words=ON_A_SERVER, value=certbot_on_a_server(host, directory)))
            return shown

        return [StartPart(title=Message("Get a certificate"), lines=lines)]


ON_A_SERVER = Message("With certbot, as root of a machine that trusts the root of this CA and has the name NAME:")


def certbot_on_a_server(host: Host, directory: str) -> str:
    """What the administrator of a server types, with the words in capitals put in."""
    port = host.settings(HttpValidation).http_validation_port
    own_port = "" if port == HTTP else f" --http-01-port {port}"
    bound = any(binding.required for binding in host.components(AccountBinding).values())
    binding = " --eab-kid KID --eab-hmac-key KEY" if bound else ""
    return f"certbot certonly --standalone{own_port} --server {directory} -d NAME{binding}"


def certbot_works(host: Host) -> bool:
    """Whether the lines do: plain http is for loopback alone, and so is hello.localhost, which must be allowed to be asked.

    Where new accounts need a binding, nobody knows it here.
    """
    http_01 = host.settings(HttpValidation)
    if any(binding.required for binding in host.components(AccountBinding).values()):
        return False
    asks = "http-01" in host.components(ChallengeValidator) and http_01.http_validation_allow_private_ips
    return urlsplit(host.base_url).scheme == "http" and asks and http_01.http_validation_port > _PRIVILEGED


def certbot_lines(server: str, port: int, folder: str) -> list[str]:
    """Commands that an ordinary user can paste: a certificate, and its renewal."""
    folders = f"--config-dir {folder}/config --work-dir {folder}/work --logs-dir {folder}/logs"
    listen = f"--standalone --http-01-port {port}"
    agree = "--register-unsafely-without-email --agree-tos --non-interactive"
    return [
        f"certbot certonly {listen} --server {server} -d hello.localhost {agree} {folders}",
        f"certbot renew --force-renewal --no-random-sleep-on-renew --http-01-port {port} {folders}",
    ]
