"""Changes of the users file: comments stay, none is lost, and it is never half written."""

import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import tomlkit
from tomlkit.items import AoT, Table

from greatseal_users_file.file import TOO_OPEN
from greatseal_users_file.hashing import HASHER
from greatseal_users_file.people import datetime_of, read

WRITING = 1_000_000
"""Microseconds in which a change is on the disk."""
LOCK_SECONDS = 10.0


class AlreadyThere(ValueError):
    """There is a user of this name."""


class ChangedMeanwhile(ValueError):
    """The password is another one than it was."""


def add(
    path: Path,
    username: str,
    password: str,
    *,
    display_name: str | None = None,
    email: str | None = None,
    groups: tuple[str, ...] = (),
    home_directory: str | None = None,
    login_shell: str | None = None,
    now: Callable[[], int] | None = None,
) -> None:
    """Add a user. With ``now`` (microseconds since the epoch), what an earlier user of the name began ends.

    Raises AlreadyThere for a user who is there, ValueError for a name that may not be, and OSError.
    """
    hashed = HASHER.hash(password)
    with alone(path) as real:
        document = tomlkit.parse(real.read_text(encoding="utf-8")) if real.exists() else tomlkit.document()
        users = _users(document)
        if any(user["username"] == username for user in users):
            raise AlreadyThere(f"user {username!r} is there already; change the password with `greatseal users passwd`")
        entry = tomlkit.table()
        given = {
            "username": username,
            "password": hashed,
            "display_name": display_name,
            "email": email,
            "groups": list(groups),
            "home_directory": home_directory,
            "login_shell": login_shell,
        }
        for key, value in given.items():
            if value:
                entry[key] = value
        if now is not None:
            _stamp(entry, now)
        users.append(entry)
        write(real, tomlkit.dumps(document))


def change_password(path: Path, username: str, password: str, now: Callable[[], int], *, instead_of: str | None = None) -> None:
    """Set a new password: what was begun with the old one ends. Raises ValueError for an unknown user, and OSError.

    With ``instead_of``, the hash of the old one, raises ChangedMeanwhile when another one stands there.
    """
    hashed = HASHER.hash(password)
    with alone(path) as real:
        document = tomlkit.parse(real.read_text(encoding="utf-8"))
        entry = next((user for user in _users(document) if user["username"] == username), None)
        if entry is None:
            raise ValueError(f"user {username!r} is not in {path}")
        if instead_of is not None and entry.get("password") != instead_of:
            raise ChangedMeanwhile(f"the password of {username!r} was changed meanwhile")
        entry["password"] = hashed
        _stamp(entry, now)
        write(real, tomlkit.dumps(document))


@contextmanager
def alone(path: Path) -> Iterator[Path]:
    """Nobody else changes the file meanwhile; gives the file itself where ``path`` is a link to it.

    The folder is locked (flock), not the file, which each change replaces, nor a file beside it, which would be left behind.
    """
    real = path.resolve()
    real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(folder)
        yield real
    finally:
        os.close(folder)  # which unlocks it


def _lock(folder: int) -> None:
    """Raises OSError where it cannot be had: NFS locks no folder, and whoever may read a folder may hold it."""
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > end:
                raise OSError(error.errno, f"its folder is locked by somebody else for more than {LOCK_SECONDS:.0f} s") from None
            time.sleep(0.01)
        except OSError as error:
            raise OSError(error.errno, f"its folder cannot be locked: {error.strerror}") from None


def write(path: Path, text: str) -> None:
    """Replace the file by a checked text, atomically. Owner and mode stay; a new file is readable by its owner alone."""
    read(text.encode())
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            _own(descriptor, path)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _own(descriptor: int, path: Path) -> None:
    """Give a draft the owner, group and mode of the file that it replaces; a new file of root's is its folder's owner's.

    The service could not read its own users any more after a change by root.
    """
    made = os.fstat(descriptor)
    if path.exists():
        found = path.stat()
        mode = stat.S_IMODE(found.st_mode) & ~TOO_OPEN
    elif os.geteuid() == 0:
        found, mode = path.parent.stat(), 0o600
    else:
        return
    if (made.st_uid, made.st_gid) != (found.st_uid, found.st_gid):
        try:
            os.fchown(descriptor, found.st_uid, found.st_gid)
        except PermissionError as error:
            raise PermissionError(error.errno, "it belongs to another user or group; change it as its owner or as root") from None
    os.fchmod(descriptor, mode)


def _users(document: tomlkit.TOMLDocument) -> AoT:
    if "user" not in document:
        document["user"] = tomlkit.aot()
    users = document["user"]
    if isinstance(users, AoT):
        return users
    raise ValueError("`user` is no array of tables; every user is a [[user]]")


def _stamp(entry: Table, now: Callable[[], int]) -> None:
    """The moment is a little ahead: what is begun until the new file is there is begun with the old password."""
    entry["password_changed"] = datetime_of(now() + WRITING)
