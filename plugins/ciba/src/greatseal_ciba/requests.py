"""What clients ask of people: stored under a handle for the client and an id for the person, who decides about it."""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from sqlalchemy import select, update

from greatseal import faults, polling
from greatseal.api.audit import AuditEvent
from greatseal.api.authorization import Authorization, Authorizations, Proposal
from greatseal.api.identity import SessionView
from greatseal.api.moments import SECOND
from greatseal.api.store import Row, Tx
from greatseal.db.tables import insert_new, param
from greatseal.host import Host
from greatseal.polling import PolledTable, digest_of
from greatseal_ciba.parameters import Wanted
from greatseal_ciba.settings import CibaTokens
from greatseal_ciba.tables import request as t

KIND = "crq"
"""The kind of auth_req_ids."""
SHOWN = 50
"""Requests that a person is shown at once, the latest."""

REQUESTS = PolledTable(
    t,
    expired="this request has expired; begin again at the application",
    answered="this request was answered before; to change that, begin again at the application",
)

_NEW = insert_new(t)
_BY_ID = select(t).where(t.c.id == param("key"), t.c.subject == param("person"), t.c.expires_at > param("moment"))
_OF_PERSON = (
    select(t)
    .where(t.c.subject == param("person"), t.c.status == "pending", t.c.expires_at > param("moment"))
    .order_by(t.c.created_at.desc())
    .limit(SHOWN)
)
_OWES_PING = update(t).where(t.c.digest == param("handle")).values(due_at=param("due"))


class Waiting(polling.Waiting, frozen=True, kw_only=True):
    """A row. Moments are microseconds; ``pings`` says that the client is told of the decision."""

    id: str
    subject: str
    encoded: str
    binding_message: str | None
    pings: bool
    created_at: int

    @property
    def asked(self) -> Authorization:
        """What the client asked for. Polls do without."""
        return msgspec.json.decode(self.encoded, type=Authorization)


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

    def use_up(self, tx: Tx, digest: bytes) -> bool:
        """Take what was approved; False when another poll was first, or it is too late."""
        return REQUESTS.use_up(tx, digest)

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
        await REQUESTS.sweep(self._host.db, self._host.clock)

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

    def _decide(self, tx: Tx, waiting: Waiting, decision: polling.Status) -> None:
        REQUESTS.decide(tx, waiting.digest, decision)
        if waiting.pings:
            tx.run(_OWES_PING, handle=waiting.digest, due=tx.now)
            tx.after_commit(self._decided)


def find(tx: Tx, digest: bytes) -> Waiting | None:
    """The request of that digest."""
    row = REQUESTS.find(tx, digest)
    return None if row is None else _waiting(row)


def _of_person(tx: Tx, subject: str) -> list[Waiting]:
    return [_waiting(row) for row in tx.all(_OF_PERSON, person=subject, moment=tx.now)]


def _to_person(tx: Tx, id: str, subject: str) -> Waiting | None:
    row = tx.one(_BY_ID, key=id, person=subject, moment=tx.now)
    return None if row is None else _waiting(row)


def _waiting(row: Row) -> Waiting:
    return Waiting(
        id=row.id,
        digest=bytes(row.digest),
        client_id=row.client_id,
        subject=row.subject,
        encoded=row.asked,
        binding_message=row.binding_message,
        status=row.status,
        pings=row.notification is not None,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )
