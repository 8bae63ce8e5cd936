"""Which certificate is where in which log: what waits, what was given an index, and what lacks its standalone certificate."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import delete, func, select, update

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.store import Row, Tx, scan
from greatseal.db.tables import insert_new, param
from greatseal_mtc.revoked import REVOKED, any_revoked
from greatseal_mtc.state import Batch
from greatseal_mtc.tables import current, entry

MTC = "mtc"
"""The ``issue_as`` of certificates that are standalone Merkle Tree certificates themselves."""
BITE = 256

_ADD = insert_new(entry)
_FIND = select(entry).where(entry.c.certificate_id == param("id"))
_AT = select(entry).where(entry.c.ca_id == param("ca_id"), entry.c.log_number == param("log_number"), entry.c.position == param("position"))
_WAITING = (
    select(entry.c.certificate_id, entry.c.tbs)
    .where(entry.c.ca_id == param("ca_id"), entry.c.position.is_(None))
    .order_by(entry.c.certificate_id)
    .limit(param("limit"))
)
_PLACE = (
    update(entry)
    .where(entry.c.certificate_id == param("id"), entry.c.position.is_(None))
    .values(
        log_number=param("number"),
        position=param("index"),
        batch_start=param("start"),
        batch_end=param("end"),
    )
)
_LACKING = (
    select(entry.c.certificate_id, entry.c.position, entry.c.tbs)
    .where(
        entry.c.ca_id == param("ca_id"),
        entry.c.log_number == param("log_number"),
        entry.c.position > param("after"),
        entry.c.position < param("size"),
        entry.c.tbs.is_not(None),
    )
    .order_by(entry.c.position)
    .limit(BITE)
)
_BUILT = update(entry).where(entry.c.certificate_id == param("id"), entry.c.tbs.is_not(None)).values(standalone=param("der"), tbs=None)
_BELOW = (
    select(entry)
    .where(entry.c.ca_id == param("ca_id"), entry.c.log_number == param("log_number"), entry.c.position < param("size"))
    .order_by(entry.c.position.desc())
    .limit(param("limit"))
)
_LAST = select(func.max(entry.c.position).label("last")).where(entry.c.ca_id == param("ca_id"), entry.c.log_number == param("log_number"))
_FORGET = delete(entry).where(entry.c.certificate_id == param("id"), entry.c.position.is_(None))
_GIVEN_UP = (
    update(entry)
    .where(entry.c.ca_id == param("the_ca"), entry.c.log_number < param("below"), entry.c.tbs.is_not(None))
    .values(log_number=None, position=None, batch_start=None, batch_end=None)
)
_CURRENT = select(current.c.first_number, current.c.log_number).where(current.c.ca_id == param("ca_id"))
_OPEN = insert_new(current)
_GO_ON = (
    update(current)
    .where(current.c.ca_id == param("the_ca"), current.c.log_number < param("number"))
    .values(log_number=param("number"), opened_at=param("moment"))
)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate of a CA with a log. ``index`` is its place there, None as long as it has none (``mtc_log_index``); ``standalone`` is
    its standalone certificate (``mtc_standalone_der``), None as long as there is none, and for one that was issued as such."""

    certificate_id: str
    ca_id: str
    issue_as: str
    log_number: int | None
    index: int | None
    batch: tuple[int, int] | None
    standalone: bytes | None
    tbs: bytes | None

    @classmethod
    def of(cls, row: Row) -> "Entry":
        """The row of the table."""
        return cls(
            certificate_id=row.certificate_id,
            ca_id=row.ca_id,
            issue_as=row.issue_as,
            log_number=row.log_number,
            index=row.position,
            batch=None if row.position is None else (row.batch_start, row.batch_end),
            standalone=None if row.standalone is None else bytes(row.standalone),
            tbs=None if row.tbs is None else bytes(row.tbs),
        )


def add_waiting(tx: Tx, certificate_id: str, ca_id: str, issue_as: str, tbs: bytes) -> None:
    """An ordinary certificate waits for the log."""
    _add(tx, certificate_id, ca_id, issue_as, tbs=tbs)


def waiting(tx: Tx, ca_id: str) -> list[tuple[str, bytes]]:
    """Certificates that wait, at most :data:`BITE`."""
    return [(row.certificate_id, bytes(row.tbs)) for row in tx.all(_WAITING, ca_id=ca_id, limit=BITE)]


def is_waiting(tx: Tx, ca_id: str) -> bool:
    """Whether a certificate waits."""
    return tx.one(_WAITING, ca_id=ca_id, limit=1) is not None


