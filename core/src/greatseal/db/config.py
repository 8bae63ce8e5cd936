"""Where the store is, and what stops it from being opened."""

import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from greatseal.api.problems import StartProblem

Dialect = Literal["sqlite", "postgresql"]


class StoreProblem(StartProblem):
    """The store cannot be used; the text is one line that says why and what to do."""


class DatabaseConfig(msgspec.Struct, frozen=True, kw_only=True):
    """[database]: where state is kept."""

    url: str = "sqlite:///var/greatseal.db"
    """sqlite:///path (relative to the working folder; four slashes for an absolute path) or a libpq URI postgresql://..."""
    migrate: Literal["auto", "check"] | None = None
    """Whether a start migrates the schema or only checks it; auto on SQLite, check on PostgreSQL when left out."""
    max_connections: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    """Connections to PostgreSQL at most, 1 to 1000; each has a thread."""

    @property
    def mode(self) -> Literal["auto", "check"]:
        """``migrate``, or its default: ``auto`` on SQLite, ``check`` elsewhere."""
        return self.migrate or ("auto" if dialect_of(self.url) == "sqlite" else "check")


def dialect_of(url: str) -> Dialect:
    """The dialect that a URL names; a URL of another kind is a :class:`StoreProblem`."""
    scheme, colon, _ = url.partition("://")
    match scheme:
        case "sqlite":
            return "sqlite"
        case "postgresql" | "postgres":
            return "postgresql"
        case _:
            # What is no URL may be a connection string with a password in it.
            found = f"begins with {scheme!r}" if colon and scheme.isalnum() else "is not a URL"
            raise StoreProblem(f"[database] url {found}: use sqlite:///path or postgresql://host/name")


def sqlite_path(url: str) -> Path:
    """The file of an SQLite URL."""
    path = url.removeprefix("sqlite:///")
    if path in {"", url} or path.startswith(":memory:") or "\0" in path:
        raise StoreProblem("[database] url names no file: use sqlite:///path, several connections share it")
    return Path(path)


def check_url(url: str) -> None:
    """Raises :class:`StoreProblem` for a URL that no database can be opened under, as far as that can be told without opening one."""
    if dialect_of(url) == "sqlite":
        path = sqlite_path(url)
        # What may not be searched is told of its folder.
        if os.access(path, os.F_OK, effective_ids=os.access in os.supports_effective_ids) and path.is_dir():
            raise StoreProblem(f"[database] url names the folder {path}: use sqlite:///path of a file")
        return
    try:
        from psycopg import ProgrammingError, conninfo
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise StoreProblem(
            "[database] url names a PostgreSQL database and psycopg is not installed: pip install 'greatseal[postgres]'"
        ) from error
    try:
        conninfo.conninfo_to_dict(url)
    except ProgrammingError as error:
        raise unreadable(error) from None


def unreadable(error: Exception) -> StoreProblem:
    """One line of libpq's several; libpq quotes the URI that it cannot read, with its password."""
    said = " ".join(str(error).split()).partition('"')[0].rstrip(" :")
    return StoreProblem(f"[database] url is not a URI that libpq can read: {said}")
