"""Where the store is, and what stops it from being opened."""

from pathlib import Path
from typing import Literal

import msgspec

Dialect = Literal["sqlite", "postgresql"]


class StoreProblem(Exception):
    """The store cannot be used; the text is one line that says why and what to do."""


class DatabaseConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The section ``[database]``.

    ``url`` is ``sqlite:///relative/path``, ``sqlite:////absolute/path`` or a libpq URI ``postgresql://...``. ``max_connections``
    bounds the connections to PostgreSQL.
    """

    url: str = "sqlite:///var/greatseal.db"
    migrate: Literal["auto", "check"] | None = None
    max_connections: int = 10

    @property
    def mode(self) -> Literal["auto", "check"]:
        """``migrate``, or its default: ``auto`` on SQLite, ``check`` elsewhere."""
        return self.migrate or ("auto" if dialect_of(self.url) == "sqlite" else "check")


def dialect_of(url: str) -> Dialect:
    """The dialect that a URL names; a URL of another kind is a :class:`StoreProblem`."""
    scheme = url.partition("://")[0]
    match scheme:
        case "sqlite":
            return "sqlite"
        case "postgresql" | "postgres":
            return "postgresql"
        case _:
            raise StoreProblem(f"[database] url begins with {scheme!r}: use sqlite:///path or postgresql://host/name")


def sqlite_path(url: str) -> Path:
    """The file of an SQLite URL."""
    path = url.removeprefix("sqlite:///")
    if path in {"", url} or path.startswith(":memory:"):
        raise StoreProblem("[database] url names no file: use sqlite:///path, several connections share it")
    return Path(path)
