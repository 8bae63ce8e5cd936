"""The email-reply-00 challenge (RFC 8823)."""

from collections.abc import Callable, Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.acme import ChallengeValidator
from greatseal.api.declarations import EventType, Owns
from greatseal.api.http import Route
from greatseal.api.services import ACCOUNTS, CHALLENGES
from greatseal.host import Host
from greatseal_email_reply_00.email_reply_00 import EmailReply00
from greatseal_email_reply_00.mail import Post
from greatseal_email_reply_00.settings import EmailChallenge
from greatseal_email_reply_00.webhook import Webhook


class Plugin:
    """Proves mail addresses by a mail that is answered. There is nothing of it unless `[email_challenge] enabled`."""

    requires = (ACCOUNTS, CHALLENGES)

    def __init__(self) -> None:
        self._parts: tuple[EmailReply00, Webhook] | None = None

    def parts(self, host: Host) -> tuple[EmailReply00, Webhook] | None:
        """The validator and the webhook, made when the first hook needs them; None while mail addresses are not proven."""
        settings = host.settings(EmailChallenge)
        if self._parts is None and settings.enabled:
            post = Post(host, settings)
            self._parts = EmailReply00(host, settings, post), Webhook(host, settings, post)
        return self._parts

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("email_challenge", EmailChallenge)]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [EventType("email.send", "ca", "A challenge mail was written, and is handed to the send script next.")]

    @hookimpl
    def challenge_validators(self, host: Host) -> Sequence[ChallengeValidator]:
        parts = self.parts(host)
        return [parts[0]] if parts else []

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        parts = self.parts(host)
        return parts[1].routes() if parts else []

    @hookimpl
    def operations(self, host: Host) -> Sequence[Callable[..., Any]]:
        parts = self.parts(host)
        return [parts[1].take] if parts else []
