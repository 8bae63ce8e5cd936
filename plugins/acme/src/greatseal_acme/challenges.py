"""Challenges (RFC 8555 s7.1.5, s7.5.1): answered once, decided once, and the cascade of a decision in one transaction."""

from collections.abc import Mapping

import msgspec
from sqlalchemy import select, update

from greatseal import faults
from greatseal.api.acme import AccountView, Challenge, ChallengeValidator
from greatseal.api.audit import AuditEvent
from greatseal.api.problems import BadRequest, Problem, Uncertain
from greatseal.api.store import Refuse, Row, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_acme import tables as t
from greatseal_acme.accounts import Accounts
from greatseal_acme.authorizations import BY_ID as AUTHORIZATION_BY_ID
from greatseal_acme.authorizations import (
    INVALIDATE,
    READY,
    VALIDATE,
    Authorization,
    Authorizations,
    StoredChallenge,
    challenge_of,
    fail_orders,
    of_type,
    status_at,
)
from greatseal_acme.outage import once_back
from greatseal_acme.protocol.objects import encode, not_found, problem_document
from greatseal_acme.protocol.urls import Paths, is_id
from greatseal_acme.validation import DEQUEUE, ENQUEUE, LEASE, Validations, attempt_of, guarded

BY_ID = select(t.challenge).where(t.challenge.c.id == param("id"))
ACCEPT = (
    update(t.challenge)
    .where(t.challenge.c.id == param("challenge_id"), t.challenge.c.status == "pending")
    .values(status="processing", kept=param("new_kept"))
)
KEEP = (
    update(t.challenge).where(t.challenge.c.id == param("challenge_id"), t.challenge.c.status == "pending").values(kept=param("new_kept"))
)
DECIDE = (
    update(t.challenge)
    .where(t.challenge.c.id == param("challenge_id"), t.challenge.c.status == "processing")
    .values(status=param("new_status"), error=param("error"), validated_at=param("validated_at"))
)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A client's response to a challenge."""

    authorization_id: str
    type: str
    account_id: str
    ca_id: str
    payload: Mapping[str, object]


