"""What several folders of tests share."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from rig.ds389 import Ds389
from rig.samba import Samba
from rig.slapd import Slapd


@pytest.fixture
def program() -> Callable[[str, str], Path]:
    """``program(name, package)``: where a program of the machine is. Absent: the test is skipped, or fails when ``CI`` is set."""

    def find(name: str, package: str) -> Path:
        found = shutil.which(name)
        if found is None:
            report = pytest.fail if os.environ.get("CI") else pytest.skip
            report(f"{name} is not installed: apt install {package}")
        return Path(found)

    return find


MakeSlapd = Callable[..., AbstractContextManager[Slapd]]


@pytest.fixture(scope="session")
def make_slapd() -> MakeSlapd:
    """``make_slapd(**more)``: a directory in a folder of its own, running until the block ends. Without slapd the test is skipped."""

    @contextmanager
    def make(**more: Any) -> Iterator[Slapd]:
        _require("slapd", Slapd.missing())
        # A short path: a Unix socket's has 107 bytes at most.
        with tempfile.TemporaryDirectory(prefix="gs-ldap-", dir="/tmp") as folder, Slapd(Path(folder), **more).running() as slapd:
            yield slapd

    return make


@pytest.fixture(scope="session")
def slapd(make_slapd: MakeSlapd) -> Iterator[Slapd]:
    """A directory with the entries of seed.ldif, shared: who changes an entry puts it back."""
    with make_slapd() as running:
        yield running


@pytest.fixture(scope="module")
def ds389() -> Iterator[Ds389]:
    """A 389-ds with the entries of seed.ldif; without the program the test is skipped."""
    _require("389-ds", Ds389.missing())
    with tempfile.TemporaryDirectory(prefix="gs-389-", dir="/tmp") as folder, Ds389(Path(folder)).running() as running:
        yield running


@pytest.fixture(scope="module")
def samba() -> Iterator[Samba]:
    """An Active Directory; without Samba's domain controller, which ``make peers-all`` installs, the test is skipped."""
    if missing := Samba.missing():
        pytest.skip(f"Samba cannot run: apt install {missing}")
    with tempfile.TemporaryDirectory(prefix="gs-ad-", dir="/tmp") as folder, Samba(Path(folder)).running() as running:
        yield running


def _require(what: str, missing: str) -> None:
    if missing:
        report = pytest.fail if os.environ.get("CI") else pytest.skip
        report(f"{what} cannot run: apt install {missing}")
