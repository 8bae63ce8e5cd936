"""The tables, and how the cleanup finds what has ended."""

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.dialects import sqlite

from greatseal.testing.schema import schema_matches
from greatseal_idp.tables import SCHEMA
from greatseal_idp.token import cleanup


def test_the_migrations_make_the_declared_tables(database_url):
    assert schema_matches(SCHEMA, database_url) == []


@pytest.mark.parametrize("name", ["_CODES", "_ENDED", "_REVOKED", "_FORGET"])
def test_writers_do_not_wait_while_the_cleanup_looks_through_a_table(name):
    compiled = getattr(cleanup, name).compile(dialect=sqlite.dialect())
    engine = create_engine("sqlite://")
    SCHEMA.metadata.create_all(engine)

    with engine.connect() as connection:
        steps = [row.detail for row in connection.execute(text(f"EXPLAIN QUERY PLAN {compiled}".replace("?", "1")))]
    engine.dispose()

    assert steps
    assert not [step for step in steps if step.startswith("SCAN")], steps