def give_up(tx: Tx, ca_id: str, certificate_id: str, why: str) -> None:
    """A certificate that can never be logged, such as one that is too long, does not wait any more."""
    if tx.count(_FORGET, id=certificate_id):
        tx.audit(
            AuditEvent(
                event_type="log.unlogged", service="ca", outcome="failure", detail=f"CA {ca_id}, certificate {certificate_id}: {why}"
            )
        )


def record(tx: Tx, ca_id: str, number: int, batch: Batch) -> None:
    """What the log gave an index to; again for the last batch after a crash."""
    for index, id in enumerate(batch.ids, batch.start):
        place: dict[str, Any] = {"number": number, "index": index, "start": batch.start, "end": batch.end}
        if not tx.count(_PLACE, id=id, **place):
            _add(tx, id, ca_id, MTC, log_number=number, position=index, batch_start=batch.start, batch_end=batch.end)
    if any_revoked(tx, ca_id, number, batch.start, batch.end):
        tx.changed(REVOKED, ca_id)
    faults.point("mtc.recorded")


def find(tx: Tx, certificate_id: str) -> Entry | None:
    """What is known of a certificate; None for one of a CA without log, and for one from before it had one."""
    row = tx.one(_FIND, id=certificate_id)
    return None if row is None else Entry.of(row)


def find_all(tx: Tx, certificate_ids: Sequence[str]) -> dict[str, Entry]:
    """What is known of certificates."""
    found = (tx.one(_FIND, id=one) for one in certificate_ids)
    return {row.certificate_id: Entry.of(row) for row in found if row is not None}


def find_at(tx: Tx, ca_id: str, log_number: int, index: int) -> Entry | None:
    """The certificate with that index."""
    row = tx.one(_AT, ca_id=ca_id, log_number=log_number, position=index)
    return None if row is None else Entry.of(row)


def newest_below(tx: Tx, ca_id: str, log_number: int, size: int, limit: int) -> list[Entry]:
    """The last certificates of a tree of that size, newest first."""
    return [Entry.of(row) for row in tx.all(_BELOW, ca_id=ca_id, log_number=log_number, size=size, limit=limit)]


def lacking(tx: Tx, ca_id: str, log_number: int, after: int, size: int) -> list[tuple[str, int, bytes]]:
    """Ordinary certificates of a tree of that size without a standalone one, with an index behind ``after``, at most :data:`BITE`: id,
    index and TBSCertificate."""
    rows = tx.all(_LACKING, ca_id=ca_id, log_number=log_number, after=after, size=size)
    return [(row.certificate_id, row.position, bytes(row.tbs)) for row in rows]


@scan
def keep_built(tx: Tx, built: Sequence[tuple[str, bytes]]) -> None:
    """Standalone certificates, by the ids of the ordinary ones."""
    for id, der in built:
        tx.run(_BUILT, id=id, der=der)
    faults.point("mtc.standalone.stored")


def recorded_size(tx: Tx, ca_id: str, log_number: int) -> int:
    """How many entries the log has at least, by the indices that were given."""
    row = tx.one(_LAST, ca_id=ca_id, log_number=log_number)
    return 0 if row is None or row.last is None else int(row.last) + 1


class Numbers(msgspec.Struct, frozen=True):
    """The number of the log that a CA began with here, and of the one that it writes."""

    first: int
    current: int


def numbers_of(tx: Tx, ca_id: str) -> Numbers | None:
    """Those of a CA; None before its first log."""
    row = tx.one(_CURRENT, ca_id=ca_id)
    return None if row is None else Numbers(row.first_number, row.log_number)


def open_number(tx: Tx, ca_id: str, number: int, *, by: str | None = None) -> Numbers:
    """Write the log of that number from now on, unless a later one is written already.

    What the log before gave an index to, and no checkpoint a standalone certificate, waits for this one then.
    """
    began = tx.count(_OPEN, ca_id=ca_id, first_number=number, log_number=number, opened_at=tx.now)
    if began or tx.count(_GO_ON, the_ca=ca_id, number=number, moment=tx.now):
        tx.audit(AuditEvent(event_type="log.open", service="ca", principal=by, detail=f"CA {ca_id} writes log {number}"))
        tx.run(_GIVEN_UP, the_ca=ca_id, below=number)
        tx.changed(REVOKED, ca_id)
    found = numbers_of(tx, ca_id)
    assert found is not None, "it was written"
    return found


def _add(tx: Tx, id: str, ca_id: str, issue_as: str, **more: object) -> None:
    empty = dict.fromkeys(("tbs", "log_number", "position", "batch_start", "batch_end", "standalone"))
    tx.run(_ADD, certificate_id=id, ca_id=ca_id, issue_as=issue_as, **{**empty, **more})
