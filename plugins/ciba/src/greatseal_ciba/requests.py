"""What clients ask of people: pending, then approved or denied by the person, then used by one poll; each step is one guarded UPDATE."""

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Literal

import msgspec
from sqlalchemy import delete, select, update

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.authorization import Authorization, Authorizations, Proposal
from greatseal.api.identity import SessionView
from greatseal.api.moments import SECOND
from greatseal.api.problems import Conflict, NotFound
from greatseal.api.store import Refuse, Row, Tx, scan
from greatseal.db.tables import insert_new, param
from greatseal.host import Host
from greatseal_ciba.parameters import Wanted
from greatseal_ciba.settings import CibaTokens
from greatseal_ciba.tables import request as t

KIND = "crq"
"""The kind of auth_req_ids."""
Status = Literal["pending", "approved", "denied", "used"]
KEPT = 600 * SECOND
"""How long an expired request is remembered: its client learns that it is too old."""
BITE = 500
"""Rows that one transaction deletes."""
SHOWN = 50
"""Requests that a person is shown at once, the latest."""

_NEW = insert_new(t)
_BY_DIGEST = select(t).where(t.c.digest == param("handle"))
_BY_ID = select(t).where(t.c.id == param("key"), t.c.subject == param("person"), t.c.expires_at > param("moment"))
_OF_PERSON = (
    select(t)
    .where(t.c.subject == param("person"), t.c.status == "pending", t.c.expires_at > param("moment"))
    .order_by(t.c.created_at.desc())
    .limit(SHOWN)
)
_POLLED = update(t).where(t.c.digest == param("handle")).values(polled_at=param("moment"), poll_interval=param("pause"))
_DECIDE = (
    update(t)
    .where(t.c.digest == param("handle"), t.c.status == "pending", t.c.expires_at > param("moment"))
    .values(status=param("decision"), polled_at=None, due_at=param("due"))
)
_USE = update(t).where(t.c.digest == param("handle"), t.c.status == "approved", t.c.expires_at > param("moment")).values(status="used")
_OLD = select(t.c.digest).where(t.c.expires_at <= param("before")).limit(BITE)
_SWEEP = delete(t).where(t.c.digest.in_(_OLD))


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A row. Moments are microseconds, ``interval`` is seconds; ``pings`` says that the client is told of the decision."""

    id: str
    digest: bytes
    client_id: str
    subject: str
    asked: Authorization
    binding_message: str | None
    status: Status
    interval: int
    polled_at: int | None
    pings: bool
    created_at: int
    expires_at: int

    def is_expired(self, now: int) -> bool:
        """Whether it is too late for everybody."""
        return self.expires_at <= now

    def is_too_fast(self, now: int) -> bool:
        """Whether a poll comes too soon after the one before it; the first never does, and the first after the decision neither."""
        return self.polled_at is not None and 0 <= now - self.polled_at < self.interval * SECOND


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """What a client is given (CIBA Core s7.3)."""

    auth_req_id: str
    expires_in: int
    interval: int


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """What a ping says, and what proves it to the client."""

    auth_req_id: str
    token: str


class CibaRequests:
    """The requests of this node. ``decided`` runs after each decision that a client is to be told of."""

    def __init__(self, host: Host, authorizations: Authorizations, settings: CibaTokens, decided: Callable[[], None]) -> None:
        self._host = host
        self._authorizations = authorizations
        self._settings = settings
        self._decided = decided

    async def begin(self, asked: Authorization, wanted: Wanted, subject: str) -> Begun:
        """Store a request to a person."""
        handle = self._host.handles.mint(KIND)
        await self._host.db.write(self._insert, handle, asked, wanted, subject)
        return Begun(auth_req_id=handle, expires_in=self._seconds(wanted), interval=self._settings.ciba_interval)

    async def find(self, auth_req_id: str) -> Waiting | None:
        """The request of a handle, of whatever state and age."""
        return await self._host.db.read(find, digest_of(auth_req_id))

    async def of_person(self, subject: str) -> Sequence[Waiting]:
        """Those that wait for a person, the latest first."""
        return await self._host.db.read(_of_person, subject)

    async def to_person(self, id: str, subject: str) -> Waiting | None:
        """One of them, also one that was decided; None when it is unknown, expired, or somebody else's."""
        return await self._host.db.read(_to_person, id, subject)

    async def approve(self, waiting: Waiting, proposal: Proposal, session: SessionView) -> None:
        """Allow what was proposed. Raises Conflict when it was decided before, NotFound when it has expired, LoginRequired."""
        await self._host.db.write(self._approve, waiting, proposal, session)

    async def deny(self, waiting: Waiting, session: SessionView) -> None:
        """Refuse it. Raises as :meth:`approve`."""
        await self._host.db.write(self._deny, waiting, session)

    async def sweep(self) -> None:
        """Delete what nobody will ask for again."""
        before = self._host.clock.passed() - KEPT
        while await self._host.db.write(_sweep, before) == BITE:
            pass

    def _insert(self, tx: Tx, handle: str, asked: Authorization, wanted: Wanted, subject: str) -> None:
        id, sealed = self._host.handles.new_id(), None
        if wanted.notification_token is not None:
            secret = msgspec.json.encode(Notification(auth_req_id=handle, token=wanted.notification_token))
            sealed = self._host.keys.seal(secret, table=t.name, row=id, field="notification")
        tx.run(
            _NEW,
            id=id,
            digest=digest_of(handle),
            client_id=asked.client_id,
            subject=subject,
            asked=msgspec.json.encode(asked).decode(),
            binding_message=wanted.binding_message,
            status="pending",
            poll_interval=self._settings.ciba_interval,
            polled_at=None,
            notification=sealed,
            attempts=0,
            due_at=None,
            created_at=tx.now,
            expires_at=tx.now + self._seconds(wanted) * SECOND,
        )

    def _seconds(self, wanted: Wanted) -> int:
        return min(wanted.expiry or self._settings.ciba_ttl, self._settings.ciba_ttl)

    def _approve(self, tx: Tx, waiting: Waiting, proposal: Proposal, session: SessionView) -> None:
        self._decide(tx, waiting, "approved")
        self._authorizations.allow(tx, proposal, session, origin=waiting.digest, until=waiting.expires_at)
        scopes = " ".join(proposal.authorization.scopes)
        tx.audit(AuditEvent(event_type="ciba_approved", service="idp", sub=session.subject, client_id=waiting.client_id, detail=scopes))
        tx.after_commit(partial(faults.point, "ciba.approved"))

    def _deny(self, tx: Tx, waiting: Waiting, session: SessionView) -> None:
        self._decide(tx, waiting, "denied")
        tx.audit(AuditEvent(event_type="ciba_denied", service="idp", outcome="failure", sub=session.subject, client_id=waiting.client_id))

    def _decide(self, tx: Tx, waiting: Waiting, decision: Status) -> None:
        due = tx.now if waiting.pings else None
        if tx.count(_DECIDE, handle=waiting.digest, decision=decision, moment=tx.now, due=due) == 1:
            if waiting.pings:
                tx.after_commit(self._decided)
            return
        now = find(tx, waiting.digest)
        if now is None or now.is_expired(tx.now):
            raise Refuse(NotFound("this request has expired; begin again at the application"))
        raise Refuse(decided())


