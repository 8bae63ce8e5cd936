"""The directory's hooks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import click

from greatseal import hookimpl
from greatseal.api.components import Component
from greatseal.api.declarations import Check, Job, Lifespan, Owns, Placement, Reads
from greatseal.api.directory import Directory
from greatseal.api.identity import Authenticator, LoginOptions, PasswordChanger
from greatseal.api.services import NEGOTIATE, RESOLVER, TICKETS
from greatseal.api.tokens import ClaimsProvider
from greatseal.host import Host
from greatseal_ipa.access import IpaRules
from greatseal_ipa.assembly import Assembly, is_configured, problems
from greatseal_ipa.checks import DirectoryCheck
from greatseal_ipa.command import ipa
from greatseal_ipa.directory import IpaClaims, IpaDirectory
from greatseal_ipa.password import IpaChanger, IpaPassword
from greatseal_ipa.settings import IpaSettings, KerberosSwitch, Keytab
from greatseal_ipa.upstreams import UpstreamHint

LOOK_SECONDS = 1.0
"""How often servers that were down are looked at."""


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
    def directories(self, host: Host) -> Sequence[Directory]:
        made = self._made(host)
        return [IpaDirectory(made.reader)] if made else []

    @hookimpl
    def components(self, host: Host) -> Sequence[Component]:
        made = self._made(host)
        return [IpaRules(made.pool, made.reader.schema.base_dn)] if made and made.settings.hbac else []

    @hookimpl
    def claims(self, host: Host) -> Sequence[ClaimsProvider]:
        made = self._made(host)
        return [IpaClaims(made.reader)] if made else []

    @hookimpl
    def authenticators(self, host: Host) -> Sequence[Authenticator[Any]]:
        made = self._made(host)
        how = made.settings.password if made else "off"
        return [IpaPassword(made.reader, how, host.optional_service(TICKETS))] if made and how != "off" else []

    @hookimpl
    def password_changers(self, host: Host) -> Sequence[PasswordChanger]:
        made = self._made(host)
        how = made.settings.password if made else "off"
        return [IpaChanger(made.reader)] if made and how != "off" else []

    @hookimpl
    def login_options(self, host: Host) -> Sequence[LoginOptions]:
        made = self._made(host)
        return [UpstreamHint(made.reader)] if made and host.settings(KerberosSwitch).gssapi else []

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        """For doctor alone: what does not need the directory goes on without it, so the service is ready."""
        made = self._made(host)
        if made is None:
            return []
        return [Check(name="directory", run=DirectoryCheck(made.pool, made.reader.schema, host.clock).run, ready=False)]

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
        if host.settings(KerberosSwitch).gssapi:
            every = float(made.settings.idp_refresh_secs)
            found.append(Job(name="ipa-providers", every=every, run=made.upstreams.refresh, placement=Placement.WORKER))
        return found

    def _made(self, host: Host) -> Assembly | None:
        if self._assembly is None and is_configured(host):
            self._assembly = Assembly(host)
        return self._assembly
