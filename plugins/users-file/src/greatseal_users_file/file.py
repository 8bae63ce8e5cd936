"""The users file on disk: made on the first start, read again when it changed."""

import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from greatseal.api.folders import folder_problem
from greatseal.api.problems import StartProblem
from greatseal_users_file.people import People, read

ADMINISTRATOR = "admin"
ADMINISTRATORS = "administrators"
TOO_OPEN = stat.S_IRWXO | stat.S_IWGRP
"""The permissions that the file may not give."""


class UsersFile:
    """The people of one file."""

    def __init__(self, path: Path, log: structlog.stdlib.BoundLogger, now: Callable[[], int] | None = None) -> None:
        self.path = path
        self._log = log
        self._now = now
        self._stamp: tuple[int, int] | None = None
        self._people: People | None = None

    def problems(self) -> list[str]:
        """What :meth:`open` would refuse, as far as that can be told without making the file."""
        try:
            if self.path.exists():
                read(self.path.read_bytes())
                return self._too_open()
        except (OSError, ValueError) as error:
            return [f"[users] file: {self.path}: {error}"]
        reason = folder_problem(self.path.parent)
        return [f"[users] file: {self.path} cannot be made: {reason}"] if reason else []

    def open(self) -> str | None:
        """Read the file, or make it with an administrator: then the password is returned, which nobody can see again."""
        made = None
        try:
            if not self.path.exists():
                made = secrets.token_urlsafe(15)
                from greatseal_users_file.edit import AlreadyThere, add  # a start that makes nothing needs no TOML writer

                try:
                    add(self.path, ADMINISTRATOR, made, display_name="Administrator", groups=(ADMINISTRATORS,), now=self._now)
                except AlreadyThere:  # another process that starts now was faster
                    made = None
            self._people = read(self.path.read_bytes())
            self._stamp = self._version()
        except (OSError, ValueError) as error:
            raise StartProblem(f"[users] file: {self.path}: {error}") from None
        if problems := self._too_open():
            raise StartProblem(*problems)
        return made

    def unmake(self) -> None:
        """Take back the file that :meth:`open` made, unless somebody changed it since."""
        with suppress(OSError):
            if self._version() == self._stamp:
                self.path.unlink()

    def people(self) -> People:
        """Everybody now. A file that changed is read again; when it does not read any more, the log says so and the last good one stays."""
        if self._people is None:
            raise RuntimeError("the users file is read from the lifespans on")
        try:
            stamp = self._version()
            if stamp != self._stamp:
                self._stamp = stamp
                self._people = read(self.path.read_bytes())
                self._log.info("users file read again", users=len(self._people.users))
        except (OSError, ValueError) as error:
            self._log.error("users file cannot be read; the people stay as they were", file=str(self.path), reason=str(error))
        return self._people

    def _too_open(self) -> list[str]:
        if self.path.stat().st_mode & TOO_OPEN:
            return [f"[users] file: {self.path} can be read by everybody or written by its group; run chmod 600 {self.path}"]
        return []

    def _version(self) -> tuple[int, int]:
        found = self.path.stat()
        return found.st_mtime_ns, found.st_ino
