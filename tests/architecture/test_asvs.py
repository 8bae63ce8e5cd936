"""docs/guide/asvs.md tells the truth: every item that is said to be kept names tests that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/guide/asvs.md"


def test_every_item_names_tests_that_are_there():
    files = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("plugins/*/tests/**/test_*.py")]
    there = {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text())}
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| [")]

    assert len(rows) == 20
    for mark, item, _, _, shown in rows:
        names = re.findall(r"`(test_\w+)`", shown)
        assert mark in {"| [x]", "| [~]"}, item
        assert names, f"{item} names no test"
        assert not set(names) - there, f"{item}: {set(names) - there}"
