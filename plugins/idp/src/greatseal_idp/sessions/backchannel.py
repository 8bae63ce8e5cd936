"""Telling clients that a session ended (OpenID Connect Back-Channel Logout 1.0)."""

import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, insert

from greatseal.api.clients import Clients
from greatseal.api.moments import SECOND
from greatseal.api.store import Row, Tx
from greatseal.api.tokens import Tokens
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.outbox import Outbox, Posting
from greatseal_idp import tables as t
from greatseal_idp.sessions.store import StoredSession
from greatseal_idp.settings import OAuthSettings

EVENT = "http://schemas.openid.net/event/backchannel-logout"
TOKEN_SECONDS = 120
"""The life of a logout token."""
LIFETIME = 3600 * SECOND

QUEUE = insert(t.notification).values({column.name: param(column.name) for column in t.notification.columns})
OVER = delete(t.notification).where(t.notification.c.id == param("key"))


class Backchannel(Outbox):
    """The queue of logout notifications and their delivery."""

    service, event = "idp", "backchannel_logout_out"
    retries = (10 * SECOND, 60 * SECOND, 300 * SECOND)
    point = "idp.backchannel.sent"

    def __init__(self, host: Host, clients: Clients, tokens: Tokens) -> None:
        super().__init__(host, t.notification, OVER, allow_private=host.settings(OAuthSettings).allow_private_logout_hosts)
        self._clients = clients
        self._tokens = tokens

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
            tx.after_commit(self.begin)

    async def posting(self, row: Row) -> Posting | None:
        client = await self._clients.get(row.client_id)
        uri = client.more.get("backchannel_logout_uri") if client is not None else None
        if client is None or not uri:
            return None
        alg: str | None = client.more.get("id_token_signed_response_alg")
        return Posting(uri=str(uri), form={"logout_token": await self._tokens.sign("logout+jwt", self._claims(row), alg=alg)})

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
