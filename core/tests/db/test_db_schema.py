from greatseal.audit import SCHEMA
from greatseal.testing.schema import schema_matches


def test_the_core_migrations_make_the_core_tables(database_url):
    assert schema_matches(SCHEMA, database_url) == []
