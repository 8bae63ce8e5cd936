"""What devices ask for: stored under two codes, found by either, decided about by a person."""

from functools import partial

import msgspec
from sqlalchemy import select

from greatseal import faults, polling
from greatseal.api.audit import AuditEvent
from greatseal.api.authorization import Authorization, Authorizations, Proposal
from greatseal.api.identity import SessionView
from greatseal.api.moments import SECOND
from greatseal.api.problems import Unavailable
from greatseal.api.store import Row, Tx
from greatseal.db.tables import insert_new, param
from greatseal.host import Host
from greatseal.polling import PolledTable, digest_of
from greatseal_device_flow import user_codes
from greatseal_device_flow.settings import DeviceTokens
from greatseal_device_flow.tables import request as t

KIND = "dc"
"""The kind of device codes."""
TRIES = 200
"""User codes that are tried: one of this node that nobody else has is among a few."""

REQUESTS = PolledTable(
    t,
    expired="this code has expired; begin again at the device",
    answered="this device was answered before; to change that, begin again at the device",
)

_NEW = insert_new(t)
_BY_USER_CODE = select(t).where(t.c.user_digest == param("code"), t.c.expires_at > param("moment"))


class Waiting(polling.Waiting, frozen=True, kw_only=True):
    """A row. Moments are microseconds."""

    encoded: str
    created_at: int

    @property
    def asked(self) -> Authorization:
        """What the device asked for. Polls do without."""
        return msgspec.json.decode(self.encoded, type=Authorization)


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

    async def typed(self, text: str) -> tuple[str, Waiting] | None:
        """What a person typed, as the device shows it, and its request; None when it is no code, or unknown or expired."""
        user_code = user_codes.read(text)
        if user_code is None:
            return None
        waiting = await self._host.db.read(_typed, user_codes.digest_of(user_code))
        return None if waiting is None else (user_code, waiting)

    def use_up(self, tx: Tx, digest: bytes) -> bool:
        """Take what was approved; False when another poll was first, or it is too late."""
        return REQUESTS.use_up(tx, digest)

    async def approve(self, waiting: Waiting, proposal: Proposal, session: SessionView) -> None:
        """Allow what was proposed. Raises Conflict when it was decided before, NotFound when it has expired, LoginRequired."""
        await self._host.db.write(self._approve, waiting, proposal, session)

    async def deny(self, waiting: Waiting, session: SessionView) -> None:
        """Refuse it. Raises as :meth:`approve`."""
        await self._host.db.write(_deny, waiting, session)

    async def sweep(self) -> None:
        """Delete what nobody will ask for again."""
        await REQUESTS.sweep(self._host.db, self._host.clock)

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
        REQUESTS.decide(tx, waiting.digest, "approved")
        self._authorizations.allow(tx, proposal, session, origin=waiting.digest, until=waiting.expires_at)
        scopes = " ".join(proposal.authorization.scopes)
        tx.audit(AuditEvent(event_type="device_approved", service="idp", sub=session.subject, client_id=waiting.client_id, detail=scopes))
        tx.after_commit(partial(faults.point, "device.approved"))


def find(tx: Tx, digest: bytes) -> Waiting | None:
    """The request of that digest."""
    row = REQUESTS.find(tx, digest)
    return None if row is None else _waiting(row)


def _deny(tx: Tx, waiting: Waiting, session: SessionView) -> None:
    REQUESTS.decide(tx, waiting.digest, "denied")
    tx.audit(AuditEvent(event_type="device_denied", service="idp", outcome="failure", sub=session.subject, client_id=waiting.client_id))


def _typed(tx: Tx, user_digest: bytes) -> Waiting | None:
    row = tx.one(_BY_USER_CODE, code=user_digest, moment=tx.now)
    return None if row is None else _waiting(row)


def _waiting(row: Row) -> Waiting:
    return Waiting(
        digest=bytes(row.digest),
        client_id=row.client_id,
        encoded=row.asked,
        status=row.status,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )
