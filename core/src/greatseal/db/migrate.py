"""Schema versions, one for each plugin, and the way from the recorded one to the newest.

The recorded versions are read with plain SQL: alembic is only imported when a schema is behind.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Literal, Protocol

from greatseal.api.declarations import Schema
from greatseal.db.config import StoreProblem, check_url, dialect_of, sqlite_path
from greatseal.db.sqlite import connect, prepare_file
from greatseal.db.writer import FileLock

if TYPE_CHECKING:
    from sqlalchemy import Engine

__all__ = ["StoreProblem", "ensure", "open_store", "version_table"]

Progress = Callable[[str], None]


def ensure(url: str, schemas: Sequence[Schema], mode: Literal["auto", "check"], *, progress: Progress | None = None) -> list[str]:
    """Bring every schema to its head (``auto``), or refuse when one is behind (``check``).

    Returns a line for each schema that was migrated. Raises :class:`StoreProblem` for a schema that a newer release wrote, for one
    that is behind with ``check``, for a head that is no revision of the schema's migrations, and when the database cannot be read. Safe
    when several processes start at once.
    """
    store = open_store(url)
    with store.alone():
        recorded = store.versions(schemas)
        behind = [schema for schema in schemas if recorded[schema.feature] != schema.head]
        for schema in behind:
            _check_known(schema, recorded[schema.feature])
        if behind and mode == "check":
            was, first = recorded[behind[0].feature], behind[0]
            state = f"at {was}" if was else "not there"
            raise StoreProblem(f"the tables of {first.feature} are {state}, this release needs {first.head}: run `greatseal migrate`")
        return [_upgrade(store, schema, recorded[schema.feature], progress) for schema in behind]


def version_table(feature: str) -> str:
    """The table that records a feature's revision."""
    return f"{feature.replace('-', '_')}_alembic_version"


class Store(Protocol):
    """What migrations need of a database."""

    def versions(self, schemas: Sequence[Schema]) -> dict[str, str | None]:
        """The recorded revision of each feature, None without one."""

    def alone(self) -> AbstractContextManager[None]:
        """One migrating process at a time."""

    def engine(self) -> "Engine":
        """For alembic: every transaction begins at once and covers table definitions."""


def open_store(url: str) -> Store:
    check_url(url)
    if dialect_of(url) == "sqlite":
        return _SqliteStore(url)
    from greatseal.db.postgres import PostgresStore

    return PostgresStore(url)


class _SqliteStore:
    def __init__(self, url: str) -> None:
        self._path = sqlite_path(url)
        prepare_file(self._path)

    def versions(self, schemas: Sequence[Schema]) -> dict[str, str | None]:
        try:
            connection = connect(self._path)
            try:
                names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                return {schema.feature: self._version(connection, version_table(schema.feature), names) for schema in schemas}
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise StoreProblem(f"the database {self._path} cannot be read: {error}") from error

    @staticmethod
    def _version(connection: sqlite3.Connection, table: str, names: set[str]) -> str | None:
        if table not in names:
            return None
        row = connection.execute(f'SELECT version_num FROM "{table}"').fetchone()  # noqa: S608 - a feature id
        return None if row is None else str(row[0])

    @contextmanager
    def alone(self) -> Iterator[None]:
        lock = FileLock(self._path)
        try:
            with lock.held():
                yield
        finally:
            lock.close()

    def engine(self) -> "Engine":
        from sqlalchemy import NullPool, create_engine, event

        engine = create_engine("sqlite://", creator=lambda: connect(self._path), poolclass=NullPool)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        return engine


def _check_known(schema: Schema, recorded: str | None) -> None:
    """Refuse a head that nobody wrote, and what a newer release wrote."""
    from greatseal.db.alembic import revisions

    known = revisions(schema)
    if schema.head not in known:
        raise StoreProblem(
            f"plugin {schema.feature!r}: its schema needs revision {schema.head}, which {schema.migrations} does not have; "
            "write it with python -m greatseal.db.revise"
        )
    if recorded is not None and recorded not in known:
        raise StoreProblem(
            f"the tables of {schema.feature} are at revision {recorded}, which this release does not know: "
            f"its newest is {schema.head}; run the newer release, or restore the backup made before it"
        )


def _upgrade(store: Store, schema: Schema, recorded: str | None, progress: Progress | None) -> str:
    from greatseal.db.alembic import upgrade

    line = f"{schema.feature}: {recorded or 'nothing'} -> {schema.head}"
    if progress is not None:
        progress(line)
    upgrade(store.engine(), schema)
    return line
