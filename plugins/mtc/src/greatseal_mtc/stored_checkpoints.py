"""Checkpoints in the database, what others signed for them, and how many are kept."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import delete, func, select

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.problems import Conflict
from greatseal.api.store import Refuse, Row, Tx, scan
from greatseal.db.tables import insert_new, param
from greatseal_mtc.structures import SubtreeSignature
from greatseal_mtc.tables import checkpoint, cosignature, witnessed

BITE = 500

_KEEP = insert_new(checkpoint)
_NEWEST = (
    select(checkpoint)
    .where(checkpoint.c.ca_id == param("ca_id"), checkpoint.c.log_number == param("log_number"))
    .order_by(checkpoint.c.sequence_no.desc())
    .limit(1)
)
_LAST = select(func.max(checkpoint.c.sequence_no).label("last")).where(checkpoint.c.ca_id == param("ca_id"))
_LISTED = (
    select(checkpoint)
    .where(checkpoint.c.ca_id == param("ca_id"), checkpoint.c.sequence_no < param("before"))
    .order_by(checkpoint.c.sequence_no.desc())
    .limit(param("limit"))
)
_COSIGNED = insert_new(cosignature)
_COSIGNATURES = (
    select(cosignature)
    .where(cosignature.c.ca_id == param("ca_id"), cosignature.c.sequence_no == param("sequence_no"))
    .order_by(cosignature.c.url, cosignature.c.first, cosignature.c.last)
)
_WITNESSED = insert_new(witnessed)
_WITNESSES = (
    select(witnessed.c.url, witnessed.c.line, witnessed.c.of_log)
    .where(witnessed.c.ca_id == param("ca_id"), witnessed.c.sequence_no == param("sequence_no"))
    .order_by(witnessed.c.url)
)
_LAST_OF_WITNESS = (
    select(checkpoint.c.tree_size)
    .join(witnessed, (witnessed.c.ca_id == checkpoint.c.ca_id) & (witnessed.c.sequence_no == checkpoint.c.sequence_no))
    .where(checkpoint.c.ca_id == param("ca_id"), checkpoint.c.log_number == param("log_number"), witnessed.c.url == param("url"))
    .order_by(checkpoint.c.sequence_no.desc())
    .limit(1)
)
_OLD = (
    select(checkpoint.c.sequence_no)
    .where(checkpoint.c.ca_id == param("ca_id"), checkpoint.c.sequence_no <= param("last"))
    .order_by(checkpoint.c.sequence_no)
    .limit(BITE)
)
_DROP = delete(checkpoint).where(checkpoint.c.ca_id == param("ca_id"), checkpoint.c.sequence_no <= param("last"))
_DROP_COSIGNATURES = delete(cosignature).where(cosignature.c.ca_id == param("ca_id"), cosignature.c.sequence_no <= param("last"))
_DROP_WITNESSED = delete(witnessed).where(witnessed.c.ca_id == param("ca_id"), witnessed.c.sequence_no <= param("last"))


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A signed checkpoint. ``der`` is the Checkpoint, ``signature`` the CA cosigner's over the tree, ``note`` the log operator's note,
    ``cosigned`` the same text with the CA cosigner's signature, ``log_note`` the CA cosigner's note under the ID of the log as origin (C2SP
    mtc-tlog). ``created_at`` is microseconds on a whole second."""

    ca_id: str
    log_number: int
    sequence_no: int
    size: int
    root: bytes
    der: bytes
    signature: bytes
    note: bytes
    cosigned: bytes
    log_note: bytes
    created_at: int


def newest_of(tx: Tx, ca_id: str, log_number: int) -> Stored | None:
    """The newest checkpoint of a log."""
    row = tx.one(_NEWEST, ca_id=ca_id, log_number=log_number)
    return None if row is None else _stored(row)


def listed(tx: Tx, ca_id: str, limit: int, before: int = 1 << 62) -> list[Stored]:
    """Checkpoints of a CA with a sequence number below ``before``, newest first."""
    return [_stored(row) for row in tx.all(_LISTED, ca_id=ca_id, before=before, limit=limit)]


