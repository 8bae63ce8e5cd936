"""Lists of orders, newest first: that of an account (RFC 8555 s7.1.2.1), and that of operators."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import Select, case, exists, select

from greatseal.api.acme import AccountView
from greatseal.api.lists import Page
from greatseal.api.store import Row, Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_acme import tables as t

FIRST = "z"
"""Sorts after every id."""

_lapsed = exists().where(
    t.order_authorization.c.order_id == t.order.c.id,
    t.authorization.c.id == t.order_authorization.c.authorization_id,
    t.authorization.c.expires_at <= param("now"),
)
_open = (t.order.c.status == "pending") | (t.order.c.status == "ready")
STATUS = case((_open & ((t.order.c.expires_at <= param("now")) | _lapsed), "invalid"), else_=t.order.c.status)
"""The status of an order with what time did to it."""
OF_ACCOUNT = (
    select(t.order.c.id, t.order.c.ca_id, STATUS.label("status_now"))
    .where(t.order.c.account_id == param("account"), t.order.c.id < param("before"))
    .order_by(t.order.c.id.desc())
    .limit(param("most"))
)


class OrderPage(msgspec.Struct, frozen=True, kw_only=True):
    """Orders that are not invalid, each by its id and that of its CA, and after which id the next page goes on: None at the end.

    A page looks at as many orders as it may have, so it is shorter, or empty, where some are invalid.
    """

    orders: tuple[tuple[str, str], ...]
    next: str | None


class OrderQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Orders with an id below ``before``, at most ``limit``. A filter that is None lets all through."""

    limit: int
    before: str
    account_id: str | None = None
    ca_id: str | None = None
    status: str | None = None


class OrderList:
    """Pages of orders."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def page(self, account: AccountView, page: Page) -> OrderPage:
        """The orders that the account may still use, or has a certificate from."""
        return await self._host.db.read(_page, account.id, page)

    async def found(self, query: OrderQuery) -> Sequence[Row]:
        """The rows of a query, each with its ``status_now``."""
        return await self._host.db.read(_found, query)


@scan
def _page(tx: Tx, account: str, page: Page) -> OrderPage:
    rows = tx.all(OF_ACCOUNT, account=account, before=page.after or FIRST, most=page.wanted, now=tx.now)
    shown = rows[: page.limit]
    orders = tuple((row.id, row.ca_id) for row in shown if row.status_now != "invalid")
    return OrderPage(orders=orders, next=shown[-1].id if len(rows) > page.limit else None)


@scan
def _found(tx: Tx, query: OrderQuery) -> list[Row]:
    given = {name: value for name in ("account_id", "ca_id", "status") if (value := getattr(query, name)) is not None}
    return tx.all(_query(tuple(given)), before=query.before, most=query.limit, now=tx.now, **given)


@cache
def _query(filters: tuple[str, ...]) -> Select[Any]:
    conditions = ((STATUS if name == "status" else t.order.c[name]) == param(name) for name in filters)
    listed = select(t.order, STATUS.label("status_now")).where(t.order.c.id < param("before"), *conditions)
    return listed.order_by(t.order.c.id.desc()).limit(param("most"))
