"""Every comparison of moments was judged: the wall clock may be set ahead or back between the two.

``moments.toml`` holds each comparison of the sources whose names speak of time, under the rule that it keeps (see ``greatseal.clock``). A
new one fails here until somebody has read the rules and put it under one of them.
"""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
OF_TIME = re.compile(
    r"(^|_)(after|age|ago|ahead|at|before|began|begin|begun|due|earliest|end|ended|exp|expires|iat|latest|lease|moment|monotonic|nbf|now"
    r"|passed|since|time|until|when)$|^(due|expires|idle|lease|not|retire)_"
)
"""What something is called that holds a moment."""
NOT_OF_TIME = frozenset({"not_"})

Found = dict[str, dict[str, ast.Compare]]
"""Place, tree as text (the spelling may differ between versions of Python), comparison."""


@cache
def sources() -> dict[str, ast.Module]:
    """What is installed, by its place; migrations and the kit for tests aside."""
    paths = sorted([*ROOT.glob("core/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")])
    chosen = (path for path in paths if not {"migrations", "testing"}.intersection(path.parts))
    return {path.as_posix().partition("/src/")[2]: ast.parse(path.read_text()) for path in chosen}


def names(node: ast.AST) -> set[str]:
    """What is spoken of: variables, members, and parameters of statements."""
    found = set()
    for one in ast.walk(node):
        match one:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)):
                found.add(name)
    return found - NOT_OF_TIME


def comparisons() -> Found:
    found: Found = {}
    for place, tree in sources().items():
        for node in ast.walk(tree):
            ordered = isinstance(node, ast.Compare) and any(isinstance(one, ORDER) for one in node.ops)
            if ordered and any(map(OF_TIME.search, names(node))):
                found.setdefault(place, {})[ast.dump(node)] = node
    return found


def judged() -> dict[str, Found]:
    """The table, by rule."""
    table = tomllib.loads(Path(__file__).with_name("moments.toml").read_text())
    return {rule: {place: dict(map(parsed, listed)) for place, listed in places.items()} for rule, places in table.items()}


def parsed(comparison: str) -> tuple[str, ast.Compare]:
    node = ast.parse(comparison, mode="eval").body
    assert isinstance(node, ast.Compare), comparison
    return ast.dump(node), node


def missing(some: Found, others: Found) -> dict[str, list[str]]:
    """What is in ``some`` alone, to be read."""
    return {
        place: [ast.unparse(node) for key, node in listed.items() if key not in others.get(place, {})]
        for place, listed in some.items()
        if not listed.keys() <= others.get(place, {}).keys()
    }


def test_every_comparison_of_moments_was_judged_by_a_rule():
    known: Found = {}
    for places in judged().values():
        for place, listed in places.items():
            before = known.setdefault(place, {})
            assert before.keys().isdisjoint(listed), f"{place}: under two rules"
            before.update(listed)

    new, gone = missing(comparisons(), known), missing(known, comparisons())
    assert not new, f"read the rules of greatseal.clock, and put these under one of them in moments.toml: {new}"
    assert not gone, f"not in the sources any more: {gone}"


def test_what_is_allowed_for_being_recent_is_bounded_on_both_sides():
    one_sided = [ast.unparse(node) for listed in judged()["recent"].values() for node in listed.values() if len(node.ops) != 2]
    assert not one_sided


def test_a_lease_that_lies_too_far_ahead_is_nobodys():
    """In SQL a comparison has one side: each column has both."""
    for place, listed in judged()["lease"].items():
        columns: dict[str, set[type[ast.cmpop]]] = {}
        for node in listed.values():
            columns.setdefault(ast.unparse(node.left), set()).add(type(node.ops[0]))
        assert all(len(sides) == 2 for sides in columns.values()), f"{place}: {columns}"


def test_what_is_forgotten_is_measured_with_what_has_passed():
    assert not [place for place in judged()["forgotten"] if "passed" not in names(sources()[place])]


def calls_of_now(node: ast.AST) -> list[ast.Call]:
    """Looks at the wall clock."""
    return [
        one
        for one in ast.walk(node)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "now" and not one.args
    ]


@pytest.mark.parametrize("way", ["in a transaction", "for a transaction"])
def test_the_only_now_of_a_transaction_is_its_own(way: str):
    """``tx.now`` is read when what the transaction sees is fixed; any other moment is older than rows that it may find."""
    wrong = []
    for place, tree in sources().items():
        for node in ast.walk(tree):
            if way == "in a transaction" and isinstance(node, ast.FunctionDef):
                looks = calls_of_now(node) if any(one.arg == "tx" for one in node.args.args) else []
            elif way == "for a transaction" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                given = [*node.args, *(one.value for one in node.keywords)] if node.func.attr in {"read", "write"} else []
                looks = [look for one in given for look in calls_of_now(one)]
            else:
                continue
            wrong += [f"{place}:{look.lineno}" for look in looks]
    assert not wrong
