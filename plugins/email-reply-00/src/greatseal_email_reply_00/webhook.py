"""The mail server tells of a reply: POST /acme/email-webhook. It learns nothing from the answer."""

from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import Literal

import msgspec

from greatseal import faults
from greatseal.api.acme import AccountView, Challenge, Unauthorized
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.problems import IncorrectResponse, Problem, Unavailable
from greatseal.api.services import ACCOUNTS, CHALLENGES
from greatseal.api.store import Tx, operation
from greatseal.host import Host
from greatseal_email_reply_00.mail import Mail, Post
from greatseal_email_reply_00.reply import MailReply, wrong_with
from greatseal_email_reply_00.settings import EmailChallenge

SIGNATURE = "X-Service-Signature"


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """A reply that the mail server vouches for, the challenge that it may answer, and the account of that as it is now."""

    node: str
    challenge_id: str
    account: AccountView | None
    reply: MailReply


class Taken(msgspec.Struct, frozen=True):
    """What came of it, for the log."""

    outcome: Literal["decided", "kept", "ignored"]


def _node(received: Received) -> str:
    return received.node


class Webhook:
    """Takes what the mail server says of replies."""

    def __init__(self, host: Host, settings: EmailChallenge, post: Post) -> None:
        assert settings.webhook_hmac_secret is not None
        self._host = host
        self._secret = settings.webhook_hmac_secret.value.encode()
        self._post = post
        self.take = operation("email-reply-00.take", _node)(self._take)

    def routes(self) -> list[Route]:
        signed = Handler(f"the HMAC in {SIGNATURE} is over the body, and whoever has none gets the same answer")
        summary = "Take a reply to a challenge mail (RFC 8823)."
        return [Route("POST", "/acme/email-webhook", self.receive, style="acme", auth=signed, content_types=(), summary=summary)]

    async def receive(self, call: Call) -> Reply:
        """200, whatever came (CA document); Unavailable goes on, so that the mail server tries again."""
        try:
            outcome = await self._received(call)
        except Unavailable:
            raise
        except Problem as problem:
            outcome = problem.detail
        self._host.log.info("email webhook", outcome=outcome)
        return Reply.empty(200)

    async def _received(self, call: Call) -> str:
        if not self._is_signed(await call.raw(), call.header_values(SIGNATURE)):
            return "not signed with webhook_hmac_secret"
        reply = await call.body(MailReply)
        id = self._post.challenge_id(reply.in_reply_to)
        challenge = await self._host.db.read(self._challenge, id, reply.in_reply_to)
        if challenge is None:
            return "no challenge has that Message-ID"
        account = await self._host.service(ACCOUNTS).find(challenge.account_id)
        node = self._host.handles.owner_of_id(id) or self._host.node_id
        taken = await self._host.db.write(self.take, Received(node=node, challenge_id=id, account=account, reply=reply))
        faults.point("email.taken")
        return taken.outcome

    def _is_signed(self, body: bytes, given: tuple[str, ...]) -> bool:
        expected = f"sha256={hmac_digest(self._secret, body, sha256).hex()}"
        return len(given) == 1 and compare_digest(given[0].encode(errors="replace"), expected.encode())

    def _challenge(self, tx: Tx, id: str, message_id: str) -> Challenge | None:
        """The challenge whose mail has that Message-ID."""
        challenge = self._host.service(CHALLENGES).view(tx, id)
        if challenge is None or not isinstance(challenge.kept, Mail):
            return None
        return challenge if challenge.kept.message_id == message_id else None

    def _take(self, tx: Tx, received: Received) -> Taken:
        challenges = self._host.service(CHALLENGES)
        challenge = self._challenge(tx, received.challenge_id, received.reply.in_reply_to)
        if challenge is None:
            return Taken("ignored")
        problem = _judged(challenge, received)
        if challenges.decide(tx, challenge.id, problem):
            faults.point("email.recorded")
            return Taken("decided")
        mail: Mail = challenge.kept
        if mail.send_on == "post" or mail.verdict is not None:
            return Taken("ignored")
        early = msgspec.structs.replace(mail, verdict=problem.detail if problem else "")
        kept = challenges.keep(tx, challenge.id, early)
        faults.point("email.recorded")
        return Taken("kept" if kept else "ignored")


def _judged(challenge: Challenge, received: Received) -> Problem | None:
    """Why the reply does not prove the address, None where it does."""
    if received.account is None or received.account.status != "valid":
        return Unauthorized("the account is not valid any more")
    key_authorization = f"{challenge.kept.token_part1}{challenge.token}.{received.account.thumbprint}"
    wrong = wrong_with(received.reply, challenge.identifier.value, key_authorization)
    return IncorrectResponse(wrong) if wrong else None
