"""Clients that registered themselves and that nobody uses are deleted."""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import delete

from greatseal.api.clients import Clients
from greatseal.api.problems import Conflict
from greatseal.api.store import Refuse, Tx
from greatseal.api.tokens import GrantCheck, GrantQuestion
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_registration import tables as t
from greatseal_registration.records import forget, listed, mark

MOST = 100_000
"""Clients whose use waits to be noted."""
BY = "registration"

_UNUSED = delete(t.client).where(t.client.c.client_id == param("id"), t.client.c.used_at < param("before"))


class Used(Conflict):
    """It was used meanwhile. Nobody outside hears of it."""


def forgetting(before: int) -> Callable[[Tx, str], None]:
    """Forgets a client that got no token since, in the transaction that deletes it; what was used meanwhile stays."""

    def forget(tx: Tx, client_id: str) -> None:
        if tx.count(_UNUSED, id=client_id, before=before) != 1:
            raise Refuse(Used("the client was used meanwhile"))

    return forget


class Usage(GrantCheck):
    """Sees which of these clients get tokens, and refuses none. What waits to be noted is lost with the process: an hour of use at most."""

    name = "registration"

    def __init__(self, host: Host, clients: Clients, *, ttl: int) -> None:
        self._host = host
        self._clients = clients
        self._ttl = ttl * 1_000_000
        self._used: OrderedDict[str, int] = OrderedDict()

    def concerns(self, question: GrantQuestion) -> bool:
        return question.client is not None and question.client.source == "dynamic"

    async def check(self, question: GrantQuestion) -> frozenset[str]:
        if question.client is not None:
            self._used[question.client.client_id] = self._host.clock.now()
            if len(self._used) > MOST:
                self._used.popitem(last=False)
        return question.scopes

    async def sweep(self) -> None:
        """Note what was used, delete what was not, and forget what an administrator deleted."""
        used, self._used = dict(self._used), OrderedDict()
        names = list(used)
        for first in range(0, len(names), 200):
            await self._host.db.write(mark, {name: used[name] for name in names[first : first + 200]})
        before, after = self._host.clock.passed() - self._ttl, ""
        while rows := await self._host.db.read(listed, after):
            for client_id, used_at in rows:
                if await self._clients.get(client_id) is None:
                    await self._host.db.write(forget, client_id)
                elif self._ttl and used_at < before and client_id not in self._used:
                    await self._delete(client_id, before)
            after = rows[-1][0]

    async def _delete(self, client_id: str, before: int) -> None:
        with suppress(Used):
            await self._clients.delete(client_id, by=BY, also=forgetting(before))
