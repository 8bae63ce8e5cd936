"""Every line that decides has a test that fails without it, or a reason. ``make mutants`` tries them; here: the table is whole."""

from textwrap import dedent

from architecture.decisive import cut, decisive
from architecture.mutants import ROOT, entries, missing, stale

KIT = list(ROOT.glob("core/src/greatseal/testing/*.py"))


def test_every_deciding_line_has_an_entry():
    assert not missing(), "write down in mutants.toml which test fails without them"


def test_every_entry_has_its_line():
    assert not stale(), "the line changed: does its test still fail without it?"


def test_an_entry_has_tests_that_are_there_or_a_reason():
    for entry in entries():
        assert bool(entry.tests) != bool(entry.reason), entry
        for test in entry.tests:
            path, _, name = test.partition("::")
            *of, last = name.split("::")
            # A class may have it from a contract of the testing kit.
            places = [ROOT / path, *(KIT if of else ())]
            assert any(f"def {last.partition('[')[0]}(" in place.read_text() for place in places), test


SOURCE = dedent(
    """
    USE = update(t).where(t.c.id == param("id"), t.c.owner == param("owner"), t.c.used.is_(None)).values(used=1)

    class Door:
        def open(self, key) -> str | None:
            check_key(key)
            if key.old or key.foreign:
                raise Refuse(Locked("words"))
            return key.room if key.fits and key.new else None

        def is_open(self) -> bool:
            return self.since < now()
    """
)


def test_what_decides_is_found_by_its_syntax():
    assert list(decisive(SOURCE)) == [
        "USE: t.c.owner == param('owner')",
        "USE: t.c.used.is_(None)",
        "Door.open: check_key(key)",
        "Door.open: if key.old: raise Refuse(Locked)",
        "Door.open: if key.foreign: raise Refuse(Locked)",
        "Door.open: if not key.fits: return None",
        "Door.open: if not key.new: return None",
        "Door.is_open: return self.since < now()",
    ]


def test_a_mutant_lacks_one_line():
    def mutant(what):
        return decisive(SOURCE)[what].mutant()

    assert "if key.foreign:\n" in mutant("Door.open: if key.old: raise Refuse(Locked)")
    assert "return key.room if key.new else None" in mutant("Door.open: if not key.fits: return None")
    assert "return True" in mutant("Door.is_open: return self.since < now()")
    assert "check_key" not in mutant("Door.open: check_key(key)")
    assert cut(SOURCE, "Door.is_open: now()", "0").mutant() == mutant("Door.is_open: return self.since < now()").replace(
        "True", "self.since < 0"
    )
    assert cut(SOURCE, "Door.is_open: now() #2", "0") is None
