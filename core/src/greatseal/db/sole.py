"""One process writes to a database: what it keeps in memory is true only while nobody else changes the rows."""

import asyncio
import fcntl
import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import structlog

from greatseal.db.config import StoreProblem, check_url, dialect_of, sqlite_path
from greatseal.db.database import DatabaseImpl
from greatseal.db.holds import this_process
from greatseal.db.sqlite import prepare_file

__all__ = ["Hold", "InUse", "in_use", "sole", "this_process"]

PATIENCE = 5.0
"""Seconds for another process to end: a supervisor starts the next one while PostgreSQL still looks for the end of the last."""
STEP = 0.05


class InUse(StoreProblem):
    """Another process uses the database, or did while this one believed to have it."""


class Hold(Protocol):
    """The right to write to one database, had or wanted."""

    place: str
    """The database, without a password."""

    def taken(self) -> bool:
        """Take it unless another process has it."""

    def holder(self) -> str:
        """Who has it, as :func:`this_process` says it; empty when that cannot be told."""

    def mark(self) -> None:
        """Leave a mark in the database that the next holder removes. Without the tables it does nothing."""

    async def keep(self, database: DatabaseImpl, log: structlog.stdlib.BoundLogger) -> None:
        """Watch over it; ``database`` is suspended while it is not sure. Raises InUse when another process had it meanwhile."""

    def close(self) -> None:
        """Give it back."""


@contextmanager
def sole(url: str, *, patience: float = PATIENCE) -> Iterator[Hold]:
    """Be the only process that writes to the database, for whatever changes rows.

    Raises InUse when another process has it for longer than ``patience`` seconds, and StoreProblem when it cannot be asked for.
    """
    hold = _hold(url)
    try:
        end = time.monotonic() + patience
        while not hold.taken():
            if time.monotonic() >= end:
                raise InUse(in_use(hold.place, hold.holder()))
            time.sleep(STEP)
        hold.mark()
        yield hold
    finally:
        hold.close()


def in_use(place: str, holder: str) -> str:
    """What the one says that came second."""
    return f"{holder or 'another process'} uses the database {place}: stop the service first, one process at a time may write to it"


def _hold(url: str) -> Hold:
    check_url(url)
    if dialect_of(url) == "sqlite":
        return FileHold(sqlite_path(url))
    from greatseal.db.advisory import AdvisoryHold

    return AdvisoryHold(url)


class FileHold:
    """``flock`` on ``<file>.pid`` beside the file itself, whatever name it was given by. The kernel ends it with the process."""

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        prepare_file(path)
        try:
            self._file = os.open(f"{path.resolve()}.pid", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreProblem(f"the database {path} cannot be locked: {error.strerror}") from error
        # A child that runs no other program would keep it after our end.
        os.register_at_fork(after_in_child=_CloseInChild(self))

    def taken(self) -> bool:
        """See :class:`Hold`."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise StoreProblem(f"the database {self.place} cannot be locked: {error.strerror}; use a file system with locks") from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, this_process().encode(), 0)
        return True

    def holder(self) -> str:
        """See :class:`Hold`."""
        return os.pread(self._file, 200, 0).decode(errors="replace")

    def mark(self) -> None:
        """Nothing: nobody has it before we end."""

    async def keep(self, database: DatabaseImpl, log: structlog.stdlib.BoundLogger) -> None:  # noqa: ARG002
        """Wait: it cannot be lost."""
        await asyncio.get_running_loop().create_future()

    def close(self) -> None:
        """See :class:`Hold`."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class _CloseInChild:
    """What is registered stays for good, so it keeps nothing alive."""

    def __init__(self, hold: FileHold) -> None:
        self._hold = weakref.ref(hold)

    def __call__(self) -> None:
        if (hold := self._hold()) is not None:
            with suppress(OSError):
                hold.close()
