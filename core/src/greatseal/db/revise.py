"""Writes the next migration of a plugin: ``python -m greatseal.db.revise greatseal_acme.tables:SCHEMA 0002 "orders have a profile"``.

The plugin's migrations so far run on an empty SQLite file, the result is compared with the declared tables, and the difference becomes
``versions/r0002_orders_have_a_profile.py``. Read it, mend what a comparison cannot know (renames, data), set ``SCHEMA.head`` to it.
"""

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
    """Write the migration and return its path."""
    from greatseal.db.alembic import draft, newest
    from greatseal.db.migrate import open_store

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
    module = importlib.import_module(schema.migrations)
    slug = re.sub(r"[^a-z0-9]+", "_", message.lower()).strip("_")
    path = Path(str(module.__file__)).parent / "versions" / f"r{revision}_{slug}.py"
    path.write_text(text)
    return path


def main(arguments: list[str]) -> None:
    """The command line."""
    place, revision, message = arguments
    module, _, name = place.partition(":")
    sys.stdout.write(f"{revise(getattr(importlib.import_module(module), name), revision, message)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
