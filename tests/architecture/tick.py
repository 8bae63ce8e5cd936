"""Which lines of docs/checklist.md do tests name? ``--write`` takes away what no test shows any more.

It never ticks: a tick is the word of a person who read the line and its tests.
"""

import ast
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
CHECKLIST = ROOT / "docs/checklist.md"
TESTS = ("core/tests/**/*.py", "plugins/*/tests/**/*.py", "examples/*/tests/**/*.py", "tests/**/*.py")

ID = re.compile(r"(?<![a-z0-9])(idp|ca)_(\d{3})(?!\d)")
LINE = re.compile(r"^\| \[(?P<done>[ x~])\] \| (?P<id>(?:IDP|CA)-\d{3}) \| (?P<cells>.*) \| (?P<shown>[^|]*)\|$")
MISSING = re.compile(r"missing: (?P<what>[^|]*\S)")


class Line(NamedTuple):
    """A line: ``done`` is its mark, ``tests`` those that it names, ``missing`` what a half-built one lacks."""

    done: str
    tests: list[str]
    missing: str


def named() -> dict[str, list[str]]:
    """Id -> the tests that carry it in their names."""
    found: dict[str, set[str]] = {}
    for path in (path for pattern in TESTS for path in ROOT.glob(pattern)):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for service, number in ID.findall(node.name):
                    found.setdefault(f"{service.upper()}-{number}", set()).add(node.name)
    return {id: sorted(tests) for id, tests in found.items()}


def lines(text: str | None = None) -> dict[str, Line]:
    """Id -> the line."""
    matches = (LINE.match(line) for line in (CHECKLIST.read_text() if text is None else text).splitlines())
    return {match["id"]: _line(match) for match in matches if match}


def untick(text: str, tests: Mapping[str, list[str]]) -> str:
    """The checklist without the names of tests that are gone, and without the ticks that no test is left of. Nothing is added."""

    def line(match: re.Match[str]) -> str:
        done, names, missing = _line(match)
        left = [name for name in names if name in tests.get(match["id"], [])]
        mark = " " if done == "x" and not left else done
        told = [", ".join(f"`{name}`" for name in left), f"missing: {missing}" if missing else ""]
        return f"| [{mark}] | {match['id']} | {match['cells']} | {'; '.join(filter(None, told))}".rstrip() + " |"

    return "\n".join(LINE.sub(line, one) for one in text.splitlines()) + "\n"


def _line(match: re.Match[str]) -> Line:
    missing = MISSING.search(match["shown"])
    return Line(match["done"], re.findall(r"`(test_\w+)`", match["shown"]), missing["what"] if missing else "")


def main(arguments: list[str]) -> None:
    """List the ids that tests name and the checklist does not show; with ``--write`` take away what is not true any more."""
    tests, known = named(), lines()
    if "--write" in arguments:
        CHECKLIST.write_text(untick(CHECKLIST.read_text(), tests))
    for id, names in sorted(tests.items()):
        if id in known and (new := sorted(set(names) - set(known[id].tests))):
            print(f"{id} [{known[id].done}]", *new)
    marks = [line.done for line in lines().values()]
    print(f"{marks.count('x')} of {len(marks)} lines are built, {marks.count('~')} are half built")


if __name__ == "__main__":
    main(sys.argv[1:])
