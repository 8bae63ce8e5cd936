"""Telling a client that its person has decided (CIBA Core s10.2): durable, with retries, to public addresses."""

import asyncio

import msgspec
from sqlalchemy import or_, select, update

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.clients import Clients
from greatseal.api.moments import SECOND
from greatseal.api.problems import Problem
from greatseal.api.services import RESOLVER
from greatseal.api.store import Row, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.net.addresses import AddressPolicy
from greatseal.net.outbound import NameResolver, fetch
from greatseal.net.system import SystemResolver
from greatseal_ciba.registration import ENDPOINT
from greatseal_ciba.requests import Notification
from greatseal_ciba.settings import NotificationSettings
from greatseal_ciba.tables import request as t

TIMEOUT = 5.0
"""Seconds that a client has for its answer."""
RETRIES = (5 * SECOND, 20 * SECOND, 60 * SECOND)
"""How long after each failed attempt the next one is due; after the last there is none: the client may poll."""
LEASE = 60 * SECOND
"""How long an attempt may take before another process tries again."""
AT_ONCE = 32
"""Pings that are sent at once in a process."""
BATCH = 500

_is_due = or_(t.c.due_at <= param("now"), t.c.due_at > param("latest"))
"""No attempt is put off further than the last of RETRIES: what seems to be was put off by a clock that was ahead."""
DUE = select(t.c.id).where(_is_due).order_by(t.c.due_at).limit(BATCH)
CLAIM = (
    update(t)
    .where(t.c.id == param("key"), _is_due)
    .values(attempts=t.c.attempts + 1, due_at=param("lease_until"))
    .returning(t.c.id, t.c.client_id, t.c.subject, t.c.notification, t.c.attempts, t.c.expires_at)
)
LATER = update(t).where(t.c.id == param("key")).values(due_at=param("again_at"))
DONE = update(t).where(t.c.id == param("key")).values(due_at=None, notification=None)


class Pings:
    """The delivery of pings; the rows of decided requests are its queue."""

    def __init__(self, host: Host, clients: Clients) -> None:
        self._host = host
        self._clients = clients
        self._policy = AddressPolicy(allow_private=host.settings(NotificationSettings).allow_private_notification_hosts)
        self._slots = asyncio.Semaphore(AT_ONCE)

    def begin(self) -> None:
        """Deliver what is due, beside what goes on now."""
        self._host.spawn("CIBA pings", self.deliver())

    async def deliver(self) -> None:
        """Deliver all that is due: after a decision, and in a job for retries and for what a crash left behind."""
        while due := await self._host.db.read(_due):
            claimed = await asyncio.gather(*(self._deliver_one(id) for id in due))
            if not any(claimed):
                return

    async def _deliver_one(self, id: str) -> bool:
        async with self._slots:
            row = await self._host.db.write(_claim, id)
            if row is None:
                return False
            client = await self._clients.get(row.client_id)
            uri = client.more.get(ENDPOINT) if client is not None else None
            if not uri:
                await self._host.db.write(_done, id)
                return True
            problem = await self._send(row, str(uri))
            faults.point("ciba.pinged")
            await self._host.db.write(_settle, row, problem)
            return True

    async def _send(self, row: Row, uri: str) -> str | None:
        """One attempt. What went wrong, None when the client took it; no redirect is followed (s10.2)."""
        secret = self._host.keys.open(bytes(row.notification), table=t.name, row=row.id, field="notification")
        said = msgspec.json.decode(secret, type=Notification)
        try:
            answer = await fetch(
                uri,
                resolver=self._resolver(),
                policy=self._policy,
                seconds=TIMEOUT,
                max_body=65_536,
                headers={"Authorization": f"Bearer {said.token}"},
                json={"auth_req_id": said.auth_req_id},
            )
        except Problem as problem:
            return problem.detail or problem.cause or type(problem).__name__
        return None if 200 <= answer.status < 300 else f"{uri} answered with status {answer.status}"

    def _resolver(self) -> NameResolver:
        return self._host.optional_service(RESOLVER) or SystemResolver()


def _due(tx: Tx) -> list[str]:
    return [row.id for row in tx.all(DUE, now=tx.now, latest=tx.now + RETRIES[-1])]


def _claim(tx: Tx, id: str) -> Row | None:
    return tx.one(CLAIM, key=id, now=tx.now, latest=tx.now + RETRIES[-1], lease_until=tx.now + LEASE)


def _done(tx: Tx, id: str) -> None:
    tx.run(DONE, key=id)


def _settle(tx: Tx, row: Row, problem: str | None) -> None:
    if problem is None or row.attempts > len(RETRIES) or tx.now >= row.expires_at:
        tx.run(DONE, key=row.id)
    else:
        tx.run(LATER, key=row.id, again_at=tx.now + RETRIES[row.attempts - 1])
    tx.audit(
        AuditEvent(
            event_type="ciba_ping",
            service="idp",
            outcome="success" if problem is None else "failure",
            sub=row.subject,
            client_id=row.client_id,
            detail=problem and f"attempt {row.attempts}: {problem}"[:500],
        )
    )
