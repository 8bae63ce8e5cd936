"""Writes the next migration of a plugin: ``python -m greatseal.db.revise greatseal_acme.tables:SCHEMA 0002 "orders have a profile"``.

The first argument is where the :class:`~greatseal.api.declarations.Schema` is: the import path of its module, a colon, its name. The second
is the new revision, the third says what changes.

The plugin's migrations so far run on an empty SQLite file, the result is compared with the declared tables, and the difference becomes
``versions/r0002_orders_have_a_profile.py``. Read it, mend what a comparison cannot know (renames, data), set ``SCHEMA.head`` to it.
"""

import argparse
import importlib
import re
import sys
import tempfile
from pathlib import Path

import msgspec

from greatseal.api.declarations import Schema
from greatseal.db.migrate import ensure

TEMPLATE = '''"""{message}"""

import sqlalchemy as sa
from alembic import op
{types}
revision = "{revision}"
down_revision = {before}


def upgrade() -> None:
    {up}
'''


def revise(schema: Schema, revision: str, message: str) -> Path:
    """Write the migration and return its path. Folders that are missing are made, beside the package that ``Schema.migrations`` is in.

    Raises ValueError for a revision that is there already, ModuleNotFoundError when that package is not there.
    """
    from greatseal.db.alembic import draft, newest, revisions
    from greatseal.db.migrate import open_store

    if revision in revisions(schema):
        raise ValueError(f"{schema.migrations} has revision {revision} already")
    versions = _versions(schema)
    before = newest(schema)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/draft.db"
        if before is not None:
            ensure(url, [msgspec.structs.replace(schema, head=before)], "auto")
        engine = open_store(url).engine()
        up = draft(engine, schema)
        engine.dispose()
    names = sorted(set(re.findall(r"\b(Id|Text|Document|Blob|Sealed|Moment|Flag|Serial)\b", up)))
    types = f"\nfrom greatseal.db.tables import {', '.join(names)}\n" if names else ""
    text = TEMPLATE.format(message=message, types=types, revision=revision, before=f'"{before}"' if before else None, up=up)
    slug = re.sub(r"[^a-z0-9]+", "_", message.lower()).strip("_")
    path = versions / f"r{revision}_{slug}.py"
    path.write_text(text)
    return path


def _versions(schema: Schema) -> Path:
    """The folder of the migrations, made when it is not there."""
    from greatseal.db.alembic import folder_of

    folder = folder_of(schema)
    if folder is None:
        around, _, name = schema.migrations.rpartition(".")
        folder = Path(next(iter(importlib.import_module(around).__path__))) / name
    for one in (folder, folder / "versions"):
        one.mkdir(exist_ok=True)
        (one / "__init__.py").touch()
    importlib.invalidate_caches()
    return folder / "versions"


def main(arguments: list[str]) -> None:
    """The command line. Prints the path that was written; exit code 2 for what cannot be."""
    parser = argparse.ArgumentParser(prog="python -m greatseal.db.revise", description="Write the next migration of a plugin.")
    parser.add_argument("schema", help="where the Schema is: greatseal_notes.tables:SCHEMA")
    parser.add_argument("revision", help="the new revision, which Schema.head will name: 0001, 0002, ...")
    parser.add_argument("message", help="what it changes, in a few words")
    given = parser.parse_args(arguments)
    module, _, name = given.schema.partition(":")
    try:
        schema = getattr(importlib.import_module(module), name, None)
        if not isinstance(schema, Schema):
            parser.error(f"{given.schema}: is no greatseal.api.declarations.Schema")
        path = revise(schema, given.revision, given.message)
    except (ModuleNotFoundError, ValueError) as error:
        parser.error(f"{given.schema}: {error}")
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
