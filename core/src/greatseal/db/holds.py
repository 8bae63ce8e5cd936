"""Named holds on a database: of all processes one is inside. The kernel, or the server, ends a hold with its process."""

import fcntl
import os
import re
import socket
from pathlib import Path

from greatseal.api.problems import Unavailable
from greatseal.api.store import Held

__all__ = ["FileNamedHold", "checked", "held", "this_process"]

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


def this_process() -> str:
    """As the next one will read it."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def checked(name: str) -> str:
    """The name of a hold, which becomes a part of a file's. Raises ValueError."""
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} names no hold: it takes 1 to 100 of a to z, 0 to 9, '.', '_' and '-', a letter or digit first")
    return name


def held(name: str, holder: str) -> Held:
    """What the one gets that came second."""
    return Held(f"{holder or 'another process'} holds {name}")


class FileNamedHold:
    """``flock`` on ``<file>.<name>.hold`` beside the database."""

    def __init__(self, database: Path, name: str) -> None:
        """Take it. Raises Held."""
        try:
            self._file = os.open(f"{database.resolve()}.{checked(name)}.hold", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unlockable(error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, this_process().encode(), 0)
        except BlockingIOError:
            holder = os.pread(self._file, 200, 0).decode(errors="replace")
            self.close()
            raise held(name, holder) from None
        except OSError as error:
            self.close()
            raise _unlockable(error) from error

    def close(self) -> None:
        """Give it back."""
        os.close(self._file)


def _unlockable(error: OSError) -> Unavailable:
    return Unavailable("the database cannot be locked", cause=str(error))
