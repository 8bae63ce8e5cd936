"""The directory's hooks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from greatseal import hookimpl
from greatseal.api.components import Component
from greatseal.api.declarations import Job, Lifespan, Owns, Placement
from greatseal.api.directory import Directory
from greatseal.api.identity import Authenticator, PasswordChanger
from greatseal.api.services import RESOLVER, TICKETS
from greatseal.api.tokens import ClaimsProvider
from greatseal.host import Host
from greatseal_ipa.access import IpaRules
from greatseal_ipa.assembly import Assembly, problems
from greatseal_ipa.directory import IpaClaims, IpaDirectory
from greatseal_ipa.password import IpaChanger, IpaPassword
from greatseal_ipa.settings import IpaSettings

LOOK_SECONDS = 1.0
"""How often servers that were down are looked at."""


class Plugin:
    """Users, groups and hosts of one LDAP directory; without `[ipa]` it contributes nothing."""

    uses = (RESOLVER, TICKETS)

    def __init__(self) -> None:
        self._assembly: Assembly | None = None

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("ipa", IpaSettings)]

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
    def verify(self, host: Host) -> Sequence[str]:
        return problems(host) if host.section_present("ipa") else []

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
        return [Job(name="ipa-servers", every=LOOK_SECONDS, run=made.pool.look, placement=Placement.WORKER)] if made else []

    def _made(self, host: Host) -> Assembly | None:
        if self._assembly is None and host.section_present("ipa"):
            self._assembly = Assembly(host)
        return self._assembly
