"""The directory's hooks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import click

from greatseal import hookimpl
from greatseal.api.components import Component
from greatseal.api.declarations import Check, Job, Lifespan, Owns, Placement, Reads
from greatseal.api.directory import Directory
from greatseal.api.identity import Authenticator, PasswordChanger
from greatseal.api.languages import Catalogue
from greatseal.api.services import NEGOTIATE, RESOLVER, TICKETS
from greatseal.api.tokens import ClaimsProvider
from greatseal.host import Host
from greatseal_ipa.access import IpaRules
from greatseal_ipa.assembly import Assembly, is_configured, problems
from greatseal_ipa.bind_with_code import IpaPasswordAndCode
from greatseal_ipa.checks import DirectoryCheck
from greatseal_ipa.command import ipa
from greatseal_ipa.directory import IpaClaims, IpaDirectory
from greatseal_ipa.password import IpaChanger, IpaPassword
from greatseal_ipa.settings import IpaSettings, KerberosSwitch, Keytab

LOOK_SECONDS = 1.0
"""How often servers that were down are looked at."""
SWEEP_SECONDS = 3600.0
"""How often tokens without a first code are looked for."""


class Plugin:
    """Users, groups and hosts of one LDAP directory; without a key of its own in `[ipa]` it contributes nothing."""

    uses = (NEGOTIATE, RESOLVER, TICKETS)

    def __init__(self) -> None:
        self._assembly: Assembly | None = None

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("ipa", IpaSettings), Reads("ipa", KerberosSwitch), Reads("gssapi", Keytab)]

    @hookimpl
    def commands(self) -> Sequence[click.Command]:
        return [ipa]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_ipa")]

    @hookimpl
    def directories(self, host: Host) -> Sequence[Directory]:
        made = self._made(host)
        return [IpaDirectory(made.reader)] if made else []

    @hookimpl
    def components(self, host: Host) -> Sequence[Component]:
        made = self._made(host)
        if made is None:
            return []
        found: list[Component] = [IpaRules(made.pool, made.reader.schema.base_dn)] if made.settings.hbac else []
        if made.passkeys and made.tokens:
            found += [made.passkeys, made.tokens]
        return [*found, made.upstreams] if host.settings(KerberosSwitch).gssapi else found

    @hookimpl
    def claims(self, host: Host) -> Sequence[ClaimsProvider]:
        made = self._made(host)
        return [IpaClaims(made.reader)] if made else []

    @hookimpl
    def authenticators(self, host: Host) -> Sequence[Authenticator[Any]]:
        made = self._made(host)
        how = made.settings.password if made else "off"
        if made is None or how == "off":
            return []
        password = IpaPassword(made.reader, how, host.optional_service(TICKETS), made.together)
        return [password, IpaPasswordAndCode(made.reader, made.together)] if made.together else [password]

    @hookimpl
    def password_changers(self, host: Host) -> Sequence[PasswordChanger]:
        made = self._made(host)
        how = made.settings.password if made else "off"
        return [IpaChanger(made.reader)] if made and how != "off" else []

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        """For doctor alone: what does not need the directory goes on without it, so the service is ready."""
        made = self._made(host)
        if made is None:
            return []
        tokens = made.tokens.some if made.tokens is not None and "otp" in host.configuration() else None
        return [Check(name="directory", run=DirectoryCheck(made.pool, made.reader.schema, host.clock, tokens).run, ready=False)]

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        return problems(host) if is_configured(host) else []

    @hookimpl
    def notes(self, host: Host) -> Sequence[str]:
        if host.section_present("ipa") and not is_configured(host):
            return ["[ipa] names no directory: set ldap_uri, or ca_cert_file alone for the servers that DNS names"]
        return []

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        made = self._made(host)

        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            try:
                yield
            finally:
                if made:
                    made.pool.close()

        return [Lifespan(name="ipa", open=opened)]

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        made = self._made(host)
        if made is None:
            return []
        found = [Job(name="ipa-servers", every=LOOK_SECONDS, run=made.pool.look, placement=Placement.WORKER)]
        if made.tokens:
            found.append(Job(name="ipa-tokens", every=SWEEP_SECONDS, run=made.tokens.sweep, jitter=300.0))
        if host.settings(KerberosSwitch).gssapi:
            every = float(made.settings.idp_refresh_secs)
            found.append(Job(name="ipa-providers", every=every, run=made.upstreams.refresh, placement=Placement.WORKER))
        return found

    def _made(self, host: Host) -> Assembly | None:
        if self._assembly is None and is_configured(host):
            self._assembly = Assembly(host)
        return self._assembly
