"""Lists of the inventory in pages whose cost is bounded, however many certificates there are and whatever they are filtered by.

A page walks an index from where the page before it ended, over at most :data:`BITE` certificates, and leaves out what does not fit: it may
have fewer certificates than it could, even none, and more may follow.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec
from cryptography import x509
from sqlalchemy import ColumnElement, Select, Subquery, func, select, tuple_

from greatseal.api.inventory import CertificateQuery
from greatseal.api.lists import moment_key
from greatseal.api.moments import SECOND
from greatseal.api.store import Row, Tx
from greatseal.db.tables import param
from greatseal_ca.names import names_of, searched
from greatseal_ca.tables import certificate, name

BITE = 5_000
"""Certificates that a page walks over at most."""
CHECKED = 500
"""Certificates of a page whose successors are looked for, at most."""
NEWEST = 200
"""Certificates of a name among which a successor is looked for, newest first."""
_HOUR = 3600 * SECOND
"""An id is made before its row: that long before at most."""

_KEYS = ("serial", "name", "spki_sha256", "account_id", "profile")
"""Filters that have an index, the one that leaves fewest first."""
_COLUMNS = ("id", "ca_id", "account_id", "profile", "status", "serial", "spki_sha256", "created_at", "not_after")
_FILTERS: Mapping[str, Callable[[Any], ColumnElement[bool]]] = {
    "ca_id": lambda of: of.ca_id == param("ca_id"),
    "account_id": lambda of: of.account_id == param("account_id"),
    "profile": lambda of: of.profile == param("profile"),
    "status": lambda of: of.status == param("status"),
    "serial": lambda of: of.serial == param("serial"),
    "spki_sha256": lambda of: of.spki_sha256 == param("spki_sha256"),
    "since": lambda of: of.created_at >= param("since"),
    "until": lambda of: of.created_at < param("until"),
    "ends_since": lambda of: of.not_after >= param("ends_since"),
    "ends_until": lambda of: of.not_after < param("ends_until"),
}


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """Certificates that end ``after`` a moment and the id of a certificate, before ``until``, and were not renewed."""

    limit: int
    after: tuple[int, str]
    until: int
    ca_id: str | None = None
    account_id: str | None = None


def page_of_rows(tx: Tx, query: CertificateQuery) -> tuple[list[Row], str | None]:
    """The rows of a query that a walk finds, newest first, and the id before which the next walk begins, None at the end."""
    given: dict[str, Any] = {one: value for one in (*_FILTERS, "name") if (value := getattr(query, one)) is not None}
    if query.serial is not None:
        given["serial"] = query.serial.hex()
    if query.name is not None:
        given["name"] = searched(query.name)
    before = query.before or (None if query.until is None else _first_id(query.until + _HOUR))
    bounds = {"before": before, "least": None if query.since is None else _first_id(query.since - _HOUR)}
    given |= {one: value for one, value in bounds.items() if value is not None}
    key = next((one for one in _KEYS if one in given), None)
    page, edge = _statements(key, tuple(given))
    rows = tx.all(page, most=query.limit + 1, **given)
    if len(rows) > query.limit:
        return rows[: query.limit], rows[query.limit - 1].id
    walked = tx.one(edge, **{one: value for one, value in given.items() if one in {key, *bounds}})
    assert walked is not None
    return rows, walked.last if walked.count == BITE else None


def ending(tx: Tx, query: Ending) -> tuple[list[Row], str | None]:
    """The rows of a query that a walk finds, those that end first first, and the key after which the next walk begins, None at the end."""
    asked = {one: value for one in ("ca_id", "account_id") if (value := getattr(query, one)) is not None}
    page, edge = _ending_statements(tuple(asked))
    bounds = {"moment": query.after[0], "last": query.after[1], "until": query.until}
    most = min(query.limit, CHECKED)
    rows = tx.all(page, most=most, **asked, **bounds)
    found = [row for row in rows if not _is_renewed(tx, row)]
    if len(rows) == most:
        return found, moment_key(rows[-1].not_after, rows[-1].id)
    last = tx.one(edge, **bounds)
    return found, None if last is None else moment_key(last.not_after, last.id)


def _is_renewed(tx: Tx, row: Row) -> bool:
    """Whether one of the newest certificates with one of its names is good, ends later and has all its names."""
    names = set(_names(row))
    if not names:
        return False
    later = tx.all(_LATER, name=searched(max(names, key=len)), end=row.not_after)
    return any(names <= set(_names(one)) for one in later)


def _names(row: Row) -> tuple[str, ...]:
    return tuple(names_of(x509.load_der_x509_certificate(bytes(row.der))))


def _first_id(moment: int) -> str:
    """The least public id of a second: they begin with its 32 bits."""
    return f"{min(max(moment // SECOND, 0), 0xFFFFFFFF):08x}-0000-0000-0000-000000000000"


@cache
def _statements(key: str | None, given: tuple[str, ...]) -> tuple[Select[Any], Select[Any, Any]]:
    """The page, and how far its walk goes."""
    seen = _walk(key, given)
    left = (one(seen.c) for filter, one in _FILTERS.items() if filter in given and filter != key)
    wanted = select(seen.c.id).where(*left).order_by(seen.c.id.desc()).limit(param("most"))
    edge = select(func.count().label("count"), func.min(seen.c.id).label("last")).select_from(seen)
    return _whole(wanted).order_by(certificate.c.id.desc()), edge


def _walk(key: str | None, given: tuple[str, ...]) -> Subquery:
    id = name.c.certificate_id if key == "name" else certificate.c.id
    bounds = {"before": id < param("before"), "least": id >= param("least")}
    keyed = [] if key is None else [name.c.name == param("name") if key == "name" else _FILTERS[key](certificate.c)]
    walk = select(*(certificate.c[one] for one in _COLUMNS)).where(*keyed, *(bound for one, bound in bounds.items() if one in given))
    if key == "name":
        walk = walk.select_from(name.join(certificate, certificate.c.id == id))
    return walk.order_by(id.desc()).limit(BITE).subquery("seen")


@cache
def _ending_statements(asked: tuple[str, ...]) -> tuple[Select[Any], Select[Any]]:
    """The page, and the last one of its walk where that was cut short."""
    order = certificate.c.not_after, certificate.c.id
    walk = (
        select(*(certificate.c[one] for one in _COLUMNS))
        .where(tuple_(*order) > tuple_(param("moment"), param("last")), certificate.c.not_after < param("until"))
        .order_by(*order)
    )
    seen = walk.limit(BITE).subquery("seen")
    left = (seen.c.status == "issued", *(_FILTERS[one](seen.c) for one in asked))
    wanted = select(seen.c.id).where(*left).order_by(seen.c.not_after, seen.c.id).limit(param("most"))
    return _whole(wanted).order_by(*order), walk.offset(BITE - 1).limit(1)


def _whole(ids: Select[Any]) -> Select[Any]:
    return select(certificate).where(certificate.c.id.in_(ids))


_NEWEST = (
    select(name.c.certificate_id)
    .where(name.c.name == param("name"))
    .order_by(name.c.certificate_id.desc())
    .limit(NEWEST)
    .subquery("newest")
)
_LATER = (
    select(certificate.c.der)
    .select_from(_NEWEST.join(certificate, certificate.c.id == _NEWEST.c.certificate_id))
    .where(certificate.c.status == "issued", certificate.c.not_after > param("end"))
)