def keep(tx: Tx, made: Stored) -> Stored:
    """Store a checkpoint that was signed, under the next number. Raises ``Refuse(Conflict)`` where one of that size or more is there."""
    newest = newest_of(tx, made.ca_id, made.log_number)
    if newest is not None and newest.size >= made.size:
        raise Refuse(Conflict(f"the log has a checkpoint of size {newest.size} already"))
    row = tx.one(_LAST, ca_id=made.ca_id)
    number = 0 if row is None or row.last is None else int(row.last) + 1
    stored = msgspec.structs.replace(made, sequence_no=number)
    tx.run(
        _KEEP,
        ca_id=stored.ca_id,
        sequence_no=number,
        log_number=stored.log_number,
        tree_size=stored.size,
        root_hash=stored.root,
        der=stored.der,
        signature=stored.signature,
        note=stored.note,
        cosigned=stored.cosigned,
        log_note=stored.log_note,
        created_at=stored.created_at,
    )
    detail = f"CA {stored.ca_id}, log {stored.log_number}: checkpoint {number} of size {stored.size}"
    tx.audit(AuditEvent(event_type="log.checkpoint", service="ca", detail=detail))
    faults.point("mtc.checkpoint.stored")
    return stored


def keep_cosignature(tx: Tx, of: Stored, url: str, signature: SubtreeSignature) -> None:
    """Store what a cosigner signed for a checkpoint."""
    place = {"ca_id": of.ca_id, "sequence_no": of.sequence_no, "url": url, "first": signature.start, "last": signature.end}
    tx.run(_COSIGNED, **place, der=signature.der, received_at=tx.now)


def cosignatures(tx: Tx, ca_id: str, sequence_no: int) -> list[tuple[str, SubtreeSignature]]:
    """What cosigners signed for a checkpoint, by their URLs."""
    rows = tx.all(_COSIGNATURES, ca_id=ca_id, sequence_no=sequence_no)
    return [(row.url, SubtreeSignature.parse(bytes(row.der))) for row in rows]


def keep_witnessed(tx: Tx, of: Stored, url: str, line: str, *, of_log: bool) -> None:
    """Store the line that a witness gave for a checkpoint; ``of_log``: for its ``log_note``."""
    tx.run(_WITNESSED, ca_id=of.ca_id, sequence_no=of.sequence_no, url=url, line=line, of_log=int(of_log), received_at=tx.now)


def witnesses_of(tx: Tx, ca_id: str, sequence_no: int) -> dict[str, tuple[str, bool]]:
    """The lines that witnesses gave for a checkpoint, by their URLs, and whether they are for its ``log_note``."""
    return {row.url: (row.line, bool(row.of_log)) for row in tx.all(_WITNESSES, ca_id=ca_id, sequence_no=sequence_no)}


def last_witnessed(tx: Tx, ca_id: str, log_number: int, url: str) -> int:
    """The size that a witness cosigned last, as far as it is kept; 0 for none."""
    row = tx.one(_LAST_OF_WITNESS, ca_id=ca_id, log_number=log_number, url=url)
    return 0 if row is None else int(row.tree_size)


@scan
def prune(tx: Tx, ca_id: str, last: int) -> bool:
    """Drop checkpoints up to that number, oldest first, with what others signed for them; False when none is left of these."""
    rows = tx.all(_OLD, ca_id=ca_id, last=last)
    if not rows:
        return False
    dropped: Sequence[object] = (_DROP_COSIGNATURES, _DROP_WITNESSED, _DROP)
    for statement in dropped:
        tx.run(statement, ca_id=ca_id, last=rows[-1].sequence_no)  # type: ignore[arg-type]  # statements of one kind
    return True


def _stored(row: Row) -> Stored:
    return Stored(
        ca_id=row.ca_id,
        log_number=row.log_number,
        sequence_no=row.sequence_no,
        size=row.tree_size,
        root=bytes(row.root_hash),
        der=bytes(row.der),
        signature=bytes(row.signature),
        note=bytes(row.note),
        cosigned=bytes(row.cosigned),
        log_note=bytes(row.log_note),
        created_at=row.created_at,
    )
