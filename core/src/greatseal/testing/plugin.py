"""The pytest plugin (entry point pytest11): fixtures for the tests of plugins.

``start_service`` runs a service with the features that a test names, ``start_nodes`` one on several nodes, ``open_people`` one with people
who sign in; ``database_url`` runs a test on SQLite and on PostgreSQL. The option ``--database postgresql`` runs every service on
PostgreSQL, and with it the whole suite of a plugin.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from greatseal.testing.nodes import Nodes
    from greatseal.testing.people import PeopleDesk
    from greatseal.testing.postgres import Cluster
    from greatseal.testing.service import Service

pytest_plugins = ["greatseal.testing.postgres"]

StartService = Callable[..., Awaitable["Service"]]
"""``await start_service(*features, **sections)``."""


FreshDatabase = Callable[[], str]
"""``fresh_database()``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The database of services whose test does not name one."""
    parser.addoption("--database", choices=["sqlite", "postgresql"], default="sqlite", help="what services run on: sqlite, postgresql")


@pytest.fixture
def fresh_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FreshDatabase]:
    """Make empty databases of the kind that ``--database`` names; the URL of each."""
    with ExitStack() as stack:
        numbers = count(1)

        def make() -> str:
            if request.config.getoption("--database") == "sqlite":
                return f"sqlite:///{tmp_path}/fresh{next(numbers)}.db"
            cluster: Cluster = request.getfixturevalue("postgres_cluster")
            url = cluster.make()
            stack.callback(cluster.drop, url)
            return url

        yield make


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database; a test that takes it runs on both."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/greatseal.db"
    else:
        yield request.getfixturevalue("postgres_url")


@pytest.fixture
async def start_service(tmp_path: Path, fresh_database: FreshDatabase) -> AsyncIterator[StartService]:
    """Start services for a test; all are stopped at its end. Sections of the configuration are keyword arguments."""
    from greatseal.testing.rsa import kept
    from greatseal.testing.service import document, serve

    async with AsyncExitStack() as stack:
        stack.enter_context(kept())
        numbers = count(1)

        async def start(*features: str, clock: Any = None, **sections: Mapping[str, Any]) -> "Service":
            folder = tmp_path / f"service{next(numbers)}"
            folder.mkdir()
            database = sections.get("database", {})
            if "url" not in database:
                sections["database"] = {**database, "url": fresh_database()}
            return await stack.enter_async_context(serve(document(folder, features, **sections), clock=clock))

        yield start


@pytest.fixture
async def start_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., Awaitable[tuple["Nodes", Mapping[str, "Service"]]]]]:
    """Start a service on several nodes, ``n1`` and ``n2`` by default, as :func:`greatseal.testing.nodes.serve_nodes` does.

    Further features may be installed before, in ``tmp_path / "nodes"``.
    """
    from greatseal.testing.nodes import serve_nodes
    from greatseal.testing.rsa import kept

    folder = tmp_path / "nodes"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    async with AsyncExitStack() as stack:
        stack.enter_context(kept())

        async def start(*features: str, labels: tuple[str, ...] = ("n1", "n2"), **more: Any) -> "tuple[Nodes, Mapping[str, Service]]":
            return await stack.enter_async_context(serve_nodes(folder, labels, *features, **more))

        yield start


@pytest.fixture
async def open_people(
    start_service: StartService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., Awaitable["PeopleDesk"]]]:
    """Start services with the people alice and bob, like :func:`start_service`, and sit down at a desk of theirs.

    ``desk`` is a class that knows more requests. Further features may be installed before, in ``tmp_path / "installed"``.
    """
    from greatseal.testing.desk import forgetful
    from greatseal.testing.distributions import install
    from greatseal.testing.people import PEOPLE, PeopleDesk

    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    feature = install(folder, "greatseal-people", PEOPLE)
    async with forgetful() as http:

        async def start(*features: str, desk: type[PeopleDesk] = PeopleDesk, **sections: Any) -> PeopleDesk:
            return desk(await start_service(feature, *features, **sections), http)

        yield start
