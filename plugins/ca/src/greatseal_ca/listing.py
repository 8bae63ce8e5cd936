"""Lists of the inventory, by whatever they are filtered."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from cryptography import x509
from sqlalchemy import Boolean, ColumnElement, FunctionElement, Select, select
from sqlalchemy.ext.compiler import compiles

from greatseal.api.issuance import CertificateQuery
from greatseal.api.store import Row, Tx
from greatseal.db.tables import param
from greatseal_ca.names import names_of
from greatseal_ca.tables import certificate

BITE = 1000


class _Holds(FunctionElement[bool]):
    """Whether bytes are in others."""

    inherit_cache = True
    type = Boolean()
    name = "holds"


@compiles(_Holds, "sqlite")
def _holds_on_sqlite(element: _Holds, compiler: Any, **more: Any) -> str:
    whole, part = (compiler.process(one, **more) for one in element.clauses)
    return f"instr({whole}, {part}) > 0"


@compiles(_Holds, "postgresql")
def _holds_on_postgresql(element: _Holds, compiler: Any, **more: Any) -> str:
    whole, part = (compiler.process(one, **more) for one in element.clauses)
    return f"position({part} in {whole}) > 0"


_CONDITIONS: dict[str, ColumnElement[bool]] = {
    "before": certificate.c.id < param("before"),
    "ca_id": certificate.c.ca_id == param("ca_id"),
    "account_id": certificate.c.account_id == param("account_id"),
    "profile": certificate.c.profile == param("profile"),
    "status": certificate.c.status == param("status"),
    "serial": certificate.c.serial == param("serial"),
    "spki_sha256": certificate.c.spki_sha256 == param("spki_sha256"),
    "since": certificate.c.created_at >= param("since"),
    "until": certificate.c.created_at < param("until"),
    "ends_since": certificate.c.not_after >= param("ends_since"),
    "ends_until": certificate.c.not_after < param("ends_until"),
    "name": _Holds(certificate.c.der, param("name")),
}


def rows_of(tx: Tx, query: CertificateQuery) -> Iterator[Row]:
    """The rows of a query, newest first."""
    given: dict[str, Any] = {name: value for name in _CONDITIONS if (value := getattr(query, name)) is not None}
    if query.serial is not None:
        given["serial"] = query.serial.hex()
    if query.name is None:
        yield from tx.all(_statement(tuple(given)), limit=query.limit, **given)
        return
    left, given["name"] = query.limit, query.name.encode()
    while left:
        rows = tx.all(_statement(tuple(given)), limit=BITE, **given)
        for row in rows:
            if _is_named(row, query.name):
                yield row
                left -= 1
                if not left:
                    return
        if len(rows) < BITE:
            return
        given = {"before": rows[-1].id, **{name: value for name, value in given.items() if name != "before"}}


def _is_named(row: Row, name: str) -> bool:
    """The bytes may stand anywhere, for example in the name of the CA."""
    return any(name in one for one in names_of(x509.load_der_x509_certificate(bytes(row.der))))


@cache
def _statement(filters: tuple[str, ...]) -> Select[Any]:
    conditions = (_CONDITIONS[name] for name in filters)
    return select(certificate).where(*conditions).order_by(certificate.c.id.desc()).limit(param("limit"))
