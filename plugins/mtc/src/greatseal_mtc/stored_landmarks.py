"""Landmarks in the database: which sizes of a log are frozen, and their certificates."""

import msgspec
from sqlalchemy import delete, select, update

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.moments import SECOND
from greatseal.api.store import Row, Tx
from greatseal.db.tables import insert_new, param
from greatseal_mtc.tables import landmark

_OF_LOG = (landmark.c.ca_id == param("ca_id")) & (landmark.c.log_number == param("log_number"))
_NEWEST = select(landmark).where(_OF_LOG).order_by(landmark.c.sequence_no.desc()).limit(1)
_ALL = select(landmark).where(_OF_LOG).order_by(landmark.c.sequence_no)
_FIND = select(landmark).where(_OF_LOG, landmark.c.sequence_no == param("sequence_no"))
_COVERING = select(landmark).where(_OF_LOG, landmark.c.tree_size > param("index")).order_by(landmark.c.tree_size).limit(1)
_UNBUILT = select(landmark).where(_OF_LOG, landmark.c.cert_der.is_(None)).order_by(landmark.c.sequence_no)
_ALLOCATE = insert_new(
    landmark, *(landmark.c[name] for name in ("ca_id", "log_number", "sequence_no", "previous_size", "tree_size", "created"))
)
_BUILD = update(landmark).where(landmark.c.id == param("the_id"), landmark.c.cert_der.is_(None)).values(cert_der=param("der"))
_DROP = delete(landmark).where(
    landmark.c.ca_id == param("ca_id"), landmark.c.log_number == param("log_number"), landmark.c.sequence_no <= param("last")
)
_DROP_FORMER = delete(landmark).where(landmark.c.ca_id == param("ca_id"), landmark.c.log_number < param("log_number"))


class Landmark(msgspec.Struct, frozen=True, kw_only=True):
    """A size of a log that is frozen. ``sequence_no`` counts from 0, the draft's number is one more; ``previous_size`` is what the landmark
    before it froze, 0 for the first one; ``cert_der`` is the LandmarkCertificate, None until it is built; ``created`` Unix seconds."""

    id: int
    ca_id: str
    log_number: int
    sequence_no: int
    previous_size: int
    tree_size: int
    cert_der: bytes | None
    created: int

    @property
    def number(self) -> int:
        """As the draft counts: its landmark 0 has no entries."""
        return self.sequence_no + 1


def newest(tx: Tx, ca_id: str, log_number: int) -> Landmark | None:
    """The last landmark of a log."""
    row = tx.one(_NEWEST, ca_id=ca_id, log_number=log_number)
    return None if row is None else _landmark(row)


def newest_size(tx: Tx, ca_id: str, log_number: int) -> int:
    """What it froze; 0 for none."""
    found = newest(tx, ca_id, log_number)
    return 0 if found is None else found.tree_size


def active(tx: Tx, ca_id: str, log_number: int) -> list[Landmark]:
    """Every landmark of a log that is kept, oldest first."""
    return [_landmark(row) for row in tx.all(_ALL, ca_id=ca_id, log_number=log_number)]


def find(tx: Tx, ca_id: str, log_number: int, sequence_no: int) -> Landmark | None:
    """One landmark."""
    row = tx.one(_FIND, ca_id=ca_id, log_number=log_number, sequence_no=sequence_no)
    return None if row is None else _landmark(row)


def covering(tx: Tx, ca_id: str, log_number: int, index: int) -> Landmark | None:
    """The smallest landmark with a tree that has the entry; None before there is one."""
    row = tx.one(_COVERING, ca_id=ca_id, log_number=log_number, index=index)
    return None if row is None else _landmark(row)


def unbuilt(tx: Tx, ca_id: str, log_number: int) -> list[Landmark]:
    """Those without certificate."""
    return [_landmark(row) for row in tx.all(_UNBUILT, ca_id=ca_id, log_number=log_number)]


def allocate(tx: Tx, ca_id: str, log_number: int, size: int) -> Landmark | None:
    """Freeze a size of the log: the landmark of that size, which may be there already. None where a larger one is."""
    last = newest(tx, ca_id, log_number)
    if last is not None and last.tree_size >= size:
        return last if last.tree_size == size else None
    number = 0 if last is None else last.sequence_no + 1
    row = {
        "ca_id": ca_id,
        "log_number": log_number,
        "sequence_no": number,
        "previous_size": last.tree_size if last else 0,
        "tree_size": size,
    }
    if tx.count(_ALLOCATE, **row, created=tx.now // SECOND):
        detail = f"CA {ca_id}, log {log_number}: landmark {number} of size {size}"
        tx.audit(AuditEvent(event_type="log.landmark", service="ca", detail=detail))
    faults.point("mtc.landmark.allocated")
    return find(tx, ca_id, log_number, number)


def build(tx: Tx, id: int, der: bytes) -> bool:
    """Store the certificate of a landmark; False where it has one."""
    return tx.count(_BUILD, the_id=id, der=der) > 0


def prune(tx: Tx, ca_id: str, log_number: int, most: int) -> None:
    """Drop the oldest landmarks beyond ``most``, and all of logs that are not written any more."""
    last = newest(tx, ca_id, log_number)
    if last is not None and last.sequence_no >= most:
        tx.run(_DROP, ca_id=ca_id, log_number=log_number, last=last.sequence_no - most)
    tx.run(_DROP_FORMER, ca_id=ca_id, log_number=log_number)


def _landmark(row: Row) -> Landmark:
    return Landmark(
        id=row.id,
        ca_id=row.ca_id,
        log_number=row.log_number,
        sequence_no=row.sequence_no,
        previous_size=row.previous_size,
        tree_size=row.tree_size,
        cert_der=None if row.cert_der is None else bytes(row.cert_der),
        created=row.created,
    )
