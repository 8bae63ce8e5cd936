"""The migrations make the declared tables."""

from greatseal.testing.schema import schema_matches
from greatseal_idp.tables import SCHEMA


def test_the_migrations_make_the_declared_tables(database_url):
    assert schema_matches(SCHEMA, database_url) == []
