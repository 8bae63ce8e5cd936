"""A throw-away PostgreSQL for tests: one cluster for each test process, an empty database for each test."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import MappingProxyType

import pytest

__all__ = ["Cluster", "absent", "mortal_cluster", "postgres_cluster", "postgres_url", "running_cluster"]

VERSIONS = Path("/usr/lib/postgresql")
# Without fsync a power cut may lose commits; the death of every process does not.
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "logging_collector": "off",
}


def absent(package: str) -> None:
    """Skip the test for want of a package; fail it where everything has to be there."""
    if os.environ.get("CI"):
        pytest.fail(f"{package} is not installed")
    pytest.skip(f"{package} is not installed")


class Cluster:
    """A PostgreSQL on a Unix socket in a folder of its own, owned by the user postgres when we are root."""

    def __init__(self, binaries: Path, folder: Path, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self._settings = {**SETTINGS, **settings}
        self._binaries = binaries
        self._folder = folder
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        self._call("initdb", "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def url(self, database: str = "postgres") -> str:
        """The libpq URI of a database."""
        return f"postgresql:///{database}?host={self._folder}&user=postgres"

    def start(self) -> None:
        """Start and wait until it answers."""
        settings = [f"-c{name}={value}" for name, value in self._settings.items()]
        command = [*self._command("postgres"), "-D", str(self._folder / "data"), "-k", str(self._folder), *settings]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")  # noqa: S603
        end = time.monotonic() + 30
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL did not start: {(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT cuts the sessions and shuts down, SIGQUIT ends at once, as a crash would."""
        if self._process is not None:
            # Behind runuser the postmaster is another process; it names itself in its pid file.
            os.kill(int((self._folder / "data" / "postmaster.pid").read_text().split()[0]), how)
            self._process.wait(30)
            self._process = None

    def make(self) -> str:
        """An empty database; its URL."""
        import psycopg

        name = f"test{next(self._numbers)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            # Copied as files: half the work of copying through the write-ahead log, which is the default since 15.
            strategy = " STRATEGY file_copy" if connection.info.server_version >= 150000 else ""
            connection.execute(f"CREATE DATABASE {name}{strategy}".encode())
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database with the sessions that are left in it."""
        name = url.removeprefix("postgresql:///").partition("?")[0]
        self.query(f"DROP DATABASE {name} WITH (FORCE)")

    def query(self, text: str) -> None:
        """Run one statement as the superuser."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(text.encode())

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _command(self, program: str) -> list[str]:
        user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        return [*user, str(self._binaries / program)]

    def _call(self, program: str, *arguments: str) -> None:
        subprocess.run([*self._command(program), *arguments], check=True, capture_output=True, cwd="/")  # noqa: S603


def find_binaries() -> Path | None:
    """The newest installed server's programs."""
    found = sorted(VERSIONS.glob("*/bin/postgres"), key=lambda path: int(path.parent.parent.name))
    if found:
        return found[-1].parent
    program = shutil.which("postgres")
    return Path(program).parent if program else None


@contextmanager
def running_cluster(binaries: Path, settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[Cluster]:
    """A cluster in a folder that goes with it."""
    # A short path: a Unix socket's has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="gs-pg-", dir="/tmp") as folder:
        cluster = Cluster(binaries, Path(folder), settings)
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Cluster]:
    """A running cluster."""
    binaries = find_binaries()
    if binaries is None:
        absent("postgresql")
    assert binaries is not None
    if find_spec("psycopg") is None:
        absent("psycopg (pip install 'greatseal[postgres]')")
    with running_cluster(binaries) as cluster:
        yield cluster


@pytest.fixture
def mortal_cluster(postgres_cluster: Cluster) -> Iterator[Cluster]:  # noqa: ARG001  # which says what is not installed
    """A running cluster of one test, which may stop it."""
    binaries = find_binaries()
    assert binaries is not None
    with running_cluster(binaries) as cluster:
        yield cluster


@pytest.fixture
def postgres_url(postgres_cluster: Cluster) -> Iterator[str]:
    """The URL of an empty database."""
    url = postgres_cluster.make()
    yield url
    postgres_cluster.drop(url)
