"""What the admin API answers, for the eyes of a person."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from textwrap import indent
from typing import Any

import click

TOGETHER = 1000
"""Lines whose columns are aligned before they are shown."""
MOMENTS = frozenset({"last_seen", "auth_time", "not_before", "not_after", "created", "expires"})
"""Members that are Unix timestamps, besides those whose name ends in ``_at`` or ``_until``."""


def as_json(value: object) -> str:
    """For programs: pure ASCII."""
    return json.dumps(value, indent=2)


def as_json_array(things: Iterable[object]) -> Iterator[str]:
    """The lines of an array, written while the things come."""
    before = "["
    for one in things:
        yield f"{before}\n{indent(as_json(one), '  ')}"
        before = ","
    yield "[]" if before == "[" else "\n]"


def as_table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[str]:
    """A table with a head, by the thousand lines: a column is as wide as its widest cell so far. The last one is not padded."""
    lines = chain(
        [[column.replace("_", " ").upper() for column in columns]], ([cell(one, row.get(one)) for one in columns] for row in rows)
    )
    widths = [0] * len(columns)
    while some := list(islice(lines, TOGETHER)):
        widths = [max(width, *(len(line[number]) for line in some)) for number, width in enumerate(widths)]
        for line in some:
            yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()


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
        case int() if name.endswith(("_at", "_until")) or name in MOMENTS:
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

    def rows(self, rows: Iterator[Mapping[str, Any]], columns: Sequence[str], none: str) -> None:
        """A list, shown while it is read; ``none`` is said on stderr when it is empty."""
        if self.json:
            for part in as_json_array(rows):
                click.echo(part, nl=False)
            click.echo()
        elif (first := next(rows, None)) is not None:
            for line in as_table(chain([first], rows), columns):
                click.echo(line)
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
