"""Notices by mail (RFC 5321): over TLS that is verified, with a sign-in where the server wants one."""

import ssl
from contextlib import suppress
from functools import cached_property
from urllib.parse import urlsplit

from aiosmtplib import (
    SMTP,
    SMTPDataError,
    SMTPException,
    SMTPRecipientsRefused,
    SMTPResponseException,
    SMTPServerDisconnected,
    SMTPTimeoutError,
)

from greatseal.api.declarations import CheckResult
from greatseal.api.notices import Letter, NoticeCarrier, Undeliverable
from greatseal.api.problems import Problem, Unavailable
from greatseal.host import Host
from greatseal.net import connect, excerpt
from greatseal_notices.letters import Writer
from greatseal_notices.outward import ANYWHERE, resolver_of
from greatseal_notices.settings import NoticesSettings

GOODBYE_SECONDS = 1.0


class MailCarrier(NoticeCarrier):
    """Each mail has a connection of its own: there are few."""

    name = "mail"
    private = True

    def __init__(self, host: Host, settings: NoticesSettings, writer: Writer) -> None:
        self._host = host
        self._settings = settings
        self._writer = writer
        self._server, self._port = settings.server
        self._me = urlsplit(host.issuer).hostname or "localhost"
        self.deadline = settings.smtp_timeout_secs

    async def carry(self, letter: Letter) -> bool:
        if not letter.person.email:
            return False
        mail = self._writer.mail(letter, self._host.clock.now())
        client = await self._opened()
        try:
            await client.sendmail(self._writer.sender, [str(mail["To"].addresses[0].addr_spec)], bytes(mail))
        except SMTPRecipientsRefused as refused:
            raise self._refused(refused.recipients[0], final=True) from None
        except SMTPResponseException as refused:
            raise self._refused(refused, final=isinstance(refused, SMTPDataError)) from None
        except (SMTPException, OSError) as error:
            raise self._failed(error) from None
        finally:
            client.close()
        return True

    async def reachable(self) -> CheckResult:
        """For ``doctor``: whether the server is there, its certificate right, and the sign-in taken. No mail is sent."""
        where = f"{self._server} port {self._port}"
        try:
            client = await self._opened()
        except Problem as problem:
            advice = "look at [notices] smtp_server, smtp_tls, smtp_username and the firewall"
            return CheckResult(ok=False, detail=f"the mail server cannot be used: {advice}", cause=problem.cause or problem.detail)
        with suppress(SMTPException, OSError):
            await client.quit(timeout=GOODBYE_SECONDS)
        client.close()
        return CheckResult(ok=True, detail="the mail server is there", cause=where)

    async def _opened(self) -> SMTP:
        """A connection over which a mail may be sent. Raises Unavailable."""
        seconds = self._settings.smtp_timeout_secs
        sock = await connect(self._server, self._port, resolver=resolver_of(self._host), policy=ANYWHERE, seconds=seconds)
        password = self._settings.smtp_password
        client = SMTP(
            hostname=self._server,
            sock=sock,
            use_tls=self._settings.smtp_tls == "implicit",
            start_tls=self._settings.smtp_tls == "starttls",
            tls_context=self._tls,
            username=self._settings.smtp_username,
            password=password.value if password is not None else None,
            local_hostname=self._me,
            timeout=seconds,
        )
        try:
            await client.connect()
        except SMTPResponseException as refused:
            raise self._refused(refused, final=False) from None
        except (SMTPException, OSError) as error:
            raise self._failed(error) from None
        return client

    @cached_property
    def _tls(self) -> ssl.SSLContext | None:
        if self._settings.smtp_tls == "off":
            return None
        return ssl.create_default_context(cafile=self._settings.smtp_ca_cert_file)

    def _refused(self, refused: SMTPResponseException, *, final: bool) -> Problem:
        """What an answer of the server means. Of a sign-in or a sender that it refuses, an administrator can mend the reason."""
        said = f"{self._server} port {self._port} answered {refused.code}: {excerpt(refused.message)}"
        if final and 500 <= refused.code < 600:
            return Undeliverable(said)
        return Unavailable("the mail server does not take mail now", cause=said)

    def _failed(self, error: Exception) -> Unavailable:
        if isinstance(error, SMTPTimeoutError | TimeoutError):
            said = "no answer in time"
        elif isinstance(error, SMTPServerDisconnected):
            said = "it closed the connection"
        else:
            said = excerpt(str(error) or type(error).__name__)
        return Unavailable("the mail server cannot be reached", cause=f"{self._server} port {self._port}: {said}")
