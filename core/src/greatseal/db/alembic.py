"""Alembic without its files: no alembic.ini, no env.py, a package with ``versions`` is enough. Imported only when a schema is behind."""

import importlib
import sys
from pathlib import Path
from textwrap import dedent, indent
from typing import TYPE_CHECKING, Any, Literal

from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from greatseal.api.declarations import Schema
from greatseal.db.migrate import version_table

if TYPE_CHECKING:
    from alembic.autogenerate.api import AutogenContext


def folder_of(schema: Schema) -> Path | None:
    """The folder of the migrations package, None when there is no such package."""
    try:
        module = importlib.import_module(schema.migrations)
    except ModuleNotFoundError as error:
        if error.name and f"{schema.migrations}.".startswith(f"{error.name}."):
            return None
        raise
    return Path(next(iter(module.__path__)))


def revisions(schema: Schema) -> set[str]:
    """Every revision that the schema's migrations know."""
    folder = folder_of(schema)
    if folder is None or not (folder / "versions").is_dir():
        return set()
    return {script.revision for script in ScriptDirectory(str(folder)).walk_revisions()}


def newest(schema: Schema) -> str | None:
    """The newest revision that is written down, None without any."""
    return _scripts(schema).get_current_head() if revisions(schema) else None


def upgrade(engine: Engine, schema: Schema) -> None:
    """From the recorded revision to ``schema.head``, in one transaction."""
    scripts = _scripts(schema)

    def steps(revision: Any, _context: Any) -> Any:
        return scripts._upgrade_revs(schema.head, revision)  # noqa: SLF001 - alembic's own commands pass it like this

    with engine.connect() as connection, EnvironmentContext(Config(), scripts, fn=steps, destination_rev=schema.head) as environment:
        environment.configure(connection=connection, transactional_ddl=True, transaction_per_migration=False, **_options(schema))
        with environment.begin_transaction():
            environment.run_migrations()
    engine.dispose()


def differences(engine: Engine, schema: Schema) -> list[Any]:
    """How the database differs from the declared tables, in alembic's terms."""
    with engine.connect() as connection:
        return list(compare_metadata(_context(connection, schema), schema.metadata))


def draft(engine: Engine, schema: Schema) -> str:
    """The body of ``upgrade`` from the database as it is to the declared tables."""
    with engine.connect() as connection:
        script = produce_migrations(_context(connection, schema), schema.metadata)
    assert script.upgrade_ops is not None
    code = render_python_code(script.upgrade_ops, sqlalchemy_module_prefix="sa.", render_item=_render, render_as_batch=True)
    # A table's State stands in its info, which is no part of the database.
    lines = [line for line in code.splitlines() if not line.lstrip().startswith(("#", "info="))]
    return indent(dedent("\n".join(lines)), "    ").strip()


def _context(connection: Connection, schema: Schema) -> MigrationContext:
    return MigrationContext.configure(connection, opts={"target_metadata": schema.metadata, **_options(schema)})


def _options(schema: Schema) -> dict[str, Any]:
    def ours(thing: Any, name: str | None, kind: str, _reflected: bool, _other: Any) -> bool:
        return (name if kind == "table" else thing.table.name) in schema.metadata.tables

    return {"version_table": version_table(schema.feature), "include_object": ours, "compare_type": True}


def _scripts(schema: Schema) -> ScriptDirectory:
    return ScriptDirectory(str(folder_of(schema)))


def _render(kind: str, thing: Any, context: "AutogenContext") -> str | Literal[False]:
    """Column types by the names of :mod:`greatseal.db.tables`."""
    if kind != "type":
        return False
    tables = sys.modules["greatseal.db.tables"]
    if thing is tables.Serial or (not type(thing).__module__.startswith("greatseal.") and thing.__visit_name__ == "big_integer"):
        name = "Serial"
    elif type(thing).__module__ == tables.__name__:
        name = type(thing).__name__
    else:
        return False
    context.imports.add(f"from greatseal.db.tables import {name}")
    return name if name == "Serial" else f"{name}()"
