"""Which entries of a log are of certificates that are revoked (draft-ietf-plants-merkle-tree-certs-05 s7.5).

Certificates that are revoked, and those whose issuance was given up, are told until a while after they ended.
"""

from sqlalchemy import delete, select

from greatseal.api.store import Tx, scan
from greatseal.db.tables import insert_new, param
from greatseal_mtc.tables import entry, revoked

REVOKED = "mtc_revoked"
"""The kind of change that tells of one more revoked entry of a log, by the id of its CA."""
BITE = 500

_ADD = insert_new(revoked)
_POSITIONS = (
    select(entry.c.position)
    .join(revoked, revoked.c.certificate_id == entry.c.certificate_id)
    .where(revoked.c.ca_id == param("ca_id"), entry.c.log_number == param("log_number"))
    .order_by(entry.c.position)
)
_ANY = (
    select(entry.c.position)
    .join(revoked, revoked.c.certificate_id == entry.c.certificate_id)
    .where(
        entry.c.ca_id == param("ca_id"),
        entry.c.log_number == param("log_number"),
        entry.c.position >= param("start"),
        entry.c.position < param("end"),
    )
    .limit(1)
)
_ENDED = select(revoked.c.certificate_id).where(revoked.c.ca_id == param("ca_id"), revoked.c.not_after < param("passed")).limit(BITE)
_DROP = delete(revoked).where(revoked.c.certificate_id == param("id"))


def add_revoked(tx: Tx, certificate_id: str, ca_id: str, not_after: int) -> None:
    """The certificate is revoked, or counts as such, whether it has an index yet or not."""
    if tx.count(_ADD, certificate_id=certificate_id, ca_id=ca_id, not_after=not_after):
        tx.changed(REVOKED, ca_id)


def any_revoked(tx: Tx, ca_id: str, log_number: int, start: int, end: int) -> bool:
    """Whether an entry of these is."""
    return tx.one(_ANY, ca_id=ca_id, log_number=log_number, start=start, end=end) is not None


@scan
def positions(tx: Tx, ca_id: str, log_number: int) -> list[int]:
    """The indices of revoked certificates in a log, ascending."""
    return [row.position for row in tx.all(_POSITIONS, ca_id=ca_id, log_number=log_number)]


@scan
def drop_ended(tx: Tx, ca_id: str, passed: int) -> int:
    """Drop some of those that ended before; how many, at most :data:`BITE`."""
    rows = tx.all(_ENDED, ca_id=ca_id, passed=passed)
    for row in rows:
        tx.run(_DROP, id=row.certificate_id)
    if rows:
        tx.changed(REVOKED, ca_id)
    return len(rows)
