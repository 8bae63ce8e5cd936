"""The users file on disk: read again when it changed, written whole and never half."""

import os
import secrets
import stat
from pathlib import Path

import structlog
import tomlkit
from argon2 import PasswordHasher
from tomlkit.items import AoT

from greatseal.api.problems import StartProblem
from greatseal_users_file.people import People, read

# The minimum of OWASP's password storage advice: 19 MiB, two passes, one lane.
HASHER = PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1)
ADMINISTRATORS = "administrators"


class UsersFile:
    """The people of one file."""

    def __init__(self, path: Path, log: structlog.stdlib.BoundLogger) -> None:
        self.path = path
        self._log = log
        self._stamp: tuple[int, int] | None = None
        self._people: People | None = None

    def open(self) -> str | None:
        """Read the file, or make it with an administrator: then the password is returned, which nobody can see again."""
        made = None
        if not self.path.exists():
            made = secrets.token_urlsafe(15)
            add(self.path, "admin", made, display_name="Administrator", groups=(ADMINISTRATORS,))
        try:
            self._people = read(self.path.read_bytes())
            self._stamp = self._now()
        except (OSError, ValueError) as error:
            raise StartProblem(f"[users] file: {self.path}: {error}") from None
        if self.path.stat().st_mode & (stat.S_IRWXO | stat.S_IWGRP):
            raise StartProblem(f"[users] file: {self.path} can be read by everybody or written by its group; run chmod 600 {self.path}")
        return made

    def people(self) -> People:
        """Everybody now. A file that changed is read again; when it does not read any more, the log says so and the last good one stays."""
        if self._people is None:
            raise RuntimeError("the users file is read from the lifespans on")
        try:
            stamp = self._now()
            if stamp != self._stamp:
                self._stamp = stamp
                self._people = read(self.path.read_bytes())
                self._log.info("users file read again", users=len(self._people.users))
        except (OSError, ValueError) as error:
            self._log.error("users file cannot be read; the people stay as they were", file=str(self.path), reason=str(error))
        return self._people

    def _now(self) -> tuple[int, int]:
        found = self.path.stat()
        return found.st_mtime_ns, found.st_ino


def add(
    path: Path, username: str, password: str, *, display_name: str | None = None, email: str | None = None, groups: tuple[str, ...] = ()
) -> None:
    """Add a user. Raises ValueError for a user who is there, or for a name that may not be."""
    document = tomlkit.parse(path.read_text(encoding="utf-8")) if path.exists() else tomlkit.document()
    users = _users(document)
    if any(user["username"] == username for user in users):
        raise ValueError(f"user {username!r} is there already; change the password with `greatseal users passwd`")
    entry = tomlkit.table()
    given = {"username": username, "password": HASHER.hash(password), "display_name": display_name, "email": email, "groups": list(groups)}
    for key, value in given.items():
        if value:
            entry[key] = value
    users.append(entry)
    write(path, tomlkit.dumps(document))


def change_password(path: Path, username: str, password: str) -> None:
    """Set a new password. Raises ValueError for an unknown user."""
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    entry = next((user for user in _users(document) if user["username"] == username), None)
    if entry is None:
        raise ValueError(f"user {username!r} is not in {path}")
    entry["password"] = HASHER.hash(password)
    write(path, tomlkit.dumps(document))


def _users(document: tomlkit.TOMLDocument) -> AoT:
    if "user" not in document:
        document["user"] = tomlkit.aot()
    users = document["user"]
    if isinstance(users, AoT):
        return users
    raise ValueError("`user` is no array of tables; every user is a [[user]]")


def write(path: Path, text: str) -> None:
    """Replace the file by a checked text, atomically, readable by its owner alone."""
    read(text.encode())
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
