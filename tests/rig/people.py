"""Passwords that cost little to check: a real hash takes 24 ms of a core or more, at every sign-in."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import tomlkit
from argon2 import PasswordHasher

from greatseal_users_file.edit import write

CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)


def write_users(path: Path, password: str, users: Mapping[str, Mapping[str, str | Sequence[str]]]) -> Path:
    """``users`` by name, with what the file may say of each; all have one password."""
    hashed = CHEAP.hash(password)
    write(path, tomlkit.dumps({"user": [{"username": name, "password": hashed, **more} for name, more in users.items()]}))
    return path


def drop_password(path: Path, name: str) -> None:
    """Somebody else has it."""
    document = tomlkit.parse(path.read_text())
    for user in document["user"]:
        if user["username"] == name:
            del user["password"]
    write(path, tomlkit.dumps(document))
