"""Linked accounts: who somebody at a provider is here. Provider, issuer and subject are the key, and an e-mail address never is."""

import uuid
from collections.abc import Callable
from typing import Any

import msgspec
from sqlalchemy import select

from greatseal.api.audit import AuditEvent
from greatseal.api.messages import Message
from greatseal.api.problems import Conflict
from greatseal.api.store import Refuse, Row, Tx, operation, scan
from greatseal.db.tables import insert_new, param
from greatseal.host import Handles
from greatseal_federation import tables as t

SPACE = uuid.UUID("6f2f7d5c-0d0e-5b5a-9c39-3a0e6f0f6c52")
"""The name space of the ids (RFC 9562 s5.5)."""
MOST = 100
"""Accounts of one person that are listed."""

_BY_ID = select(t.account).where(t.account.c.id == param("id"))
_OF = select(t.account).where(t.account.c.subject == param("subject")).order_by(t.account.c.id).limit(MOST)
_PAGE = select(t.account).where(t.account.c.id > param("after")).order_by(t.account.c.id).limit(param("number"))
_PERSON = select(t.account).where(t.account.c.realm == param("realm"), t.account.c.username == param("username"))
_PEOPLE = (
    select(t.account)
    .where(t.account.c.realm == param("realm"), t.account.c.username >= param("begin"), t.account.c.username > param("after"))
    .order_by(t.account.c.username)
    .limit(param("number"))
)
_NAME = select(t.name).where(t.name.c.subject == param("subject"))
_TAKE = insert_new(t.name)


class Person(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a provider says of somebody whom nobody else knows here."""

    display_name: str | None = None
    given_name: str | None = None
    family_name: str | None = None
    email: str | None = None
    email_verified: bool | None = None
    groups: tuple[str, ...] = ()


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A row. Moments are microseconds. ``person`` is there for who is known by this account alone, under ``username`` of ``realm``."""

    id: str
    upstream_id: str
    issuer: str
    upstream_sub: str
    subject: str
    email: str | None
    created_at: int
    created_by: str
    last_login_at: int | None = None
    disabled: bool = False
    realm: str | None = None
    username: str | None = None
    person: Person | None = None


class TakeName(msgspec.Struct, frozen=True, kw_only=True):
    """A name for the person of an account."""

    subject: str
    account: str


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the name is that person's."""

    theirs: bool


def id_of(upstream_id: str, issuer: str, subject: str) -> str:
    """The id of an account: whoever makes it, at whatever node, makes the same."""
    return str(uuid.uuid5(SPACE, f"{len(upstream_id)}:{upstream_id}:{len(issuer)}:{issuer}:{subject}"))


def find(tx: Tx, id: str) -> Account | None:
    """By id."""
    row = tx.one(_BY_ID, id=id)
    return None if row is None else _of(row)


def of_subject(tx: Tx, subject: str) -> list[Account]:
    """Those of a person here."""
    return [_of(row) for row in tx.all(_OF, subject=subject)]


@scan
def page(tx: Tx, after: str, number: int) -> list[Account]:
    """By id."""
    return [_of(row) for row in tx.all(_PAGE, after=after, number=number)]


def person(tx: Tx, realm: str, username: str) -> Account | None:
    """That of somebody who is known by it alone."""
    row = tx.one(_PERSON, realm=realm, username=username)
    return None if row is None else _of(row)


@scan
def people(tx: Tx, realm: str, prefix: str, after: str, number: int) -> list[Account]:
    """Those people of a realm, by name."""
    rows = tx.all(_PEOPLE, realm=realm, begin=prefix, after=after, number=number)
    return [_of(row) for row in rows if row.username.startswith(prefix)]


def add(tx: Tx, account: Account) -> Account:
    """A new one, with its audit event. Raises Refuse with Conflict for one that is there."""
    if tx.one(_BY_ID, id=account.id) is not None:
        raise Refuse(Conflict(Message("this account of the provider is linked already; delete that link first")))
    fields: dict[str, Any] = msgspec.structs.asdict(account)
    del fields["id"]
    made = {**fields, "disabled": int(account.disabled), "created_at": tx.now}
    made["person"] = None if account.person is None else msgspec.json.encode(account.person).decode()
    tx.put(t.ACCOUNT, account.id, **made)
    tx.audit(_event("federated_account_linked", account, account.created_by))
    return msgspec.structs.replace(account, created_at=tx.now)


def change(tx: Tx, id: str, by: str, *, disabled: bool) -> Account | None:
    """Switch it off or on; None when it is gone."""
    account = find(tx, id)
    if account is None:
        return None
    tx.put(t.ACCOUNT, id, disabled=int(disabled))
    tx.audit(_event("federated_account_disabled" if disabled else "federated_account_enabled", account, by))
    return msgspec.structs.replace(account, disabled=disabled)


def remove(tx: Tx, id: str, by: str) -> Account | None:
    """Delete it, with its audit event; None when it is gone."""
    account = find(tx, id)
    if account is None or not tx.remove(t.ACCOUNT, id):
        return None
    tx.audit(_event("federated_account_unlinked", account, by))
    return account


def note(tx: Tx, account: Account, email: str | None, told: Person | None) -> None:
    """Somebody signed in by it: when, and what the provider says of them now."""
    fields: dict[str, Any] = {"last_login_at": tx.now, "email": email}
    if account.person is not None and told is not None:
        fields["person"] = msgspec.json.encode(told).decode()
    tx.put(t.ACCOUNT, account.id, **fields)


def name_taker(handles: Handles) -> Callable[[Tx, TakeName], Taken]:
    """Takes a name for good: nobody else gets it, nor what was granted under it, when the account is gone."""

    def owner(asked: TakeName) -> str:
        return handles.owner_of_key(f"federation_name:{asked.subject}")

    return operation("federation.take_name", owner)(_take_name)


def _take_name(tx: Tx, asked: TakeName) -> Taken:
    tx.count(_TAKE, subject=asked.subject, account=asked.account)
    row = tx.one(_NAME, subject=asked.subject)
    return Taken(theirs=row is not None and row.account == asked.account)


def _event(type: str, account: Account, by: str) -> AuditEvent:
    detail = f"id={account.id} upstream={account.upstream_id} upstream_sub={account.upstream_sub}"
    return AuditEvent(event_type=type, service="idp", sub=account.subject, principal=by if by != account.subject else None, detail=detail)


def _of(row: Row) -> Account:
    return Account(
        id=row.id,
        upstream_id=row.upstream_id,
        issuer=row.issuer,
        upstream_sub=row.upstream_sub,
        subject=row.subject,
        email=row.email,
        created_at=row.created_at,
        created_by=row.created_by,
        last_login_at=row.last_login_at,
        disabled=bool(row.disabled),
        realm=row.realm,
        username=row.username,
        person=None if row.person is None else msgspec.json.decode(row.person, type=Person),
    )
