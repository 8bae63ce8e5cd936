"""email-reply-00 (RFC 8823): half of a token goes by mail, half in the challenge; a reply that knows both proves the address."""

from collections.abc import Mapping

import msgspec

from greatseal.api.acme import VALID, WAIT, Attempt, Challenge, ChallengeValidator, Identifier, Verdict
from greatseal.api.audit import AuditEvent
from greatseal.api.problems import IncorrectResponse, Problem
from greatseal.api.services import CHALLENGES
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal_email_reply_00.mail import Mail, Post
from greatseal_email_reply_00.settings import EmailChallenge


class EmailReply00(ChallengeValidator):
    """Sends a mail and waits: :class:`~greatseal_email_reply_00.webhook.Webhook` decides."""

    type = "email-reply-00"
    identifier_types = frozenset({"email"})
    kept_as = Mail

    def __init__(self, host: Host, settings: EmailChallenge, post: Post) -> None:
        self.host = host
        self.send_on = settings.send_on
        self.post = post

    def offers(self, identifier: Identifier) -> bool:
        """Not for what a mail program could take for an option."""
        return not identifier.value.startswith("-")

    def create(self, tx: Tx, challenge: Challenge) -> Mail | None:
        if self.send_on == "post":
            return None
        mail = self._written(tx, challenge)
        tx.after_commit(lambda: self.host.spawn(f"mail of challenge {challenge.id}", self._send_early(challenge, mail)))
        return mail

    def members(self, challenge: Challenge) -> dict[str, object]:
        return {"token": challenge.token, "from": self.post.sender}

    def accept(self, tx: Tx, challenge: Challenge, payload: Mapping[str, object]) -> Mail:  # noqa: ARG002
        kept: Mail | None = challenge.kept
        return kept or self._written(tx, challenge)

    async def start(self, attempt: Attempt) -> None:
        mail: Mail = attempt.kept
        if mail.send_on == "post":
            await self.post.send(mail, attempt.identifier.value, attempt.token)

    async def validate(self, attempt: Attempt) -> Verdict:
        mail: Mail = attempt.kept
        if mail.verdict is None:
            return WAIT
        if mail.verdict:
            raise IncorrectResponse(mail.verdict)
        return VALID

    def _written(self, tx: Tx, challenge: Challenge) -> Mail:
        mail = self.post.written(challenge, self.send_on)
        told = f"{challenge.identifier.value} {mail.message_id}"
        tx.audit(AuditEvent(event_type="email.send", service="ca", sub=challenge.account_id, detail=told))
        return mail

    async def _send_early(self, challenge: Challenge, mail: Mail) -> None:
        """Before the client answers the challenge: what goes wrong is told when it does."""
        try:
            await self.post.send(mail, challenge.identifier.value, challenge.token)
        except Problem as problem:
            self.host.log.warning("a challenge mail could not be sent", detail=problem.detail, cause=problem.cause)
            await self.host.db.write(self._failed, challenge.id, msgspec.structs.replace(mail, verdict=problem.detail))

    def _failed(self, tx: Tx, id: str, mail: Mail) -> None:
        self.host.service(CHALLENGES).keep(tx, id, mail)
