"""The pytest plugin (entry point pytest11): fixtures for the tests of plugins.

``start_service`` runs a service with the features that a test names; ``database_url`` runs a test on SQLite and on PostgreSQL.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from greatseal.testing.service import Service

pytest_plugins = ["greatseal.testing.postgres"]

StartService = Callable[..., Awaitable["Service"]]
"""``await start_service(*features, **sections)``."""


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database; a test that takes it runs on both."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/greatseal.db"
    else:
        yield request.getfixturevalue("postgres_url")


@pytest.fixture
async def start_service(tmp_path: Path) -> AsyncIterator[StartService]:
    """Start services for a test; all are stopped at its end. Sections of the configuration are keyword arguments."""
    from greatseal.testing.rsa import kept
    from greatseal.testing.service import document, serve

    async with AsyncExitStack() as stack:
        stack.enter_context(kept())
        count = 0

        async def start(*features: str, clock: Any = None, **sections: Mapping[str, Any]) -> "Service":
            nonlocal count
            count += 1
            folder = tmp_path / f"service{count}"
            folder.mkdir()
            return await stack.enter_async_context(serve(document(folder, features, **sections), clock=clock))

        yield start