def digest_of(auth_req_id: str) -> bytes:
    """What is stored of a handle."""
    return sha256(auth_req_id.encode()).digest()


def find(tx: Tx, digest: bytes) -> Waiting | None:
    """The request of that digest."""
    row = tx.one(_BY_DIGEST, handle=digest)
    return None if row is None else _waiting(row)


def note_poll(tx: Tx, waiting: Waiting, *, slower: int = 0) -> None:
    """Remember that the client polled, and by how many seconds it is to be slower from now on."""
    tx.run(_POLLED, handle=waiting.digest, moment=tx.now, pause=waiting.interval + slower)


def use_up(tx: Tx, waiting: Waiting) -> bool:
    """Take what was approved; False when another poll was first, or it is too late."""
    return tx.count(_USE, handle=waiting.digest, moment=tx.now) == 1


def decided() -> Conflict:
    """Somebody was faster."""
    return Conflict("this request was answered before; to change that, begin again at the application")


def _of_person(tx: Tx, subject: str) -> list[Waiting]:
    return [_waiting(row) for row in tx.all(_OF_PERSON, person=subject, moment=tx.now)]


def _to_person(tx: Tx, id: str, subject: str) -> Waiting | None:
    row = tx.one(_BY_ID, key=id, person=subject, moment=tx.now)
    return None if row is None else _waiting(row)


@scan
def _sweep(tx: Tx, before: int) -> int:
    return tx.count(_SWEEP, before=before)


def _waiting(row: Row) -> Waiting:
    return Waiting(
        id=row.id,
        digest=bytes(row.digest),
        client_id=row.client_id,
        subject=row.subject,
        asked=msgspec.json.decode(row.asked, type=Authorization),
        binding_message=row.binding_message,
        status=row.status,
        interval=row.poll_interval,
        polled_at=row.polled_at,
        pings=row.notification is not None,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )
