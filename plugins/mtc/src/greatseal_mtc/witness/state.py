"""What the witness remembers of each log, and the one step in which it goes on."""

import msgspec
from sqlalchemy import select, update

from greatseal.api.store import Row, Tx
from greatseal.db.tables import insert_new, param
from greatseal_mtc.tables import witness

__all__ = ["Next", "latest", "move", "remember_cosignatures"]

_LATEST = select(witness).where(witness.c.log == param("of"))
_MOVE = (
    update(witness)
    .where(witness.c.log == param("of"), witness.c.size == param("old_size"), witness.c.root == param("old_root"))
    .values(size=param("size"), root=param("root"), note=param("note"), cosignatures=None, moved_at=param("now"))
)
_FIRST = insert_new(witness)
_COSIGNED = (
    update(witness)
    .where(witness.c.log == param("of"), witness.c.size == param("at_size"), witness.c.root == param("at_root"))
    .values(cosignatures=param("cosignatures"))
)


class Next(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that was proven to continue ``old_size`` and ``old_root``."""

    log: str
    origin: str
    old_size: int
    old_root: bytes
    size: int
    root: bytes
    note: bytes


def latest(tx: Tx, log: str) -> Row | None:
    """The last checkpoint of a log that was cosigned; None before the first one."""
    return tx.one(_LATEST, of=log)


def move(tx: Tx, step: Next) -> bool:
    """Go on to the next checkpoint; False when the log is not at the old one any more, since another call went on before."""
    values = {"size": step.size, "root": step.root, "note": step.note}
    if tx.count(_MOVE, of=step.log, old_size=step.old_size, old_root=step.old_root, now=tx.now, **values):
        return True
    if step.old_size:
        return False
    return tx.count(_FIRST, log=step.log, origin=step.origin, cosignatures=None, moved_at=tx.now, **values) == 1


def remember_cosignatures(tx: Tx, log: str, size: int, root: bytes, cosignatures: bytes) -> None:
    """For those who read what was cosigned; nothing when the log went on meanwhile."""
    tx.run(_COSIGNED, of=log, at_size=size, at_root=root, cosignatures=cosignatures)
