"""The only column types, table states, and statement pieces that both databases read alike.

Statements run raw, so values are never converted: what a type holds is what a row shows.
"""

from enum import Enum
from typing import Any

from sqlalchemy import BigInteger, BindParameter, Column, Integer, LargeBinary, MetaData, SmallInteger, Table, bindparam
from sqlalchemy import Text as _Text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import SchemaItem
from sqlalchemy.sql.base import Executable

__all__ = [
    "Blob", "Collection", "Document", "Flag", "Id", "Moment", "Sealed", "Serial", "State", "Text", "insert_new", "param", "table",
]  # fmt: skip


class Id(_Text):
    """A public id or another short key: text."""

    cache_ok = True


class Text(_Text):
    """Text."""

    cache_ok = True


class Document(_Text):
    """JSON text; the owner encodes and decodes with msgspec."""

    cache_ok = True


class Blob(LargeBinary):
    """Bytes."""

    cache_ok = True


class Sealed(Blob):
    """Bytes sealed under the cluster key by ``host.keys.seal``; a rotation of that key seals every such column again."""

    cache_ok = True


class Moment(BigInteger):
    """Microseconds since 1970 UTC."""

    cache_ok = True


class Flag(SmallInteger):
    """0 or 1."""

    cache_ok = True


Serial = BigInteger().with_variant(Integer(), "sqlite")
"""An integer key that the database numbers. Also right for counters."""


class State(Enum):
    """Who may change a row, and how it travels between nodes. It matters with several nodes; choose for them."""

    REPLICATED = "replicated"
    """The same on every node, field by field; any node may change it, and the others hear of it a little later. For what is read everywhere
    and seldom changed: registrations, settings, sessions. A key of one column; written by ``tx.put`` and ``tx.remove`` alone."""
    OWNED = "owned"
    """Changed by one node alone, the one whose label or number is in its handle or id; what others ask of it is sent there as an
    :func:`~greatseal.api.store.operation`. For what must happen once: codes, orders, counters, single use."""
    APPEND_ONLY = "append-only"
    """Inserted by the node where it happened, then never changed and deleted only when it is too old. For records: events, revocations."""
    LOCAL = "local"
    """Of this node and of no meaning to others: it may be lost with the node. For what can be made again: caches, progress of a sweep."""


def table(name: str, metadata: MetaData, state: State, *items: SchemaItem) -> Table:
    """A table named ``<feature>_<noun>`` with its state. Write a REPLICATED one only by ``tx.put`` and ``tx.remove``."""
    return Table(name, metadata, *items, info={"state": state})


class Collection:
    """A REPLICATED table with its one-column primary key. ``name`` is also the kind that caches subscribe to."""

    def __init__(self, name: str, of: Table) -> None:
        if of.info.get("state") is not State.REPLICATED:
            raise ValueError(f"table {of.name} is not REPLICATED")
        (self.key,) = (column for column in of.primary_key.columns)
        self.name = name
        self.table = of


def param(name: str) -> BindParameter[Any]:
    """A value given when the statement runs."""
    return bindparam(name)


def insert_new(into: Table, *columns: Column[Any]) -> Executable:
    """Insert a row unless it conflicts with one; ``tx.count`` of it is 1 or 0. Without ``columns`` all are given."""
    chosen = columns or tuple(into.columns)
    return postgresql.insert(into).values({column.name: bindparam(column.name) for column in chosen}).on_conflict_do_nothing()
