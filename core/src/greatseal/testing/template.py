"""Schemas for tests: migrated once in a process. After that an empty database gets what the migrations left, without alembic."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from greatseal.api.declarations import Schema
from greatseal.db.config import dialect_of, sqlite_path
from greatseal.db.migrate import ensure
from greatseal.db.sqlite import prepare_file

__all__ = ["migrated"]

Schemas = tuple[Schema, ...]
_FILES: dict[Schemas, bytes] = {}
_SCRIPTS: dict[Schemas, str | None] = {}


def migrated(url: str, schemas: Sequence[Schema]) -> None:
    """Bring the database to the head of every schema, by :func:`greatseal.db.migrate.ensure` or as that left another one."""
    if dialect_of(url) == "postgresql":
        _in_postgres(url, tuple(schemas))
    elif (path := sqlite_path(url)).exists():
        ensure(url, schemas, "auto")
    else:
        _in_file(url, path, tuple(schemas))


def _in_file(url: str, path: Path, schemas: Schemas) -> None:
    if schemas in _FILES:
        prepare_file(path)
        path.write_bytes(_FILES[schemas])
        return
    ensure(url, schemas, "auto")
    with closing(sqlite3.connect(path)) as connection:
        _FILES[schemas] = connection.serialize()


def _in_postgres(url: str, schemas: Schemas) -> None:
    import psycopg

    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace").fetchone()
        empty = found == (0,)
        if empty and (script := _SCRIPTS.get(schemas)) is not None:
            connection.execute(script.encode())
            return
    if empty and schemas not in _SCRIPTS:
        _SCRIPTS[schemas] = _recorded(url, schemas)
    else:
        ensure(url, schemas, "auto")


def _recorded(url: str, schemas: Schemas) -> str | None:
    """Migrate; the statements that changed something. None when one of them had parameters."""
    from sqlalchemy import Engine, event

    said: list[str] = []
    plain = True

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        nonlocal plain
        if not statement.lstrip().upper().startswith(("SELECT", "SHOW")):
            plain = plain and not parameters
            said.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        ensure(url, schemas, "auto")
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    return ";\n".join(said) if plain else None
