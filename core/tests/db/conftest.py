"""An empty database with the tables of the test module, on SQLite and on PostgreSQL."""

from collections.abc import AsyncIterator

import pytest

from greatseal.db.database import DatabaseImpl
from greatseal.testing.store import make_tables, open_test_database


@pytest.fixture
def told() -> list[tuple[str, str]]:
    """The pairs that were told, in order."""
    return []


@pytest.fixture
async def database(request: pytest.FixtureRequest, database_url: str, told: list[tuple[str, str]]) -> AsyncIterator[DatabaseImpl]:
    make_tables(database_url, request.module.metadata)
    async with open_test_database(database_url, on_changed=told.extend) as opened:
        yield opened


@pytest.fixture
def sqlite_url(request: pytest.FixtureRequest, tmp_path) -> str:
    url = f"sqlite:///{tmp_path}/greatseal.db"
    make_tables(url, request.module.metadata)
    return url
