"""Who operates the CA: rows, and what may be changed of them."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from sqlalchemy import func, select

from greatseal.api.audit import AuditEvent
from greatseal.api.http import OPERATOR_ROLES
from greatseal.api.moments import seconds
from greatseal.api.problems import BadRequest, Conflict, NotFound
from greatseal.api.store import Refuse, Row, Tx, scan
from greatseal.db.tables import param
from greatseal_ca_admin import tables as t
from greatseal_ca_admin.lockout import forget
from greatseal_ca_admin.sessions import drop_sessions

ADMINISTRATOR = "administrator"
RA = "ca_ra"
ROOTS = "client_trust"
"""The kind that has the listener ask again whose certificates it trusts."""

BY_ID = select(t.operator).where(t.operator.c.id == param("id"))
BY_FINGERPRINT = select(t.operator).where(t.operator.c.cert_fingerprint == param("cert_fingerprint"))
BY_PRINCIPAL = select(t.operator).where(t.operator.c.gssapi_principal == param("gssapi_principal"))
BY_EAB_KID = select(t.operator).where(t.operator.c.eab_kid == param("eab_kid"))
_UNIQUE = {
    name: select(t.operator.c.id).where(t.operator.c[name] == param("value"))
    for name in ("name", "cert_fingerprint", "gssapi_principal", "eab_kid")
}
_OTHER_ADMINISTRATOR = (
    select(t.operator.c.id).where(t.operator.c.role == ADMINISTRATOR, t.operator.c.active == 1, t.operator.c.id != param("id")).limit(1)
)
_ANY = select(t.operator.c.id).limit(1)
_SHOWN = select(*t.operator.c, t.attempt.c.failed_attempts, t.attempt.c.locked_until, t.attempt.c.last_seen_at).outerjoin_from(
    t.operator, t.attempt, t.attempt.c.operator_id == t.operator.c.id
)
_LISTED = _SHOWN.where(t.operator.c.name > param("last")).order_by(t.operator.c.name).limit(param("limit"))
_ONE = _SHOWN.where(t.operator.c.id == param("id"))
_COUNT = select(func.count().label("total")).select_from(t.operator)
_CERTIFICATES = select(t.operator.c.certificate).where(t.operator.c.active == 1, t.operator.c.certificate.is_not(None))


class StoredOperator(msgspec.Struct, frozen=True, kw_only=True):
    """A row, as requests need it."""

    id: str
    name: str
    role: str
    active: bool
    ca_id: str | None


class Fields(msgspec.Struct, frozen=True, kw_only=True):
    """What is written of an operator, checked."""

    name: str
    role: str
    cert_fingerprint: str | None
    certificate: bytes | None
    gssapi_principal: str | None
    eab_kid: str | None
    eab_made_at: int | None
    ca_id: str | None
    active: bool


def load(tx: Tx, id: str) -> StoredOperator | None:
    """The operator of an id."""
    row = tx.one(BY_ID, id=id)
    if row is None:
        return None
    return StoredOperator(id=row.id, name=row.name, role=row.role, active=bool(row.active), ca_id=row.ca_id)


def by_fingerprint(tx: Tx, cert_fingerprint: str) -> str | None:
    """The id of the operator with that certificate."""
    row = tx.one(BY_FINGERPRINT, cert_fingerprint=cert_fingerprint)
    return None if row is None else str(row.id)


def by_principal(tx: Tx, gssapi_principal: str) -> str | None:
    """The id of the operator with that Kerberos principal."""
    row = tx.one(BY_PRINCIPAL, gssapi_principal=gssapi_principal)
    return None if row is None else str(row.id)


def by_eab_kid(tx: Tx, eab_kid: str) -> tuple[str, int | None] | None:
    """The id of the operator with the EAB key of that id, and when that key was made."""
    row = tx.one(BY_EAB_KID, eab_kid=eab_kid)
    return None if row is None else (str(row.id), row.eab_made_at)


def any_operator(tx: Tx) -> bool:
    """Whether there is one."""
    return tx.one(_ANY) is not None


def certificates(tx: Tx) -> Sequence[bytes]:
    """Those that were given as a whole, of everybody who may sign in."""
    return [bytes(row.certificate) for row in tx.all(_CERTIFICATES)]


@scan
def listed(tx: Tx, limit: int, last: str = "") -> list[dict[str, Any]]:
    """Operators by name, those after that name, as the API shows them."""
    return [_shown(row) for row in tx.all(_LISTED, limit=limit, last=last)]


def shown(tx: Tx, id: str) -> dict[str, Any]:
    """One operator as the API shows it. Raises Refuse with NotFound."""
    row = tx.one(_ONE, id=id)
    if row is None:
        raise Refuse(NotFound("there is no such operator"))
    return _shown(row)


def fields_of(tx: Tx, id: str) -> Fields:
    """What is stored of an operator. Raises Refuse with NotFound."""
    row = tx.one(BY_ID, id=id)
    if row is None:
        raise Refuse(NotFound("there is no such operator"))
    values: dict[str, Any] = {name: getattr(row, name) for name in Fields.__struct_fields__}
    return Fields(**{**values, "active": bool(row.active)})


def create(tx: Tx, id: str, fields: Fields, *, by: str) -> dict[str, Any]:
    """Make an operator. Raises Refuse with Conflict for a name, certificate, principal or key that another one has."""
    _check_unique(tx, id, fields)
    tx.put(t.OPERATOR, id, **_columns(fields), created_at=tx.now)
    _audit(tx, "operator.create", id, fields, by)
    return shown(tx, id)


def change(tx: Tx, id: str, fields: Fields, *, by: str) -> dict[str, Any]:
    """Replace what is stored. With another role, CA, certificate or key, or inactive, the operator's sessions end.

    Raises Refuse: NotFound, Conflict as :func:`create` and where no administrator would be left.
    """
    before = fields_of(tx, id)
    _check_unique(tx, id, fields)
    if before.role == ADMINISTRATOR and before.active and not (fields.role == ADMINISTRATOR and fields.active):
        _check_another_administrator(tx, id)
    tx.put(t.OPERATOR, id, **_columns(fields))
    if _proofs(before) != _proofs(fields):
        drop_sessions(tx, id)
    _audit(tx, "operator.update", id, fields, by)
    return shown(tx, id)


def delete(tx: Tx, id: str, *, by: str) -> None:
    """Remove an operator with its sessions. Raises Refuse: NotFound, Conflict for the last active administrator."""
    before = fields_of(tx, id)
    if before.role == ADMINISTRATOR and before.active:
        _check_another_administrator(tx, id)
    tx.remove(t.OPERATOR, id)
    drop_sessions(tx, id)
    forget(tx, id)
    _audit(tx, "operator.delete", id, before, by)


def total(tx: Tx) -> int:
    """How many there are."""
    row = tx.one(_COUNT)
    return 0 if row is None else int(row.total)


def check(fields: Fields, ca_ids: Sequence[str]) -> None:
    """Raises BadRequest for what no operator may be."""
    if fields.role not in OPERATOR_ROLES:
        raise BadRequest(f"role: expected one of {', '.join(OPERATOR_ROLES)}")
    if not fields.name or len(fields.name) > 64 or not fields.name.isprintable() or fields.name != fields.name.strip():
        raise BadRequest("name: expected 1 to 64 printable characters without space around")
    if (fields.cert_fingerprint, fields.gssapi_principal, fields.eab_kid) == (None, None, None):
        raise BadRequest("cert_fingerprint, certificate, gssapi_principal or eab_kid: give one at least, or the operator could not sign in")
    if fields.role == RA and fields.ca_id is None:
        raise BadRequest("ca_id: a ca_ra acts for one CA; name it")
    if fields.role != RA and fields.ca_id is not None:
        raise BadRequest("ca_id: for a ca_ra alone; every other role acts for all CAs")
    if fields.ca_id is not None and fields.ca_id not in ca_ids:
        raise BadRequest(f"ca_id: there is no such CA; expected one of {', '.join(ca_ids)}")


def _proofs(fields: Fields) -> tuple[object, ...]:
    """What a session stands for."""
    keys = fields.cert_fingerprint, fields.gssapi_principal, fields.eab_kid, fields.eab_made_at
    return fields.role, fields.ca_id, fields.active, *keys


def _check_unique(tx: Tx, id: str, fields: Fields) -> None:
    for name, statement in _UNIQUE.items():
        value = getattr(fields, name)
        if value is not None and (row := tx.one(statement, value=value)) is not None and row.id != id:
            raise Refuse(Conflict(f"{name}: another operator has it"))


def _check_another_administrator(tx: Tx, id: str) -> None:
    if tx.one(_OTHER_ADMINISTRATOR, id=id) is None:
        raise Refuse(Conflict("this is the last active administrator; make another one first"))


def _columns(fields: Fields) -> Mapping[str, Any]:
    return {**msgspec.structs.asdict(fields), "active": int(fields.active)}


def _audit(tx: Tx, event_type: str, id: str, fields: Fields, by: str) -> None:
    scope = "" if fields.ca_id is None else f" of CA {fields.ca_id}"
    detail = f"operator {id}, {fields.role}{scope}, {'active' if fields.active else 'inactive'}"
    tx.audit(AuditEvent(event_type=event_type, service="ca", sub=fields.name, principal=by, detail=detail))


def _shown(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "role": row.role,
        "cert_fingerprint": row.cert_fingerprint,
        "gssapi_principal": row.gssapi_principal,
        "eab_kid": row.eab_kid,
        "ca_id": row.ca_id,
        "active": bool(row.active),
        "created_at": seconds(row.created_at),
        "last_seen_at": row.last_seen_at and seconds(row.last_seen_at),
        "failed_attempts": row.failed_attempts or 0,
        "locked_until": row.locked_until and seconds(row.locked_until),
    }


def fingerprint_of(der: bytes) -> str:
    """The name of a certificate: SHA-256, hexadecimal."""
    return sha256(der).hexdigest()
