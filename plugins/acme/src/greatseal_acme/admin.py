"""Accounts and orders for the operators of the CA, on the admin listener."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import Select, select

from greatseal.api.acme import grants_of
from greatseal.api.audit import AuditEvent
from greatseal.api.http import (
    ADMINISTRATORS,
    OPERATIONS,
    OPERATOR_ROLES,
    AuthScheme,
    Call,
    Operator,
    OperatorCaller,
    Reply,
    Route,
    operator_route,
)
from greatseal.api.lists import filter_of, listed, page_of
from greatseal.api.moments import seconds
from greatseal.api.problems import NotFound
from greatseal.api.store import Refuse, Row, Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_acme import endings
from greatseal_acme import tables as t
from greatseal_acme.accounts import Account, Accounts
from greatseal_acme.endings import unknown
from greatseal_acme.order_list import FIRST, OrderList, OrderQuery
from greatseal_acme.orders import Order, read_order
from greatseal_acme.protocol.objects import decode
from greatseal_acme.protocol.urls import is_id

_ACCOUNT_FILTERS = {
    "status": t.account.c.status == param("status"),
    "ca_id": (t.account.c.ca_id == param("ca_id")) | (t.account.c.ca_id == ""),  # empty: of all CAs
}


class Grants(msgspec.Struct, frozen=True):
    """The body of PUT profile-grants."""

    profile_grants: tuple[str, ...] | None


class AccountsAdmin:
    """/admin/accounts, /admin/account/{id} and /admin/orders."""

    def __init__(self, host: Host, accounts: Accounts, orders: OrderList) -> None:
        self._host = host
        self._accounts = accounts
        self._orders = orders

    def routes(self) -> list[Route]:
        """None where no plugin knows operators."""
        if Operator.__name__ not in self._host.components(AuthScheme):
            return []
        account = "/admin/account/{id}"
        grants = f"{account}/profile-grants"
        return [
            operator_route("GET", "/admin/accounts", self.listed, OPERATOR_ROLES, "ACME accounts, newest first"),
            operator_route("GET", account, self.show, OPERATOR_ROLES, "One ACME account"),
            operator_route("POST", f"{account}/deactivate", self.deactivate, ADMINISTRATORS, "Deactivate an account, as its holder can"),
            operator_route("POST", f"{account}/revoke", self.revoke, ADMINISTRATORS, "Revoke an account for good, with its orders"),
            operator_route("GET", grants, self.show_grants, OPERATOR_ROLES, "The profile grants of an account"),
            operator_route("PUT", grants, self.set_grants, OPERATIONS, "Set the profile grants of an account"),
            operator_route("DELETE", grants, self.delete_grants, ADMINISTRATORS, "Take the profile grants of an account away"),
            operator_route("GET", "/admin/orders", self.orders, OPERATOR_ROLES, "Orders, newest first"),
            operator_route("GET", "/admin/orders/{id}", self.order, OPERATOR_ROLES, "One order"),
        ]

    async def listed(self, call: Call) -> Reply:
        page = page_of(call)
        filters = {"status": filter_of(call, "status"), "ca_id": call.caller_as(OperatorCaller).only_ca or filter_of(call, "ca_id")}
        given = {name: value for name, value in filters.items() if value is not None}
        found = await self._host.db.read(self._listed, page.after or FIRST, page.wanted, given)
        return listed(call, self._host.base_url, page, found, key=lambda one: one.view.id, shown=shown_account)

    async def show(self, call: Call) -> Reply:
        return Reply.json(shown_account(await self._found(call)))

    async def deactivate(self, call: Call) -> Reply:
        await self._host.db.write(endings.deactivate, _id_of(call), call.caller.subject)
        return Reply.json(shown_account(await self._found(call)))

    async def revoke(self, call: Call) -> Reply:
        await self._host.db.write(endings.revoke, _id_of(call), call.caller.subject)
        return Reply.json(shown_account(await self._found(call)))

    async def show_grants(self, call: Call) -> Reply:
        return Reply.json({"profile_grants": (await self._found(call)).view.profile_grants})

    async def set_grants(self, call: Call) -> Reply:
        return await self._grant(call, grants_of((await call.body(Grants)).profile_grants))

    async def delete_grants(self, call: Call) -> Reply:
        return await self._grant(call, None)

    async def orders(self, call: Call) -> Reply:
        ca_id = call.caller_as(OperatorCaller).only_ca
        page = page_of(call)
        query = OrderQuery(
            limit=page.wanted,
            before=page.after or FIRST,
            account_id=filter_of(call, "account_id"),
            ca_id=ca_id or filter_of(call, "ca_id"),
            status=filter_of(call, "status"),
        )
        found = await self._orders.found(query)
        return listed(call, self._host.base_url, page, found, key=lambda one: str(one.id), shown=_shown_row)

    async def order(self, call: Call) -> Reply:
        ca_id = call.caller_as(OperatorCaller).only_ca
        order = await self._host.db.read(read_order, call.path["id"]) if is_id(call.path["id"]) else None
        if order is None or ca_id not in {None, order.ca_id}:
            raise NotFound("there is no such order")
        return Reply.json(_shown_order(order))

    async def _found(self, call: Call) -> Account:
        ca_id = call.caller_as(OperatorCaller).only_ca
        account = await self._accounts.get(_id_of(call))
        if account is None or (ca_id is not None and account.scope not in {"", ca_id}):
            raise unknown()
        return account

    async def _grant(self, call: Call, grants: tuple[str, ...] | None) -> Reply:
        await self._host.db.write(self._set_grants, _id_of(call), grants, call.caller.subject)
        return Reply.empty()

    def _set_grants(self, tx: Tx, id: str, grants: tuple[str, ...] | None, by: str) -> None:
        if not self._accounts.grant(tx, id, grants):
            raise Refuse(NotFound("there is no account of this id that is valid"))
        detail = "none" if grants is None else ", ".join(grants)
        tx.audit(AuditEvent(event_type="account.grants", service="ca", sub=id, principal=by, detail=detail))

    @scan
    def _listed(self, tx: Tx, before: str, most: int, given: Mapping[str, str]) -> list[Account]:
        return [self._accounts.of(row) for row in tx.all(_listing(tuple(given)), before=before, most=most, **given)]


def shown_account(account: Account) -> dict[str, Any]:
    """An account as operators see it."""
    view = account.view
    return {
        "id": view.id,
        "url": view.url,
        "ca_id": account.scope or None,
        "status": view.status,
        "contact": account.contact,
        "jwk_thumbprint": view.thumbprint,
        "profile_grants": view.profile_grants,
        "kerberos_principal": view.kerberos_principal,
        "bindings": sorted(account.binding),
        "terms_of_service_agreed": account.terms_agreed,
        "terms_of_service_url": account.terms_url,
        "created": seconds(account.created_at),
    }


def _shown_row(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "account_id": row.account_id,
        "ca_id": row.ca_id,
        "profile": row.profile,
        "status": row.status_now,
        "identifiers": [{"type": type, "value": value} for type, value in decode(row.identifiers)],
        "certificate_id": row.certificate_id,
        "created": seconds(row.created_at),
        "expires": seconds(row.expires_at),
    }


def _shown_order(order: Order) -> dict[str, Any]:
    return {
        "id": order.id,
        "account_id": order.account_id,
        "ca_id": order.ca_id,
        "profile": order.profile,
        "status": order.status,
        "identifiers": [{"type": one.type, "value": one.value} for one in order.identifiers],
        "certificate_id": order.certificate_id,
        "expires": seconds(order.expires_at),
        "not_before": order.not_before and seconds(order.not_before),
        "not_after": order.not_after and seconds(order.not_after),
        "authorizations": order.authorizations,
        "error": order.error,
    }


def _id_of(call: Call) -> str:
    id = call.path["id"]
    if not is_id(id):
        raise unknown()
    return id


@cache
def _listing(filters: Sequence[str]) -> Select[Any]:
    conditions = (_ACCOUNT_FILTERS[name] for name in filters)
    return select(t.account).where(t.account.c.id < param("before"), *conditions).order_by(t.account.c.id.desc()).limit(param("most"))
