"""What the hooks of one kernel share."""

from functools import cached_property, partial

from greatseal.api.components import Component
from greatseal.api.declarations import Check, Job, Statistic
from greatseal.api.http import Route
from greatseal.api.issuance import IssuanceObserver, Issuer
from greatseal.api.log import LogBackend
from greatseal.api.pages import StartPart
from greatseal.api.services import ISSUANCE
from greatseal.host import Host
from greatseal_mtc import health
from greatseal_mtc.alternates import LandmarkRelative
from greatseal_mtc.backends.files import FilesBackend
from greatseal_mtc.backends.sql import SqlBackend
from greatseal_mtc.details import LogDetails
from greatseal_mtc.issuer import MtcIssuer
from greatseal_mtc.keys import look
from greatseal_mtc.landmarks import EVERY
from greatseal_mtc.logs import Logs
from greatseal_mtc.observer import MtcLog
from greatseal_mtc.page.service import LogPages
from greatseal_mtc.recording import MTC, Numbers
from greatseal_mtc.routes import MtcRoutes
from greatseal_mtc.settings import CaLog, CaName, MtcSettings, logs_of

HOUR = 3600.0
LONGEST_ORIGIN, ANY = 200, Numbers(1, 65_535)
"""Characters of the origin of a log: what is cosigned has room for 255 bytes."""


class Parts:
    """The logs, and what is wrong with their settings."""

    def __init__(self, host: Host) -> None:
        self._host = host
        names, present = host.settings_list(CaName), host.section_present("mtc")
        settings, self._problems = logs_of(names, host.settings_list(CaLog), host.settings(MtcSettings), present=present)
        default = next((one.id for one in names if one.is_default or len(names) == 1), "")
        self.logs = Logs(host, settings, default)

    @cached_property
    def _pages(self) -> LogPages:
        return LogPages(self._host, self.logs)

    def backends(self) -> list[LogBackend]:
        """Those that everybody has."""
        return [FilesBackend(self._host.state_dir / "mtc"), SqlBackend(self._host.db)]

    def issuers(self) -> list[Issuer]:
        """Who makes standalone certificates at once."""
        return [MtcIssuer(self._host, self.logs)]

    def observers(self) -> list[IssuanceObserver]:
        """Who has certificates appended."""
        return [MtcLog(self.logs, self.logs.settings)]

    def components(self) -> list[Component]:
        """What operators see, and the certificates beside those of orders."""
        return [LogDetails(self._host), LandmarkRelative(self._host, self.logs)]

    def routes(self) -> list[Route]:
        """What is said of the logs, to programs and to people; nothing where all of them are off."""
        return [*MtcRoutes(self._host, self.logs).routes(), *self._pages.routes()] if self.logs.settings else []

    def start_parts(self) -> list[StartPart]:
        """Where people find the logs."""
        return self._pages.start_parts()

    def statistics(self) -> list[Statistic]:
        """How long the logs are."""
        return [Statistic(name="log_entries", count=self._sizes)]

    def problems(self) -> list[str]:
        """What is wrong between settings, one line each."""
        found = [*self._problems, *look(self._host, self.logs.settings)]
        offered = self._host.service(ISSUANCE)
        for one in self._host.settings_list(CaName):
            asks = [profile.id for profile in offered.profiles(one.id).values() if profile.issue_as == MTC]
            if asks and one.id not in self.logs.settings:
                found.append(
                    f"[profiles.{asks[0]}] issue_as: CA {one.id!r} has no log for it; give it one in [ca] mtc, or leave it out of ca_ids"
                )
        for ca_id, settings in self.logs.settings.items():
            known = self._host.components(LogBackend)
            if settings.log_backend is not None and settings.log_backend not in known:
                found.append(f"[mtc] log_backend: no enabled plugin provides {settings.log_backend!r}; known: {', '.join(known)}")
            if len(origin := self.logs.place(ca_id).origin(ANY)) > LONGEST_ORIGIN or "+" in origin:
                found.append(
                    f"[server] base_url: the origin of a log has no plus and {LONGEST_ORIGIN} characters at most, and would be {origin}"
                )
        return found

    def notes(self) -> list[str]:
        """What is right and will still surprise."""
        return health.notes(self.logs.settings, self._host.service(ISSUANCE))

    def checks(self) -> list[Check]:
        """Lines of /readyz and doctor."""
        return health.checks(self._host, self.logs)

    def jobs(self) -> list[Job]:
        """For each log checkpoints and landmarks, and what is told of revoked certificates."""
        found = [Job(name="mtc-revoked-tidy", every=HOUR, run=self._tidy, jitter=60)]
        for ca_id, settings in self.logs.settings.items():
            found.append(
                Job(name=f"mtc-checkpoints-{ca_id}", every=settings.checkpoint_interval_secs, run=partial(self._checkpoints, ca_id))
            )
            found.append(Job(name=f"mtc-landmarks-{ca_id}", every=EVERY, run=partial(self._landmarks, ca_id)))
        return found

    async def _checkpoints(self, ca_id: str) -> None:
        await self.logs.of(ca_id).checkpoints.run()

    async def _landmarks(self, ca_id: str) -> None:
        await self.logs.of(ca_id).landmarks.tick()

    async def _tidy(self) -> None:
        await self.logs.revoked.tidy(list(self.logs.settings))

    async def _sizes(self) -> dict[str, int]:
        return {"total": sum(one.log.size for one in self.logs.open_logs.values())}
