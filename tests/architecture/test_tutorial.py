"""The first plugin of the tutorial is the example, word for word; the migration of the second is what the program writes."""

import re
import subprocess
import sys
from pathlib import Path

from greatseal.audit import SCHEMA

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/finger-01"
PAGE = (ROOT / "docs/tutorial/first-plugin.md").read_text()
KEYS = (ROOT / "docs/tutorial/keys-and-extensions.md").read_text()
TABLES = (ROOT / "docs/tutorial/plugin-with-tables.md").read_text()


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def test_the_project_and_the_module_are_shown_whole():
    assert (EXAMPLE / "pyproject.toml").read_text() in blocks("toml")
    assert (EXAMPLE / "src/greatseal_finger_01/__init__.py").read_text() in blocks("python")


def test_every_line_of_the_test_is_shown():
    shown = {line for block in blocks("python") for line in block.splitlines()}

    assert set((EXAMPLE / "tests/test_finger_01.py").read_text().splitlines()) <= shown


def test_a_third_party_writes_forty_lines_at_most():
    assert len((EXAMPLE / "src/greatseal_finger_01/__init__.py").read_text().splitlines()) <= 40


def test_what_the_programs_say_of_a_configuration_is_shown(tmp_path):
    file = tmp_path / "greatseal.toml"
    (wrong,) = (block for block in blocks("toml") if "[finger-01]" in block)
    said = []
    for text in (wrong, wrong.replace("prot", "port")):
        file.write_text(text)
        command = [sys.executable, "-m", "greatseal", "check-config", "-c", file.name]
        done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60)
        said.append(done.stderr + done.stdout)

    assert all(re.sub(r"\d+ routes", "", line) in re.sub(r"\d+ routes", "", PAGE) for line in said), said
    assert f"\ncore: nothing -> {SCHEMA.head}\n" in TABLES


def test_the_components_that_are_shown_keep_their_contracts(tmp_path):
    (tmp_path / "test_shown.py").write_text("\n".join(blocks("python", KEYS)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), str(tmp_path)]

    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_the_migration_that_is_shown_is_what_the_program_writes(tmp_path):
    tables, plugin, migration, test, _ = blocks("python", TABLES)
    for block in (plugin, test):
        compile(block, "plugin-with-tables.md", "exec")
    package = tmp_path / "greatseal_notes"
    package.mkdir()
    (package / "__init__.py").write_text(plugin)
    (package / "tables.py").write_text(tables)
    (command,) = (line for line in TABLES.splitlines() if "greatseal.db.revise" in line and '"notes"' in line)

    done = subprocess.run(
        [sys.executable, *command.partition("bin/python ")[2].replace('"', "").split()],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert Path(done.stdout.strip()).read_text() == migration
