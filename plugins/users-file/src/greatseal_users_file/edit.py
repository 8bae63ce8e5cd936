"""Changes of the users file: comments stay, and it is never half written."""

import os
import secrets
from pathlib import Path

import tomlkit
from tomlkit.items import AoT

from greatseal_users_file.hashing import HASHER
from greatseal_users_file.people import read


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
