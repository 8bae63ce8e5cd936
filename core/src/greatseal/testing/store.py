"""A database for the unit tests of a plugin, without a kernel, and the core's tables, to see what was written."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import structlog
from sqlalchemy import MetaData

from greatseal.api.declarations import Schema
from greatseal.audit import SCHEMA
from greatseal.clock import SystemClock
from greatseal.db.config import DatabaseConfig
from greatseal.db.core_tables import audit, key, strike
from greatseal.db.database import DatabaseImpl, open_database
from greatseal.db.migrate import open_store
from greatseal.host import Clock
from greatseal.testing.template import migrated

__all__ = ["audit", "key", "make_tables", "open_test_database", "strike"]


@asynccontextmanager
async def open_test_database(
    url: str,
    *schemas: Schema,
    node_id: str = "n1",
    clock: Clock | None = None,
    max_connections: int = 10,
    on_changed: Callable[[Sequence[tuple[str, str]]], None] = lambda _: None,
) -> AsyncIterator[DatabaseImpl]:
    """Migrate the core tables and those of ``schemas``, then open. Use it with the fixture ``database_url`` for both databases."""
    migrated(url, [SCHEMA, *schemas])
    config = DatabaseConfig(url=url, max_connections=max_connections)
    log = structlog.get_logger("greatseal.testing")
    async with open_database(config, node_id=node_id, clock=clock or SystemClock(), log=log, on_changed=on_changed) as database:
        yield database


def make_tables(url: str, metadata: MetaData) -> None:
    """Make tables that have no migrations, those of a test."""
    engine = open_store(url).engine()
    with engine.begin() as connection:
        metadata.create_all(connection)
    engine.dispose()
