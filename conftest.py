"""Settings of all tests."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import EntryPoints
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from greatseal.kernel import loading

# The first example of a process builds Unicode tables, which takes seconds on a busy machine: not the fault of a test.
# make test-faults draws many more where a test names no number of its own.
settings.register_profile(
    "greatseal",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=10_000 if os.environ.get("GREATSEAL_ALL_FAULTS") else 100,
)
settings.load_profile("greatseal")

# Its library is built where krb5-config and cc are: the Makefile says so where it is not.
collect_ignore_glob = [] if os.environ.get("CI") or find_spec("gssapi") else ["plugins/gssapi/*"]

_search = loading.entry_points


_found: dict[tuple[Any, ...], EntryPoints] = {}


def _entry_points(*, group: str) -> EntryPoints:
    """What is installed, searched again when a folder of the path has changed: a search takes as long as the rest of a start."""
    key: tuple[Any, ...] = (group,)
    for folder in map(Path, sys.path):
        with suppress(OSError):
            key += (folder, folder.stat().st_mtime_ns)
    if key not in _found:
        _found[key] = _search(group=group)
    return _found[key]


loading.entry_points = _entry_points  # type: ignore[attr-defined]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: tests of outages and stops wait for most of their time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + cores // 2


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """A command that a test runs in this process configures the log for good; the next test reads the log where it was."""
    before = structlog.get_config()
    yield
    if structlog.get_config() != before:
        structlog.configure(**before)


NOBODY = 65534


@pytest.fixture
def forbidden() -> Iterator[Path]:
    """A file in a folder that this process may not search, for the whole test; root becomes another user meanwhile."""
    me = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "locked" / "file"
        file.parent.mkdir()
        file.touch(0o755)
        file.parent.chmod(0)
        if me == 0:
            os.chown(name, NOBODY, -1)
            os.seteuid(NOBODY)
        try:
            yield file
        finally:
            os.seteuid(me)
            file.parent.chmod(0o700)
