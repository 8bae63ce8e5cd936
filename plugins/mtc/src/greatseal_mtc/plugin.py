"""The hooks of the log."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from greatseal import hookimpl
from greatseal.api.components import Component
from greatseal.api.declarations import Check, EventType, Job, Lifespan, Owns, Placement, Reads, Schema, Statistic
from greatseal.api.http import Route
from greatseal.api.issuance import IssuanceObserver, Issuer
from greatseal.api.languages import Catalogue
from greatseal.api.log import LogBackend
from greatseal.api.pages import StartPart
from greatseal.api.services import ISSUANCE, PAGES, RESOLVER
from greatseal.host import Host
from greatseal_mtc.page.settings import Look
from greatseal_mtc.settings import CaLog, CaName, IssueAs, MtcSettings
from greatseal_mtc.tables import SCHEMA
from greatseal_mtc.witness.settings import WitnessSettings

if TYPE_CHECKING:
    import click

    from greatseal_mtc.parts import Parts
    from greatseal_mtc.witness.part import WitnessPart


class Plugin:
    """A log of what each CA issues. It does something where the configuration has `[mtc]`, or a CA of it has `mtc`; with `[witness]` it
    cosigns the logs of others."""

    requires = (ISSUANCE,)
    uses = (RESOLVER, PAGES)

    def __init__(self) -> None:
        self._parts: Parts | None = None
        self._witness: WitnessPart | None = None

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [
            Owns("mtc", MtcSettings),
            Owns("witness", WitnessSettings),
            Owns("ca[]", CaLog),
            Owns("profiles.*", IssueAs),
            Reads("ca[]", CaName),
            Reads("webui", Look),
        ]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_mtc")]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("log.open", "ca", "A log of a CA is written from now on: its first one, or the next number."),
            EventType("log.checkpoint", "ca", "A checkpoint of a log was signed; the detail says its number and the size of the log."),
            EventType("log.landmark", "ca", "A landmark of a log was made."),
            EventType("log.cosigner", "ca", "The answer of a cosigner or witness was refused; the detail says why."),
            EventType("log.unlogged", "ca", "A certificate can never be logged; the detail says why."),
            EventType(
                "witness.fork", "ca", "A log that is witnessed signed two trees of one size; the subject is its origin, detail has both."
            ),
        ]

    @hookimpl
    def commands(self) -> "Sequence[click.Command]":
        from greatseal_mtc.commands import log

        return [log]

    @hookimpl
    def log_backends(self, host: Host) -> Sequence[LogBackend]:
        return parts.backends() if (parts := self.parts(host)) else []

    @hookimpl
    def issuers(self, host: Host) -> Sequence[Issuer]:
        return parts.issuers() if (parts := self.parts(host)) else []

    @hookimpl
    def issuance_observers(self, host: Host) -> Sequence[IssuanceObserver]:
        return parts.observers() if (parts := self.parts(host)) else []

    @hookimpl
    def components(self, host: Host) -> Sequence[Component]:
        return parts.components() if (parts := self.parts(host)) else []

    @hookimpl
    def statistics(self, host: Host) -> Sequence[Statistic]:
        return parts.statistics() if (parts := self.parts(host)) else []

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        return parts.problems() if (parts := self.parts(host)) else []

    @hookimpl
    def notes(self, host: Host) -> Sequence[str]:
        return parts.notes() if (parts := self.parts(host)) else []

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            parts = self.parts(host)
            assert parts is not None, "it is there from the settings on"
            async with parts.logs.opened():
                yield

        own = [Lifespan(name="mtc", open=opened, placement=Placement.NODE)] if self.parts(host) else []
        return [*own, *(witness.lifespans() if (witness := self.witness(host)) else ())]

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        own = parts.routes() if (parts := self.parts(host)) else ()
        return [*own, *(witness.routes() if (witness := self.witness(host)) else ())]

    @hookimpl
    def start_page(self, host: Host) -> Sequence[StartPart]:
        return parts.start_parts() if (parts := self.parts(host)) else []

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        return parts.jobs() if (parts := self.parts(host)) else []

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        return parts.checks() if (parts := self.parts(host)) else []

    def parts(self, host: Host) -> "Parts | None":
        """What the hooks share, made at the first call; None where nobody asked for a log, and nothing of it is imported then."""
        asked = host.section_present("mtc") or any(one.mtc is not None for one in host.settings_list(CaLog))
        if asked and self._parts is None:
            from greatseal_mtc.parts import Parts

            self._parts = Parts(host)
        return self._parts

    def witness(self, host: Host) -> "WitnessPart | None":
        """The witness of other logs; None without its section."""
        if host.section_present("witness") and self._witness is None:
            from greatseal_mtc.witness.part import WitnessPart

            self._witness = WitnessPart(host)
        return self._witness
