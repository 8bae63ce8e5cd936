"""What is known of a passkey besides its key: name, counter, transports, times. Of every store alike, by credential id."""

import msgspec
from sqlalchemy import func, select

from greatseal.api.audit import AuditEvent
from greatseal.api.messages import Message
from greatseal.api.passkeys import MOST_PASSKEYS, Passkey
from greatseal.api.problems import Conflict
from greatseal.api.store import Refuse, Row, Tx
from greatseal.db.tables import param
from greatseal.jose.compact import b64url_encode
from greatseal_passkey.ceremony import Proven
from greatseal_passkey.tables import RECORD
from greatseal_passkey.tables import record as t

_BY_ID = select(t).where(t.c.id == param("id"))
_OF = select(t).where(t.c.subject == param("subject")).order_by(t.c.created_at, t.c.id).limit(MOST_PASSKEYS)
_COUNT = select(func.count().label("number")).select_from(t).where(t.c.subject == param("subject"))
UNNAMED = "Passkey"
"""One of a directory that was not registered here."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A row. Moments are microseconds."""

    id: str
    subject: str
    store: str
    label: str
    aaguid: str
    transports: tuple[str, ...]
    sign_count: int
    backup_eligible: bool
    backup_state: bool
    created_at: int
    last_used_at: int | None = None
    suspected_at: int | None = None


def find(tx: Tx, id: str) -> Record | None:
    """The record of a credential id, in base64url."""
    row = tx.one(_BY_ID, id=id)
    return None if row is None else _of(row)


def of_person(tx: Tx, subject: str) -> list[Record]:
    """Those of a person, oldest first."""
    return [_of(row) for row in tx.all(_OF, subject=subject)]


def transports_of(tx: Tx, subject: str) -> dict[str, tuple[str, ...]]:
    """How the devices of a person are reached, by credential id."""
    return {record.id: record.transports for record in of_person(tx, subject)}


def write(tx: Tx, record: Record) -> None:
    """Note a new passkey. Raises Refuse with Conflict for a known id, and for one too many."""
    counted = tx.one(_COUNT, subject=record.subject)
    if counted is not None and counted.number >= MOST_PASSKEYS:
        raise Refuse(Conflict(Message("you have %(most)d passkeys, which is the most; delete one first", {"most": MOST_PASSKEYS})))
    if tx.one(_BY_ID, id=record.id) is not None:
        raise Refuse(Conflict(Message("this passkey is registered already")))
    _put(tx, record)
    tx.audit(_event("passkey_registered", record))


def forget(tx: Tx, subject: str, id: str, by: str | None = None) -> str:
    """The passkey is gone; ``by`` is who deleted it where that is not its person. Gives the name that it had."""
    record = find(tx, id)
    label = UNNAMED
    if record is not None and record.subject == subject:
        label = record.label
        tx.remove(RECORD, id)
    tx.audit(AuditEvent(event_type="passkey_deleted", service="idp", sub=subject, principal=by, detail=f"id={id[:64]}"))
    return label


def rename(tx: Tx, subject: str, id: str, label: str) -> bool:
    """Give a passkey of the person another name; False for one of which nothing is known, or that is somebody else's."""
    record = find(tx, id)
    if record is None or record.subject != subject:
        return False
    tx.put(RECORD, id, label=label)
    tx.audit(_event("passkey_renamed", record))
    return True


def note_use(tx: Tx, passkey: Passkey, store: str, proven: Proven) -> str | None:
    """Note a proven assertion, after which its counter is good once.

    Says what is wrong: the counter went back, so that there may be a copy (WebAuthn s6.1.1), which is noted, or the flag for backups is
    another one than before (s7.2).
    """
    id = b64url_encode(passkey.id)
    record = find(tx, id)
    if record is None:
        _put(tx, _unknown(tx, passkey, store, proven))
        return None
    if (proven.sign_count or record.sign_count) and proven.sign_count <= record.sign_count:
        tx.put(RECORD, id, suspected_at=tx.now)
        tx.audit(_event("passkey_suspected", record, f" counter={proven.sign_count} known={record.sign_count}"))
        return "the signature counter went back"
    if proven.backup_eligible is not record.backup_eligible:
        return "the flag for backups has changed"
    tx.put(RECORD, id, sign_count=proven.sign_count, backup_state=int(proven.backup_state), last_used_at=tx.now)
    return None


def _unknown(tx: Tx, passkey: Passkey, store: str, proven: Proven) -> Record:
    """Of one that was registered elsewhere: its counter began at 0."""
    return Record(
        id=b64url_encode(passkey.id),
        subject=passkey.subject,
        store=store,
        label=UNNAMED,
        aaguid="",
        transports=(),
        sign_count=proven.sign_count,
        backup_eligible=proven.backup_eligible,
        backup_state=proven.backup_state,
        created_at=tx.now,
        last_used_at=tx.now,
    )


def _put(tx: Tx, record: Record) -> None:
    fields = msgspec.structs.asdict(record)
    del fields["id"]
    flags = {"backup_eligible": int(record.backup_eligible), "backup_state": int(record.backup_state)}
    tx.put(RECORD, record.id, **{**fields, **flags, "transports": msgspec.json.encode(record.transports).decode()})


def _event(event_type: str, record: Record, more: str = "") -> AuditEvent:
    outcome = "failure" if event_type == "passkey_suspected" else "success"
    detail = f"id={record.id[:64]}{more}"
    return AuditEvent(event_type=event_type, service="idp", outcome=outcome, sub=record.subject, detail=detail)


def _of(row: Row) -> Record:
    return Record(
        id=row.id,
        subject=row.subject,
        store=row.store,
        label=row.label,
        aaguid=row.aaguid,
        transports=tuple(msgspec.json.decode(row.transports)),
        sign_count=row.sign_count,
        backup_eligible=bool(row.backup_eligible),
        backup_state=bool(row.backup_state),
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        suspected_at=row.suspected_at,
    )
