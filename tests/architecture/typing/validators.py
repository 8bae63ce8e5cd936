"""Challenge types against ChallengeValidator: one that waits for a mail, one that reads a CSR, one that reads a token.

Examples of the contract, checked by mypy: no plugin has this code.
"""

import secrets
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import Executable

from greatseal.api.acme import (
    VALID,
    WAIT,
    AccountView,
    Attempt,
    BadCsr,
    Challenge,
    ChallengeValidator,
    Identifier,
    RejectedIdentifier,
    Verdict,
)
from greatseal.api.http import Call, Reply
from greatseal.api.issuance import Finalization, FinalizeCheck
from greatseal.api.problems import BadRequest, IncorrectResponse
from greatseal.api.services import ACCOUNTS, CHALLENGES
from greatseal.api.store import Tx, operation
from greatseal.host import Host


class MailSent(msgspec.Struct, frozen=True):
    """What email-reply-00 keeps: the half that only the mail carries, and the Message-ID that a reply names."""

    token_part1: str
    message_id: str


class MailReply(msgspec.Struct, frozen=True):
    in_reply_to: str
    sender: str
    response: str


class Outcome(msgspec.Struct, frozen=True):
    """The end of a wait: ``problem`` is empty for a good reply."""

    node: str
    challenge_id: str
    problem: str


def node_of(outcome: Outcome) -> str:
    return outcome.node


class EmailReply00(ChallengeValidator):
    """RFC 8823: a mail carries token-part1; the webhook of its reply decides."""

    type = "email-reply-00"
    identifier_types = frozenset({"email"})
    kept_as = MailSent

    REMEMBER: Executable
    FIND: Executable

    def __init__(self, host: Host, send: Callable[[str, MailSent], Awaitable[None]], send_on: str) -> None:
        self.host = host
        self.send = send
        self.send_on = send_on
        self.end_wait = operation("email-reply-00.end-wait", node_of)(self._end_wait)

    def offers(self, identifier: Identifier) -> bool:
        return not identifier.value.startswith("-")

    def create(self, tx: Tx, challenge: Challenge) -> MailSent:
        sent = MailSent(secrets.token_urlsafe(16), f"<{secrets.token_hex(16)}@acme.example>")
        tx.run(self.REMEMBER, message_id=sent.message_id, challenge_id=challenge.id)
        if self.send_on == "authorization":
            tx.after_commit(lambda: self.host.spawn("email-reply-00", self.send(challenge.identifier.value, sent)))
        return sent

    def members(self, challenge: Challenge) -> dict[str, object]:
        return {"token": challenge.token, "from": "acme@acme.example"}

    async def start(self, attempt: Attempt) -> None:
        if self.send_on == "post":
            await self.send(attempt.identifier.value, attempt.kept)

    async def validate(self, attempt: Attempt) -> Verdict:
        return WAIT

    async def webhook(self, call: Call) -> Reply:
        """Always 200 (ruling R18): who may not decide changes nothing."""
        reply = await call.body(MailReply)
        challenge = await self.host.db.read(self.challenge_of, reply.in_reply_to)
        if challenge is not None and challenge.status == "processing":
            account = await self.host.service(ACCOUNTS).find(challenge.account_id)
            node = self.host.handles.owner_of_id(challenge.id) or self.host.node_id
            await self.host.db.write(self.end_wait, Outcome(node, challenge.id, self.judge(challenge, account, reply)))
        return Reply.empty(200)

    def _end_wait(self, tx: Tx, outcome: Outcome) -> Outcome:
        problem = IncorrectResponse(outcome.problem) if outcome.problem else None
        self.host.service(CHALLENGES).decide(tx, outcome.challenge_id, problem)
        return outcome

    def challenge_of(self, tx: Tx, message_id: str) -> Challenge | None:
        row = tx.one(self.FIND, message_id=message_id)
        return None if row is None else self.host.service(CHALLENGES).view(tx, row.challenge_id)

    def judge(self, challenge: Challenge, account: AccountView | None, reply: MailReply) -> str:
        """What is wrong with the reply, empty for nothing."""
        if account is None or account.status != "valid":
            return "the account is not valid"
        key_authorization = f"{challenge.kept.token_part1}{challenge.token}.{account.thumbprint}"
        expected = urlsafe_b64encode(sha256(key_authorization.encode()).digest()).rstrip(b"=").decode()
        if reply.sender != challenge.identifier.value or reply.response != expected:
            return f"the reply of {challenge.identifier.value} does not hold {expected}"
        return ""


class OnionRequest(msgspec.Struct, frozen=True):
    """What onion-csr-01 keeps: its nonce from the creation on, the applicant's CSR from the response on."""

    nonce: bytes
    csr: bytes = b""


class OnionCsr01(ChallengeValidator):
    """RFC 9799 s3.2: a CSR signed by the key that the address is made of."""

    type = "onion-csr-01"
    identifier_types = frozenset({"dns"})
    wildcard = True
    kept_as = OnionRequest

    def offers(self, identifier: Identifier) -> bool:
        return identifier.base.endswith(".onion")

    def create(self, tx: Tx, challenge: Challenge) -> OnionRequest:
        return OnionRequest(secrets.token_bytes(16))

    def members(self, challenge: Challenge) -> dict[str, object]:
        return {"token": challenge.token, "nonce": challenge.kept.nonce}

    def accept(self, tx: Tx, challenge: Challenge, payload: Mapping[str, object]) -> OnionRequest:
        csr = payload.get("csr")
        if not isinstance(csr, str):
            raise BadRequest("the response has no csr")
        return OnionRequest(challenge.kept.nonce, b64decode(csr))

    async def validate(self, attempt: Attempt) -> Verdict:
        csr = x509.load_der_x509_csr(attempt.kept.csr)
        if not csr.is_signature_valid or csr.public_key() != onion_key(attempt.identifier):
            raise IncorrectResponse(f"the CSR is not signed by the key of {attempt.identifier.value}")
        if attempt.key_authorization.encode() not in attempt.kept.csr:
            raise IncorrectResponse(f"the CSR does not hold {attempt.key_authorization}")
        return VALID


class OnionKeyIsNotReused(FinalizeCheck):
    """RFC 9799 s3.2: the certificate's key must not be the onion key."""

    name = "onion-key"
    phase = "csr"

    async def check(self, finalization: Finalization) -> None:
        csr = finalization.csr
        for proven in finalization.identifiers:
            if csr is not None and proven.validated_by == OnionCsr01.type and csr.csr.public_key() == onion_key(proven.identifier):
                raise BadCsr(f"the key of the request is that of {proven.identifier.value}")


def onion_key(identifier: Identifier) -> Ed25519PublicKey:
    raise RejectedIdentifier(f"{identifier.base} is no version 3 address")
