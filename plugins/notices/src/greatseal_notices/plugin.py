"""The hooks of notices."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from greatseal import hookimpl
from greatseal.api.components import Component
from greatseal.api.declarations import Check, EventType, Job, Lifespan, Owns, Reads, Schema
from greatseal.api.languages import Catalogue
from greatseal.api.notices import NoticeCarrier
from greatseal.api.services import DIRECTORIES, NOTICES, RESOLVER, ServiceKey
from greatseal.host import Host
from greatseal_notices.queue import NoticeQueue
from greatseal_notices.settings import Look, NoticesSettings
from greatseal_notices.tables import SCHEMA

if TYPE_CHECKING:
    from greatseal_notices.mail import MailCarrier

DELIVERY = 30.0
"""Seconds between two runs of the job."""


class Plugin:
    """Tells people by mail, and programs by webhook, what changed in an account."""

    requires = (DIRECTORIES,)
    uses = (RESOLVER,)

    def __init__(self) -> None:
        self._queue: NoticeQueue | None = None
        self._mail: MailCarrier | None = None

    def queue(self, host: Host) -> NoticeQueue:
        """The queue, made when the first hook needs it."""
        if self._queue is None:
            self._queue = NoticeQueue(host, host.service(DIRECTORIES))
        return self._queue

    def mail(self, host: Host) -> "MailCarrier | None":
        """What sends mail; None where no mail server is configured, and its library is not imported."""
        settings = host.settings(NoticesSettings)
        if self._mail is None and settings.smtp_server is not None:
            from greatseal_notices.letters import Writer
            from greatseal_notices.mail import MailCarrier

            display_name = host.settings(Look).display_name or urlsplit(host.issuer).hostname or host.issuer
            writer = Writer(
                display_name=display_name,
                sender=settings.from_address,
                account=f"{host.issuer}/account",
                languages=host.languages,
            )
            self._mail = MailCarrier(host, settings, writer)
        return self._mail

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("notices", NoticesSettings), Reads("webui", Look)]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_notices")]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType(
                "notice_sent", "idp", "A person was told of a change in their account, or could not be; detail says of what, and how."
            )
        ]

    @hookimpl
    def services(self, host: Host) -> Mapping[ServiceKey[Any], Callable[[], object]]:
        return {NOTICES: lambda: self.queue(host)}

    @hookimpl
    def components(self, host: Host) -> Sequence[Component]:
        found: list[Component] = []
        if (mail := self.mail(host)) is not None:
            found.append(mail)
        settings = host.settings(NoticesSettings)
        if settings.webhook_url is not None:
            from greatseal_notices.webhook import WebhookCarrier

            found.append(WebhookCarrier(host, settings))
        return found

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            if host.section_present("notices") and not host.components(NoticeCarrier):
                host.log.warning("nobody is told of anything: set [notices] smtp_server or webhook_url")
            yield

        return [Lifespan(name="notices", open=opened)]

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        return [Job(name="notices", every=DELIVERY, run=self.queue(host).deliver)]

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        mail = self.mail(host)
        return [] if mail is None else [Check(name="mail server", run=mail.reachable, ready=False)]
