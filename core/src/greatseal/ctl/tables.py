"""What the admin API answers, for the eyes of a person."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

MOMENTS = frozenset({"last_seen", "auth_time"})
"""Members that are Unix timestamps, besides those whose name ends in ``_at``."""


def as_json(value: object) -> str:
    """For programs: pure ASCII."""
    return json.dumps(value, indent=2)


def as_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """A table with a head; the last column is not padded."""
    head = [column.replace("_", " ").upper() for column in columns]
    lines = [head, *([cell(column, row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(columns))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def as_record(record: Mapping[str, Any]) -> str:
    """One member on a line; what is unset is left out."""
    shown = {name: cell(name, value) for name, value in record.items() if value not in (None, [], "")}
    width = max(map(len, shown), default=0)
    return "\n".join(f"{name.ljust(width)}  {text}" for name, text in shown.items())


def cell(name: str, value: Any) -> str:
    """A value in words; what could move the cursor or forge a line is escaped."""
    match value:
        case None | "" | []:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int() if name.endswith("_at") or name in MOMENTS:
            return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        case list() if all(isinstance(one, str) for one in value):
            return printable(", ".join(value))
        case str():
            return printable(value)
        case _:
            return printable(json.dumps(value))


def printable(text: str) -> str:
    """Without control characters and marks of direction."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


class Output:
    """How a command shows what it got. ``json`` comes from --json, before or after the command."""

    def __init__(self) -> None:
        self.json = False

    def rows(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str], none: str) -> None:
        """A list; ``none`` is said on stderr when it is empty."""
        if self.json:
            click.echo(as_json(rows))
        elif rows:
            click.echo(as_table(rows, columns))
        else:
            click.echo(none, err=True)

    def record(self, record: Mapping[str, Any]) -> None:
        """One thing."""
        click.echo(as_json(record) if self.json else as_record(record))

    def done(self, message: str, record: Mapping[str, Any] | None = None) -> None:
        """A change: a sentence for people, the changed thing for programs."""
        if self.json:
            click.echo(as_json(record or {}))
        else:
            click.echo(message)
