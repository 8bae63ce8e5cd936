"""Does a plugin's newest migration make the tables that it declares, and do rows outlive it?"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from greatseal.api.declarations import Schema
from greatseal.db.migrate import ensure, open_store

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["at_revision", "schema_matches"]


def schema_matches(schema: Schema, url: str) -> list[Any]:
    """Migrate the empty database at ``url`` and compare. An empty list is right; else what differs, in alembic's terms.

    Use it with the fixture ``database_url``: ``assert schema_matches(SCHEMA, database_url) == []``.
    """
    from greatseal.db.alembic import differences, newest

    if newest(schema) != schema.head:
        return [f"the newest migration is {newest(schema)}, Schema.head says {schema.head}"]
    ensure(url, [schema], "auto")
    engine = open_store(url).engine()
    try:
        return differences(engine, schema)
    finally:
        engine.dispose()


@contextmanager
def at_revision(schema: Schema, url: str, revision: str) -> "Iterator[Connection]":
    """A transaction in the database at ``url``, migrated to that revision: to see that a later one keeps the rows of before."""
    ensure(url, [msgspec.structs.replace(schema, head=revision)], "auto")
    engine = open_store(url).engine()
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()
