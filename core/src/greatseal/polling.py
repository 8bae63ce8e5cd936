"""Requests of a client that a person decides about somewhere else, while the client polls: devices (RFC 8628), CIBA.

A plugin brings the table, what makes a request, the pages on which it is decided, and a :class:`PolledGrant` of a few lines. Each step is
one guarded UPDATE: pending, then approved or denied by a person, then used by one poll.

.. code-block:: python

    requests = PolledTable(tables.request, expired="...", answered="...")

    class DeviceCode(PolledGrant):
        grant_type = "urn:ietf:params:oauth:grant-type:device_code"
        handle = ("device_code", "dc")
        name, rule, point = "device code", "RFC 8628 s3.5", "device.redeemed"
"""

from collections import OrderedDict
from functools import partial
from hashlib import sha256
from math import inf
from typing import ClassVar, Literal, Protocol

import msgspec
from sqlalchemy import Table, delete, select, update

from greatseal import faults
from greatseal.api.authorization import Authorizations
from greatseal.api.clients import ProvenRequest
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, Conflict, NotFound, Problem
from greatseal.api.store import Database, Refuse, Row, Tx, scan
from greatseal.api.tokens import (
    AuthorizationDenied,
    AuthorizationPending,
    ExpiredToken,
    Grant,
    Granted,
    InvalidGrant,
    SlowDown,
)
from greatseal.db.tables import param
from greatseal.host import Clock, Host

__all__ = ["Pace", "Poll", "PolledGrant", "PolledTable", "Status", "Waiting", "digest_of"]

Status = Literal["pending", "approved", "denied", "used"]
KEPT = 600 * SECOND
"""How long an expired request is remembered: its client learns that it is too old."""
BITE = 500
"""Rows that one transaction deletes."""
SLOWER = 5
"""Seconds by which the interval of a client grows that polls too fast (RFC 8628 s3.5, CIBA Core s11)."""
MOST = 50_000
"""Requests whose polls are remembered; the one that was polled longest ago is forgotten first."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A row, as far as polls need it. Moments are microseconds; ``digest`` is that of the handle, and the origin of what is allowed."""

    digest: bytes
    client_id: str
    status: Status
    expires_at: int

    def is_expired(self, now: int) -> bool:
        """Whether it is too late for everybody."""
        return self.expires_at <= now


def digest_of(handle: str) -> bytes:
    """What is stored of a handle."""
    return sha256(handle.encode()).digest()


class PolledTable:
    """The guarded steps of a table that has ``digest``, ``status`` and ``expires_at``.

    ``expired`` and ``answered`` tell a person that it is too late for a decision, and where to begin again.
    """

    def __init__(self, t: Table, *, expired: str, answered: str) -> None:
        self._expired = expired
        self._answered = answered
        self._by_digest = select(t).where(t.c.digest == param("handle"))
        self._decide = (
            update(t)
            .where(t.c.digest == param("handle"), t.c.status == "pending", t.c.expires_at > param("moment"))
            .values(status=param("decision"))
        )
        self._use = (
            update(t).where(t.c.digest == param("handle"), t.c.status == "approved", t.c.expires_at > param("moment")).values(status="used")
        )
        self.old = select(t.c.digest).where(t.c.expires_at <= param("before")).limit(BITE)
        self._sweep = delete(t).where(t.c.digest.in_(self.old))

    def find(self, tx: Tx, digest: bytes) -> Row | None:
        """The row of a handle, of whatever state and age."""
        return tx.one(self._by_digest, handle=digest)

    def decide(self, tx: Tx, digest: bytes, decision: Status) -> None:
        """Decide, once and in time. Raises Refuse with NotFound or Conflict."""
        if tx.count(self._decide, handle=digest, decision=decision, moment=tx.now) == 1:
            return
        row = self.find(tx, digest)
        if row is None or row.expires_at <= tx.now:
            raise Refuse(NotFound(self._expired))
        raise Refuse(self.decided())

    def decided(self) -> Conflict:
        """Somebody was faster."""
        return Conflict(self._answered)

    def use_up(self, tx: Tx, digest: bytes) -> bool:
        """Take what was approved; False when another poll was first, or it is too late."""
        return tx.count(self._use, handle=digest, moment=tx.now) == 1

    async def sweep(self, db: Database, clock: Clock) -> None:
        """Delete what nobody will ask for again."""
        before = clock.passed() - KEPT
        while await db.write(self._delete_old, before) == BITE:
            pass

    @scan
    def _delete_old(self, tx: Tx, before: int) -> int:
        return tx.count(self._sweep, before=before)


