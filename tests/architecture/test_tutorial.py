"""The first plugin of the tutorial is the example, word for word."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/finger-01"
PAGE = (ROOT / "docs/tutorial/first-plugin.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_project_and_the_module_are_shown_whole():
    assert (EXAMPLE / "pyproject.toml").read_text() in blocks("toml")
    assert (EXAMPLE / "src/greatseal_finger_01/__init__.py").read_text() in blocks("python")


def test_every_line_of_the_test_is_shown():
    shown = {line for block in blocks("python") for line in block.splitlines()}

    assert set((EXAMPLE / "tests/test_finger_01.py").read_text().splitlines()) <= shown


def test_a_third_party_writes_less_than_forty_lines():
    assert len((EXAMPLE / "src/greatseal_finger_01/__init__.py").read_text().splitlines()) < 40