class Challenges:
    """The challenges of this server (service ``CHALLENGES``)."""

    def __init__(self, host: Host, paths: Paths, accounts: Accounts, authorizations: Authorizations) -> None:
        self._host = host
        self._paths = paths
        self._authorizations = authorizations
        self.validations = Validations(host, accounts, self)

    async def get(self, authorization_id: str, type: str, account: AccountView, ca_id: str) -> StoredChallenge:
        """The account's challenge. Raises the one refusal for unknown and foreign ones."""
        return chosen(await self._authorizations.get(authorization_id, account, ca_id), type)

    async def answer(self, answer: Answer, account: AccountView) -> StoredChallenge:
        """Begin the validation. An answered challenge is shown as it is, and nothing happens."""
        if not is_id(answer.authorization_id):
            raise not_found()
        try:
            stored, accepted = await self._host.db.write(self._accept, answer)
        except Uncertain:
            self._host.spawn(f"take up {answer.authorization_id}", once_back(lambda: self._take_up(answer, account)))
            raise
        if not accepted:
            return stored
        faults.point("acme.challenge.accepted")
        return await self._begin(stored, answer, account)

    def view(self, tx: Tx, id: str) -> Challenge | None:
        found = self._found(tx, id)
        return None if found is None else found[0]

    def decide(self, tx: Tx, id: str, problem: Problem | None) -> bool:
        found = self._found(tx, id)
        if found is None or found[0].status != "processing":
            return False
        challenge, authorization = found
        if problem is None:
            problem = _too_late(status_at(authorization, tx.now))
        tx.run(
            DECIDE,
            challenge_id=id,
            new_status="valid" if problem is None else "invalid",
            error=None if problem is None else encode(problem_document(problem)),
            validated_at=tx.now if problem is None else None,
        )
        tx.run(DEQUEUE, challenge_id=id)
        if problem is None:
            if tx.count(VALIDATE, authorization_id=authorization.id, now=tx.now):
                tx.run(READY, authorization_id=authorization.id, now=tx.now)
        elif tx.count(INVALIDATE, authorization_id=authorization.id):
            fail_orders(tx, authorization.id, problem, challenge.identifier)
        tx.audit(_outcome(challenge, problem))
        return True

    def keep(self, tx: Tx, id: str, kept: msgspec.Struct) -> bool:
        return tx.count(KEEP, challenge_id=id, new_kept=encode(kept)) > 0

    async def _take_up(self, answer: Answer, account: AccountView) -> None:
        """Begin what was accepted if the commit came through: its client only sees a 503, and a challenge that is processing."""
        stored = await self.get(answer.authorization_id, answer.type, account, answer.ca_id)
        if stored.challenge.status == "processing":
            await self._begin(stored, answer, account)

    async def _begin(self, stored: StoredChallenge, answer: Answer, account: AccountView) -> StoredChallenge:
        """The part of the validator that comes before the reply; then the queue has it."""
        validator = self._host.components(ChallengeValidator)[stored.challenge.type]
        started = await guarded(self._host, None, validator.start(attempt_of(stored.challenge, account)))
        if isinstance(started, Problem):
            await self._host.db.write(self.decide, stored.challenge.id, started)
            return await self.get(answer.authorization_id, answer.type, account, answer.ca_id)
        self.validations.add(stored.challenge.id, account.id, stored.challenge)
        return stored

    def _accept(self, tx: Tx, answer: Answer) -> tuple[StoredChallenge, bool]:
        authorization = self._authorizations.read(tx, answer.authorization_id)
        if authorization is None or not authorization.belongs_to(answer.account_id, answer.ca_id):
            raise Refuse(not_found())
        stored = chosen(authorization, answer.type)
        challenge = stored.challenge
        if authorization.status != "pending" or challenge.status != "pending":
            return stored, False
        validator = self._host.components(ChallengeValidator).get(challenge.type)
        if validator is None:
            raise Refuse(not_found())
        try:
            kept = validator.accept(tx, challenge, answer.payload) or challenge.kept
        except Problem as problem:
            raise Refuse(problem) from problem
        tx.run(ACCEPT, challenge_id=challenge.id, new_kept=None if kept is None else encode(kept))
        tx.run(ENQUEUE, challenge_id=challenge.id, lease_until=tx.now + LEASE)
        return msgspec.structs.replace(stored, challenge=msgspec.structs.replace(challenge, status="processing", kept=kept)), True

    def _found(self, tx: Tx, id: str) -> tuple[Challenge, Row] | None:
        row = tx.one(BY_ID, id=id)
        authorization = None if row is None else tx.one(AUTHORIZATION_BY_ID, id=row.authorization_id)
        if row is None or authorization is None:
            return None
        validator = self._host.components(ChallengeValidator).get(row.type)
        kept_as = validator.kept_as if validator else None
        account_url = self._paths.account(authorization.account_id, self._paths.scope(authorization.ca_id))
        return challenge_of(row, authorization, account_url, kept_as), authorization


def chosen(authorization: Authorization, type: str) -> StoredChallenge:
    """The challenge of that type, or the one refusal."""
    stored = of_type(authorization.challenges, type)
    if stored is None:
        raise not_found()
    return stored


def _too_late(authorization_status: str) -> Problem | None:
    """Why a successful probe proves nothing any more."""
    if authorization_status in {"pending", "valid"}:
        return None
    return BadRequest(f"the authorization was {authorization_status} before the validation ended")


def _outcome(challenge: Challenge, problem: Problem | None) -> AuditEvent:
    what = f"{challenge.type} {challenge.identifier.type}:{challenge.identifier.value}"
    if problem is None:
        return AuditEvent(event_type="challenge.valid", service="ca", sub=challenge.account_id, detail=what)
    detail = f"{what}: {problem.type}"
    return AuditEvent(event_type="challenge.invalid", service="ca", outcome="failure", sub=challenge.account_id, detail=detail)
