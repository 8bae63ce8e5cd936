"""docs/checklist.md tells the truth: what is ticked is shown by a test."""

from pathlib import Path
from runpy import run_path

TICK = run_path(str(Path(__file__).parent / "tick.py"))


def test_every_line_has_an_id_of_its_own():
    text = TICK["CHECKLIST"].read_text()
    ids = [line.split(" | ")[1] for line in text.splitlines() if line.startswith("| [")]

    assert len(ids) == len(set(ids)) == len(TICK["lines"]())
    assert {f"IDP-{number:03}" for number in range(1, 368)} | {f"CA-{number:03}" for number in range(1, 275)} <= set(ids)


def test_a_ticked_line_is_named_by_a_test_and_names_tests_that_exist():
    tests = TICK["named"]()

    for id, (done, names) in TICK["lines"]().items():
        assert done == bool(names), f"{id}: a tick and its tests go together; run tests/architecture/tick.py --write"
        missing = set(names) - set(tests.get(id, []))
        assert not missing, f"{id} names {missing}, which no test file has; run tests/architecture/tick.py --write"


def test_a_test_names_lines_that_exist():
    unknown = TICK["named"]().keys() - TICK["lines"]().keys()

    assert not unknown, f"tests are named after lines that the checklist does not have: {sorted(unknown)}"


def test_ticking_again_changes_nothing():
    text = TICK["CHECKLIST"].read_text()
    shown = {id: names for id, (_, names) in TICK["lines"]().items() if names}

    assert TICK["tick"](text, shown) == text
