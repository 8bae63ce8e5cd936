"""Where the store is, and what stops it from being opened."""

from pathlib import Path
from typing import Literal

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
    max_connections: int = 10
    """Connections to PostgreSQL at most."""

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
    if path in {"", url} or path.startswith(":memory:"):
        raise StoreProblem("[database] url names no file: use sqlite:///path, several connections share it")
    return Path(path)