class Pace:
    """The last poll of each request, and its interval in seconds.

    In memory, so that waiting costs no write: a restart forgives everybody once. The node that keeps the request is asked, and no other.
    """

    def __init__(self, clock: Clock, interval: int) -> None:
        self._clock = clock
        self._interval = interval
        self._polls: OrderedDict[bytes, tuple[float, int]] = OrderedDict()

    def poll(self, digest: bytes) -> int | None:
        """Note a poll. The interval from now on when it came too soon after the one before it, else None: the first never does."""
        now = self._clock.monotonic()
        last, interval = self._polls.pop(digest, (-inf, self._interval))
        too_fast = now - last < interval
        interval += SLOWER if too_fast else 0
        self._polls[digest] = now, interval
        if len(self._polls) > MOST:
            self._polls.popitem(last=False)
        return interval if too_fast else None

    def forget(self, digest: bytes) -> None:
        """It is polled no more."""
        self._polls.pop(digest, None)


class Polled(Protocol):
    """The requests of a plugin."""

    async def find(self, handle: str) -> Waiting | None:
        """The request of a handle, of whatever state and age."""

    def use_up(self, tx: Tx, digest: bytes) -> bool:
        """As :meth:`PolledTable.use_up`."""


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """A poll that finds an approval, with what it gives."""

    digest: bytes
    granted: Granted


class PolledGrant(Grant[Poll]):
    """A poll changes nothing until a person has approved; the one that finds the approval uses the request up."""

    handle: ClassVar[tuple[str, str]]
    name: ClassVar[str]
    """What the handle is called, such as ``device code``."""
    rule: ClassVar[str]
    """Where the answers to polls stand."""
    point: ClassVar[str]
    """The fault point after a redemption."""

    def __init__(self, host: Host, requests: Polled, authorizations: Authorizations, pace: Pace) -> None:
        self._host = host
        self._requests = requests
        self._authorizations = authorizations
        self._pace = pace

    async def prepare(self, request: ProvenRequest) -> Poll:
        parameter, kind = self.handle
        handle = request.form.get(parameter)
        if handle is None:
            raise BadRequest(f"{parameter} is required ({self.rule})")
        waiting = await self._requests.find(handle) if self._host.handles.node_of(handle, kind) else None
        if waiting is None or waiting.client_id != request.client.client_id or waiting.status == "used":
            raise self._unknown()
        if waiting.is_expired(self._host.clock.now()):
            raise ExpiredToken(f"the {self.name} has expired; ask for another one ({self.rule})")
        if waiting.status == "pending":
            raise self._pending(waiting)
        self._pace.forget(waiting.digest)
        if waiting.status == "denied":
            raise AuthorizationDenied(f"the person did not allow it ({self.rule})")
        return Poll(digest=waiting.digest, granted=await self._authorizations.allowed(request, waiting.digest))

    def redeem(self, tx: Tx, prepared: Poll) -> Granted:
        if not self._requests.use_up(tx, prepared.digest):
            raise Refuse(self._unknown())
        self._authorizations.redeem(tx, prepared.granted)
        tx.after_commit(partial(faults.point, self.point))
        return prepared.granted

    def _unknown(self) -> InvalidGrant:
        return InvalidGrant(f"the {self.name} is unknown, used or another client's")

    def _pending(self, waiting: Waiting) -> Problem:
        """``slow_down`` is a variant of it: who has an answer waiting gets it, however fast."""
        interval = self._pace.poll(waiting.digest)
        if interval is not None:
            return SlowDown(f"wait {interval} seconds between two polls from now on ({self.rule})")
        return AuthorizationPending(f"the person has not decided yet ({self.rule})")
