"""Telling clients that a session ended (OpenID Connect Back-Channel Logout 1.0): durable, with retries, to public addresses."""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, insert, or_, select, update

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.clients import Client, Clients
from greatseal.api.moments import SECOND
from greatseal.api.problems import Problem
from greatseal.api.services import RESOLVER
from greatseal.api.store import Row, Tx
from greatseal.api.tokens import Tokens
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.net.addresses import AddressPolicy
from greatseal.net.outbound import NameResolver, fetch
from greatseal.net.system import SystemResolver
from greatseal_idp import tables as t
from greatseal_idp.sessions.store import StoredSession
from greatseal_idp.settings import OAuthSettings

EVENT = "http://schemas.openid.net/event/backchannel-logout"
TOKEN_SECONDS = 120
"""The life of a logout token."""
TIMEOUT = 5.0
"""Seconds that a client has for its answer."""
RETRIES = (10 * SECOND, 60 * SECOND, 300 * SECOND)
"""How long after each failed attempt the next one is due; after the last there is none."""
LEASE = 60 * SECOND
"""How long an attempt may take before another process tries again."""
LIFETIME = 3600 * SECOND
AT_ONCE = 32
"""Deliveries that run at once in a process."""
BATCH = 500

QUEUE = insert(t.notification).values({column.name: param(column.name) for column in t.notification.columns})
_is_due = or_(t.notification.c.due_at <= param("now"), t.notification.c.due_at > param("latest"))
"""No attempt is put off further than the last of RETRIES: what seems to be was put off by a clock that was ahead."""
DUE = select(t.notification.c.id).where(_is_due).order_by(t.notification.c.due_at).limit(BATCH)
CLAIM = (
    update(t.notification)
    .where(t.notification.c.id == param("key"), _is_due)
    .values(attempts=t.notification.c.attempts + 1, due_at=param("lease_until"))
    .returning(*t.notification.columns)
)
LATER = update(t.notification).where(t.notification.c.id == param("key")).values(due_at=param("again_at"))
DONE = delete(t.notification).where(t.notification.c.id == param("key"))


class Backchannel:
    """The queue of logout notifications and their delivery."""

    def __init__(self, host: Host, clients: Clients, tokens: Tokens) -> None:
        self._host = host
        self._clients = clients
        self._tokens = tokens
        self._policy = AddressPolicy(allow_private=host.settings(OAuthSettings).allow_private_logout_hosts)
        self._slots = asyncio.Semaphore(AT_ONCE)

    def queue(self, tx: Tx, session: StoredSession) -> None:
        """Have the clients of a session told, as soon as the transaction has committed."""
        for client_id in session.clients:
            tx.run(
                QUEUE,
                id=self._host.handles.new_id(),
                client_id=client_id,
                subject=session.view.subject,
                session_id=session.view.id,
                attempts=0,
                due_at=tx.now,
                expires_at=tx.now + LIFETIME,
            )
        if session.clients:
            tx.after_commit(lambda: self._host.spawn("back-channel logout", self.deliver()))

    async def deliver(self) -> None:
        """Deliver all that is due, concurrently: after a logout, and in a job for retries and for what a crash left behind."""
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
            uri = client.more.get("backchannel_logout_uri") if client is not None else None
            if client is None or not uri:
                await self._host.db.write(_done, id)
                return True
            problem = await self._send(row, client, str(uri))
            faults.point("idp.backchannel.sent")
            await self._host.db.write(_settle, row, problem)
            return True

    async def _send(self, row: Row, client: Client, uri: str) -> str | None:
        """One attempt. What went wrong, None when the client took it (s2.8)."""
        try:
            alg: str | None = client.more.get("id_token_signed_response_alg")
            token = await self._tokens.sign("logout+jwt", self._claims(row), alg=alg)
            answer = await fetch(
                uri, resolver=self._resolver(), policy=self._policy, seconds=TIMEOUT, max_body=65_536, form={"logout_token": token}
            )
        except Problem as problem:
            return problem.detail or problem.cause or type(problem).__name__
        return None if answer.status in {200, 204} else f"{uri} answered with status {answer.status}"

    def _claims(self, row: Row) -> Mapping[str, Any]:
        now = self._host.clock.now() // SECOND
        return {
            "aud": row.client_id,
            "sub": row.subject,
            "sid": row.session_id,
            "iat": now,
            "exp": now + TOKEN_SECONDS,
            "jti": f"{self._host.node_id}/{uuid.uuid4()}",
            "events": {EVENT: {}},
        }

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
    outcome = "success" if problem is None else "failure"
    detail = problem and f"attempt {row.attempts}: {problem}"[:500]
    tx.audit(
        AuditEvent(
            event_type="backchannel_logout_out", service="idp", outcome=outcome, sub=row.subject, client_id=row.client_id, detail=detail
        )
    )
