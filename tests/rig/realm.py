"""A running realm for tests, by whose configuration this process asks and accepts."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from rig.kdc import FAKETIME, Kdc

OURS = ("KRB5_CONFIG", "KRB5_KDC_PROFILE", "KRB5RCACHEDIR")


def need_kerberos(*, library: bool = True, clocks: bool = False) -> None:
    """Skip the test where a program or, with ``library``, the GSSAPI of Python is missing, or with ``clocks`` other clocks.

    Under ``CI`` it fails.
    """
    missing = Kdc.missing() or ("libkrb5-dev gcc" if library and find_spec("gssapi") is None else "")
    if clocks and FAKETIME is None:
        missing = f"{missing} libfaketime".strip()
    if missing:
        report = pytest.fail if os.environ.get("CI") else pytest.skip
        report(f"Kerberos is not installed: apt install {missing}")


@contextmanager
def realm_in(folder: Path, *, clock: str = "", **settings: str) -> Iterator[Kdc]:
    """A KDC; libkrb5 reads its configuration anew for each exchange, so this process is of the realm as long as it runs."""
    kdc = Kdc(folder, clock=clock, **settings)
    with pytest.MonkeyPatch.context() as patch, kdc.running():
        for name in OURS:
            patch.setenv(name, kdc.environ[name])
        yield kdc


@contextmanager
def silent(kdc: Kdc) -> Iterator[None]:
    """Whoever asks the KDC in this block is connected, and gets no answer until it ends: then the connections are cut."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as swallowing, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", kdc.elsewhere(swallowing.getsockname()[1]))
        yield
