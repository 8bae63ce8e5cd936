"""A server for clients that we did not write."""

import functools
import http.server
import importlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from rig.browser import Browser, Page, chromium
from rig.provider import Person, Provider
from rig.server import Server

from greatseal.testing.postgres import Cluster

NAMES = ["first.example.test", "second.example.test"]


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A running server, on SQLite and forked from a warm one.

    The indirect parameter ``postgresql`` puts it there; ``command`` starts it as a user does, by the command and in a new process.
    """
    how = getattr(request, "param", "sqlite")
    database = request.getfixturevalue("postgres_url") if how == "postgresql" else None
    folder = tmp_path / "server"
    folder.mkdir()
    server = Server(folder, NAMES, database=database)
    with server.running() if how == "command" else server.forked():
        yield server


@pytest.fixture(scope="module")
def provider(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """A running identity provider for the tests of a module.

    The indirect parameter is that of :func:`server`, or a line of its section [oauth]. With ``open`` programs register themselves.
    """
    how = getattr(request, "param", "sqlite")
    database = request.getfixturevalue("module_postgres_url") if how == "postgresql" else None
    provider = Provider(tmp_path_factory.mktemp("provider"), database=database)
    if how == "open":
        provider.open_registration()
    if " = " in how:
        provider.configuration.write_text(provider.configuration.read_text().replace("[oauth]", f"[oauth]\n{how}"))
    with provider.running() if how == "command" else provider.forked():
        yield provider


@pytest.fixture(scope="module")
def module_postgres_url(postgres_cluster: Cluster) -> Iterator[str]:
    """The URL of a database for the tests of a module."""
    url = postgres_cluster.make()
    yield url
    postgres_cluster.drop(url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A running Chromium."""
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A window with a profile of its own; at the end the browser must have had nothing to complain of."""
    page = await browser.page()
    yield page
    await page.close()
    assert page.complaints == []


@pytest.fixture
def person(provider: Provider) -> Iterator[Person]:
    """Somebody with a browser who is not signed in yet."""
    person = Person(provider.issuer)
    with person.session:
        yield person


@pytest.fixture(scope="session")
def library() -> Callable[[str, str], Any]:
    """``library(module, package)``: a module of a package of the group ``peers``. Absent: skipped, or failed when ``CI`` is set."""

    def find(module: str, package: str) -> Any:
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError:
            report = pytest.fail if os.environ.get("CI") else pytest.skip
            return report(f"{package} is not installed: make peers")

    return find


@pytest.fixture
def go_program() -> Callable[[str], Path]:
    """``go_program(name)``: a client of ``tests/peers/go``, which ``make peers-all`` builds. Absent: the test is skipped."""

    def find(name: str) -> Path:
        found = Path(__file__).with_name("go") / "bin" / name
        if not found.exists():
            pytest.skip(f"{name} is not built: make peers-all, which needs Go")
        return found

    return find


@pytest.fixture
def rust_program() -> Callable[[str], Path]:
    """``rust_program(name)``: a client of ``tests/peers/rust``, which ``make peers-all`` builds. Absent: the test is skipped."""

    def find(name: str) -> Path:
        found = Path(__file__).with_name("rust") / name / "target/debug" / name
        if not found.exists():
            pytest.skip(f"{name} is not built: make peers-all, which needs Rust")
        return found

    return find


@pytest.fixture
def java_program() -> Callable[[str], Path]:
    """``java_program(name)``: the jar of a client of ``tests/peers/java``, which ``make peers-all`` builds. Absent: the test is skipped."""

    def find(name: str) -> Path:
        found = Path(__file__).with_name("java") / name / "target" / f"{name}.jar"
        if not found.exists():
            pytest.skip(f"{name} is not built: make peers-all, which needs Maven")
        return found

    return find


@pytest.fixture
def webroot(server: Server, tmp_path: Path) -> Iterator[Path]:
    """The folder of challenge responses, served where the server looks: for clients that bring no web server."""
    root = tmp_path / "webroot"
    challenges = root / ".well-known" / "acme-challenge"
    challenges.mkdir(parents=True)
    handler = functools.partial(Quiet, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", server.validation_port), handler) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        yield challenges
        web.shutdown()
        thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass
