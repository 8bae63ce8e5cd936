"""Does a plugin's newest migration make the tables that it declares?"""

from typing import Any

from greatseal.api.declarations import Schema
from greatseal.db.migrate import ensure, open_store

__all__ = ["schema_matches"]


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
