"""Telling a client that its person has decided (CIBA Core s10.2)."""

import msgspec
from sqlalchemy import update

from greatseal.api.clients import Clients
from greatseal.api.moments import SECOND
from greatseal.api.store import Row
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.outbox import Outbox, Posting
from greatseal_ciba.registration import ENDPOINT
from greatseal_ciba.requests import Notification
from greatseal_ciba.settings import NotificationSettings
from greatseal_ciba.tables import request as t

OVER = update(t).where(t.c.id == param("key")).values(due_at=None, notification=None)

REFUSALS = frozenset(range(400, 500)) - {408, 425, 429}
"""Somebody has to change something there before another ping can be taken (s10.2)."""


class Pings(Outbox):
    """The delivery of pings; the rows of decided requests are its queue. Who was not told may poll."""

    service, event = "idp", "ciba_ping"
    retries = (5 * SECOND, 20 * SECOND, 60 * SECOND)
    final = REFUSALS
    point = "ciba.pinged"

    def __init__(self, host: Host, clients: Clients) -> None:
        super().__init__(host, t, OVER, allow_private=host.settings(NotificationSettings).allow_private_notification_hosts)
        self._clients = clients

    async def posting(self, row: Row) -> Posting | None:
        client = await self._clients.get(row.client_id)
        uri = client.more.get(ENDPOINT) if client is not None else None
        if not uri:
            return None
        secret = self._host.keys.open(bytes(row.notification), table=t.name, row=row.id, field="notification")
        said = msgspec.json.decode(secret, type=Notification)
        return Posting(uri=str(uri), json={"auth_req_id": said.auth_req_id}, headers={"Authorization": f"Bearer {said.token}"})
