"""Which lines of docs/checklist.md do tests name? ``--write`` ticks them there, and unticks those that no test names any more."""

import ast
import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHECKLIST = ROOT / "docs/checklist.md"
TESTS = ("core/tests/**/*.py", "plugins/*/tests/**/*.py", "examples/*/tests/**/*.py", "tests/**/*.py")

ID = re.compile(r"(?<![a-z0-9])(idp|ca)_(\d{3})(?!\d)")
LINE = re.compile(r"^\| \[(?P<done>[ x])\] \| (?P<id>(?:IDP|CA)-\d{3}) \| (?P<cells>.*) \| (?P<tests>[^|]*)\|$")


def named() -> dict[str, list[str]]:
    """Id -> the tests that carry it in their names."""
    found: dict[str, set[str]] = {}
    for path in (path for pattern in TESTS for path in ROOT.glob(pattern)):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for service, number in ID.findall(node.name):
                    found.setdefault(f"{service.upper()}-{number}", set()).add(node.name)
    return {id: sorted(tests) for id, tests in found.items()}


def lines() -> dict[str, tuple[bool, list[str]]]:
    """Id -> whether the line is ticked, and the tests that it names."""
    matches = (LINE.match(line) for line in CHECKLIST.read_text().splitlines())
    return {match["id"]: (match["done"] == "x", re.findall(r"`(\w+)`", match["tests"])) for match in matches if match}


def tick(text: str, tests: Mapping[str, list[str]]) -> str:
    """The checklist with exactly those lines ticked that tests name."""

    def line(match: re.Match[str]) -> str:
        names = tests.get(match["id"], [])
        shown = f"{', '.join(f'`{name}`' for name in names)} " if names else ""
        return f"| [{'x' if names else ' '}] | {match['id']} | {match['cells']} | {shown}|"

    return "\n".join(LINE.sub(line, one) for one in text.splitlines()) + "\n"


def main(arguments: list[str]) -> None:
    """List the ids that tests name; with ``--write`` change the checklist."""
    tests = named()
    if "--write" in arguments:
        CHECKLIST.write_text(tick(CHECKLIST.read_text(), tests))
    for id, names in sorted(tests.items()):
        print(id, *names)
    print(f"{len(tests.keys() & lines().keys())} of {len(lines())} lines are named by tests")


if __name__ == "__main__":
    main(sys.argv[1:])
