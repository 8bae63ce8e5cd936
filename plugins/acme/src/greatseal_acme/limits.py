"""How many orders an account may have open, and make in an hour: each is a row with authorizations and challenges (RFC 8555 s6.6)."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from sqlalchemy import func, select

from greatseal.api.moments import SECOND
from greatseal.api.problems import RateLimited
from greatseal.api.store import Refuse, Row, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_acme import tables as t
from greatseal_acme.settings import AccountLimits, Acme

HOUR = 3600
KNOWN = 10_000
"""Accounts whose number of open orders is remembered, about 200 bytes each."""

_OPEN = select(func.count().label("number"), func.min(t.order.c.expires_at).label("first_end")).where(
    t.order.c.account_id == param("account"), t.OPEN, t.order.c.expires_at > param("now")
)


class OrderLimits:
    """Admits orders.

    A transaction that counted would be in the way of every other order of the account. So they are counted here, by the one process that
    makes them: at least as many as there are, and when these are too many, those in the database, without the ones that ended.
    """

    def __init__(self, host: Host) -> None:
        settings = host.settings(Acme)
        self._host = host
        self._usual = AccountLimits(max_pending_orders=settings.max_pending_orders, new_orders_per_hour=settings.new_orders_per_hour)
        self._of_account = settings.account_limits
        self._open: OrderedDict[str, int] = OrderedDict()
        self._writing: Counter[str] = Counter()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def one_more(self, account: str) -> AsyncIterator[None]:
        """The writing of a new order. Raises RateLimited."""
        await self._admit(account, self._most_open(account))
        self.in_this_hour(account)
        self._writing[account] += 1
        try:
            yield
        finally:
            self._writing[account] -= 1
            if not self._writing[account]:
                del self._writing[account]

    def in_this_hour(self, account: str) -> None:
        """One more order, or authorization without one. Raises RateLimited."""
        own = self._of_account.get(account, self._usual)
        wait = self._host.limits.hit("acme-orders", account, _chosen(own.new_orders_per_hour, self._usual.new_orders_per_hour), HOUR)
        if wait is not None:
            raise _limited("the account has made too many orders in this hour", wait)

    def check_held(self, account: str, number: int) -> None:
        """Before one more authorization without order: as many as orders. Raises Refuse with RateLimited."""
        if 0 < self._most_open(account) <= number:
            raise Refuse(_limited(f"the account has {number} authorizations that it asked for beforehand; deactivate some of them", HOUR))

    def _most_open(self, account: str) -> int:
        return _chosen(self._of_account.get(account, self._usual).max_pending_orders, self._usual.max_pending_orders)

    async def _admit(self, account: str, most: int) -> None:
        if most == 0:
            return
        if (known := self._open.get(account)) is None or known >= most:
            turn = self._turns.setdefault(account, asyncio.Lock())
            async with turn:
                await self._count(account, most)
                self._note(account)
        else:
            self._note(account)

    async def _count(self, account: str, most: int) -> None:
        """Look how many there are, unless somebody just did. Raises RateLimited."""
        if (known := self._open.get(account)) is not None and known < most:
            return
        # Those that are being written are perhaps among them: counted twice they are refused a moment too early, never too late.
        writing, now = self._writing[account], self._host.clock.now()
        found = await self._host.db.read(_open, account, now)
        self._open[account] = found.number + writing
        if found.number >= most:
            wait = min(HOUR, (found.first_end - now) // SECOND + 1)
            raise _limited(f"the account has {found.number} orders that are pending, ready or processing; finish some of them first", wait)
        if found.number + writing >= most:
            raise _limited("the account has as many orders under way as it may have", 1)

    def _note(self, account: str) -> None:
        self._open[account] = self._open.get(account, 0) + 1
        self._open.move_to_end(account)
        if len(self._open) > KNOWN:
            self._open.popitem(last=False)


def _chosen(own: int | None, usual: int | None) -> int:
    return (usual or 0) if own is None else own


def _limited(detail: str, wait: int) -> RateLimited:
    return RateLimited(detail, headers={"Retry-After": str(wait)})


def _open(tx: Tx, account: str, now: int) -> Row:
    row = tx.one(_OPEN, account=account, now=now)
    assert row is not None  # an aggregate has a row
    return row
