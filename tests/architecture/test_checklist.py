"""docs/checklist.md tells the truth: what is ticked is shown by a test, what is half built says what is missing."""

from pathlib import Path
from runpy import run_path

TICK = run_path(str(Path(__file__).parent / "tick.py"))


def test_every_line_has_an_id_of_its_own():
    text = TICK["CHECKLIST"].read_text()
    ids = [line.split(" | ")[1] for line in text.splitlines() if line.startswith("| [")]

    assert len(ids) == len(set(ids)) == len(TICK["lines"]())
    assert {f"IDP-{number:03}" for number in range(1, 368)} | {f"CA-{number:03}" for number in range(1, 275)} <= set(ids)


def test_a_mark_says_what_shows_it():
    tests = TICK["named"]()

    for id, (done, names, missing) in TICK["lines"]().items():
        assert done != "x" or names, f"{id}: a ticked line names the tests that show it"
        assert bool(missing) == (done == "~"), f"{id}: [~], and only that, says what is missing"
        assert done != " " or not names, f"{id}: an open line names no tests"
        gone = set(names) - set(tests.get(id, []))
        assert not gone, f"{id} names {gone}, which no test file has; run tests/architecture/tick.py --write"


def test_a_test_names_lines_that_exist():
    unknown = TICK["named"]().keys() - TICK["lines"]().keys()

    assert not unknown, f"tests are named after lines that the checklist does not have: {sorted(unknown)}"


def test_the_program_takes_ticks_away_and_never_adds_one():
    row = "| [{}] | IDP-001 | Conventions | config | - | what | {}|\n"
    still = {"IDP-001": ["test_idp_001_a", "test_idp_001_new"]}

    assert TICK["untick"](row.format("x", "`test_idp_001_a`, `test_idp_001_b` "), still) == row.format("x", "`test_idp_001_a` ")
    assert TICK["untick"](row.format("x", "`test_idp_001_b` "), still) == row.format(" ", "")
    assert TICK["untick"](row.format(" ", ""), still) == row.format(" ", "")
    half = row.format("~", "`test_idp_001_a`; missing: the rest ")
    assert TICK["untick"](half, still) == half
    assert TICK["untick"](TICK["CHECKLIST"].read_text(), TICK["named"]()) == TICK["CHECKLIST"].read_text()
