"""What devices ask for: pending, then approved or denied by a person, then used by one poll; each step is one guarded UPDATE."""

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
from greatseal.api.problems import Conflict, NotFound, Unavailable
from greatseal.api.store import Refuse, Row, Tx, scan
from greatseal.db.tables import insert_new, param
from greatseal.host import Host
from greatseal_device_flow import user_codes
from greatseal_device_flow.settings import DeviceTokens
from greatseal_device_flow.tables import request as t

KIND = "dc"
"""The kind of device codes."""
Status = Literal["pending", "approved", "denied", "used"]
KEPT = 600 * SECOND
"""How long an expired request is remembered: its device learns that it is too old."""
BITE = 500
"""Rows that one transaction deletes."""
TRIES = 200
"""User codes that are tried: one of this node that nobody else has is among a few."""

_NEW = insert_new(t)
_BY_DIGEST = select(t).where(t.c.digest == param("device"))
_BY_USER_CODE = select(t).where(t.c.user_digest == param("code"), t.c.expires_at > param("moment"))
_DECIDE = (
    update(t)
    .where(t.c.digest == param("device"), t.c.status == "pending", t.c.expires_at > param("moment"))
    .values(status=param("decision"))
)
_USE = update(t).where(t.c.digest == param("device"), t.c.status == "approved", t.c.expires_at > param("moment")).values(status="used")
_OLD = select(t.c.digest).where(t.c.expires_at <= param("before")).limit(BITE)
_SWEEP = delete(t).where(t.c.digest.in_(_OLD))


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A row. Moments are microseconds."""

    digest: bytes
    client_id: str
    encoded: str
    status: Status
    created_at: int
    expires_at: int

    @property
    def asked(self) -> Authorization:
        """What the device asked for. Polls do without."""
        return msgspec.json.decode(self.encoded, type=Authorization)

    def is_expired(self, now: int) -> bool:
        """Whether it is too late for everybody."""
        return self.expires_at <= now


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """What a device is given."""

    device_code: str
    user_code: str
    expires_in: int
    interval: int


class DeviceRequests:
    """The requests of this node."""

    def __init__(self, host: Host, authorizations: Authorizations, settings: DeviceTokens) -> None:
        self._host = host
        self._authorizations = authorizations
        self._settings = settings

    async def begin(self, asked: Authorization) -> Begun:
        """Store a request under two new codes. Raises Unavailable when no user code is left, which takes billions of requests."""
        device_code = self._host.handles.mint(KIND)
        for _ in range(TRIES):
            user_code = user_codes.make()
            if self._host.handles.owner_of_key(user_code) != self._host.node_id:
                continue  # whoever types it is led to the node that the device asked
            if await self._host.db.write(self._insert, digest_of(device_code), user_codes.digest_of(user_code), asked):
                settings = self._settings
                return Begun(
                    device_code=device_code,
                    user_code=user_code,
                    expires_in=settings.device_code_ttl,
                    interval=settings.device_interval,
                )
        raise Unavailable("no code for the device can be made now", cause=f"{TRIES} user codes are other nodes' or taken")

    async def find(self, device_code: str) -> Waiting | None:
        """The request of a device code, of whatever state and age."""
        return await self._host.db.read(find, digest_of(device_code))

    async def typed(self, user_code: str) -> Waiting | None:
        """The request of a user code as it is shown; None when it is unknown or expired."""
        return await self._host.db.read(_typed, user_codes.digest_of(user_code))

    async def approve(self, waiting: Waiting, proposal: Proposal, session: SessionView) -> None:
        """Allow what was proposed. Raises Conflict when it was decided before, NotFound when it has expired, LoginRequired."""
        await self._host.db.write(self._approve, waiting, proposal, session)

    async def deny(self, waiting: Waiting, session: SessionView) -> None:
        """Refuse it. Raises as :meth:`approve`."""
        await self._host.db.write(_deny, waiting, session)

    async def sweep(self) -> None:
        """Delete what nobody will ask for again."""
        before = self._host.clock.passed() - KEPT
        while await self._host.db.write(_sweep, before) == BITE:
            pass

    def _insert(self, tx: Tx, digest: bytes, user_digest: bytes, asked: Authorization) -> bool:
        inserted = tx.count(
            _NEW,
            digest=digest,
            user_digest=user_digest,
            client_id=asked.client_id,
            asked=msgspec.json.encode(asked).decode(),
            status="pending",
            created_at=tx.now,
            expires_at=tx.now + self._settings.device_code_ttl * SECOND,
        )
        return inserted == 1

    def _approve(self, tx: Tx, waiting: Waiting, proposal: Proposal, session: SessionView) -> None:
        _decide(tx, waiting, "approved")
        self._authorizations.allow(tx, proposal, session, origin=waiting.digest, until=waiting.expires_at)
        scopes = " ".join(proposal.authorization.scopes)
        tx.audit(AuditEvent(event_type="device_approved", service="idp", sub=session.subject, client_id=waiting.client_id, detail=scopes))
        tx.after_commit(partial(faults.point, "device.approved"))


def digest_of(device_code: str) -> bytes:
    """What is stored of a device code."""
    return sha256(device_code.encode()).digest()


def find(tx: Tx, digest: bytes) -> Waiting | None:
    """The request of that digest."""
    row = tx.one(_BY_DIGEST, device=digest)
    return None if row is None else _waiting(row)


def use_up(tx: Tx, digest: bytes) -> bool:
    """Take what was approved; False when another poll was first, or it is too late."""
    return tx.count(_USE, device=digest, moment=tx.now) == 1


def _decide(tx: Tx, waiting: Waiting, decision: Status) -> None:
    if tx.count(_DECIDE, device=waiting.digest, decision=decision, moment=tx.now) == 1:
        return
    now = find(tx, waiting.digest)
    if now is None or now.is_expired(tx.now):
        raise Refuse(NotFound("this code has expired; begin again at the device"))
    raise Refuse(decided())


def decided() -> Conflict:
    """Somebody was faster."""
    return Conflict("this device was answered before; to change that, begin again at the device")


def _deny(tx: Tx, waiting: Waiting, session: SessionView) -> None:
    _decide(tx, waiting, "denied")
    tx.audit(AuditEvent(event_type="device_denied", service="idp", outcome="failure", sub=session.subject, client_id=waiting.client_id))


def _typed(tx: Tx, user_digest: bytes) -> Waiting | None:
    row = tx.one(_BY_USER_CODE, code=user_digest, moment=tx.now)
    return None if row is None else _waiting(row)


@scan
def _sweep(tx: Tx, before: int) -> int:
    return tx.count(_SWEEP, before=before)


def _waiting(row: Row) -> Waiting:
    return Waiting(
        digest=bytes(row.digest),
        client_id=row.client_id,
        encoded=row.asked,
        status=row.status,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )
