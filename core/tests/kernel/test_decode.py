"""A table with several mistakes: each is told, by its key, once, and nothing is told that is not so."""

import os
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
import pytest

from greatseal.api.declarations import Owns, Reads, Secret
from greatseal.kernel.config import Binder

Days = Annotated[int, msgspec.Meta(ge=1)]
KINDS = ("ec", "rsa")


class Role(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a role needs a name")


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that are told together."""

    key_type: str = "ec"
    eku: tuple[str, ...] = ()
    days: Days = 90
    key_file: str | None = None
    cert_file: str | None = None

    def __post_init__(self) -> None:
        problems = [] if self.key_type in KINDS else [f"key_type: {self.key_type!r} is unknown; expected one of {', '.join(KINDS)}"]
        problems += [f"eku: {name!r} is unknown; did you mean 'serverAuth'?" for name in self.eku if name != "serverAuth"]
        if (self.key_file is None) != (self.cert_file is None):
            given, absent = ("key_file", "cert_file") if self.key_file else ("cert_file", "key_file")
            problems.append(f"{given} is given without {absent}; give both, or neither")
        if problems:
            raise ValueError("; ".join(problems))


class Lives(msgspec.Struct, frozen=True, kw_only=True):
    """Rules of which the first that is broken is told."""

    order: int = 60
    authz: int = 60
    url: str | None = None

    def __post_init__(self) -> None:
        for key in ("order", "authz"):
            if getattr(self, key) < 60:
                raise ValueError(f"{key}: at least 60 seconds")
        if self.url is not None and not self.url.startswith("http"):
            raise ValueError(f"url: {self.url!r} is not a URL")


class Lists(msgspec.Struct, frozen=True, kw_only=True):
    hosts: dict[str, tuple[str, ...]] = {}
    table: Mapping[str, Role] | None = None
    role: tuple[Role, ...] = ()
    days: Annotated[list[Days], msgspec.Meta(max_length=3)] = []


def problems(document, *declarations):
    binder = Binder()
    binder.declare("p", declarations)
    binder.bind(document)
    return binder.problems


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (
            {"days": 0, "eku": ["serverauth"]},
            ["days: expected an integer >= 1, found 0", "eku: 'serverauth' is unknown; did you mean 'serverAuth'?"],
        ),
        (
            {"key_type": "dsa", "days": "90"},
            ["days: expected an integer, got a string", "key_type: 'dsa' is unknown; expected one of ec, rsa"],
        ),
        (
            {"key_type": "dsa", "eku": ["a", "b"]},
            [
                "key_type: 'dsa' is unknown; expected one of ec, rsa",
                "eku: 'a' is unknown; did you mean 'serverAuth'?",
                "eku: 'b' is unknown; did you mean 'serverAuth'?",
            ],
        ),
        ({"cert_file": "x"}, ["cert_file is given without key_file; give both, or neither"]),
        ({"cert_file": "x", "key_file": 3}, ["key_file: expected a string, got an integer"]),  # it is given
    ],
)
def test_values_and_the_rules_between_them_are_told_in_one_report(table, found):
    assert problems({"ca": table}, Owns("ca", Authority), Reads("ca", Authority)) == [f"[ca] {one}" for one in found]


def test_rules_that_stop_at_the_first_mistake_are_told_all():
    found = problems({"acme": {"order": 1, "authz": 2, "url": "ftp"}}, Owns("acme", Lives))

    assert found == ["[acme] order: at least 60 seconds", "[acme] authz: at least 60 seconds", "[acme] url: 'ftp' is not a URL"]


def test_a_mistake_inside_of_a_value_is_told_with_its_place():
    table = {
        "hosts": {"a": "10.0.0.7", "b.example": ["10.0.0.7", 3], "c": ["10.0.0.8"]},
        "table": {"x": {"name": 1}},
        "role": [{"name": "good"}, {"groups": [True]}, {"name": ""}],
        "days": [1, 0],
    }

    assert problems({"lists": table}, Owns("lists", Lists)) == [
        "[lists] hosts.a: expected a list, got a string",
        '[lists] hosts."b.example"[1]: expected a string, got an integer',
        "[lists] table.x.name: expected a string, got an integer",
        "[[lists.role]] #2 groups[0]: expected a string, got true or false",
        "[[lists.role]] #2 name: must be given",
        "[[lists.role]] #3: a role needs a name",
        "[lists] days[1]: expected an integer >= 1, found 0",
    ]


class Circle(msgspec.Struct, frozen=True, kw_only=True, tag_field="shape"):
    radius: int = 1


class Square(msgspec.Struct, frozen=True, kw_only=True, tag_field="shape"):
    side: int = 1
    corner: Role | None = None


class Deep(msgspec.Struct, frozen=True, kw_only=True):
    one: Role | None = None
    role: tuple[Role, ...] = ()
    pair: tuple[Role, int] | None = None
    keyed: Mapping[str, Role] = {}
    grouped: dict[str, list[Role]] = {}
    drawn: Circle | Square | None = None


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ({"one": {"name": "a", "group": []}}, "[deep] one.group: unknown key; did you mean 'groups'?"),
        ({"role": [{"name": "a"}, {"name": "b", "nmae": "c"}]}, "[[deep.role]] #2 nmae: unknown key; did you mean 'name'?"),
        ({"role": [{"name": "a", "xyz": 1}]}, "[[deep.role]] #1 xyz: unknown key; expected name, groups"),
        ({"pair": [{"name": "a", "group": []}, 1]}, "[[deep.pair]] #1 group: unknown key; did you mean 'groups'?"),
        ({"keyed": {"x y": {"name": "a", "group": []}}}, "[deep] keyed.\"x y\".group: unknown key; did you mean 'groups'?"),
        ({"grouped": {"x": [{"name": "a", "group": []}]}}, "[[deep.grouped.x]] #1 group: unknown key; did you mean 'groups'?"),
        ({"drawn": {"shape": "Square", "sides": 3}}, "[deep] drawn.sides: unknown key; did you mean 'side'?"),
        ({"drawn": {"shape": "Circle", "side": 3}}, "[deep] drawn.side: unknown key; expected radius"),
        ({"drawn": {"shape": "Square", "corner": {"name": "a", "x": 1}}}, "[deep] drawn.corner.x: unknown key; expected name, groups"),
    ],
)
def test_a_key_that_a_nested_table_does_not_have_is_refused(table, found):
    assert problems({"deep": table}, Owns("deep", Deep), Reads("deep", Deep)) == [found]


def test_an_unknown_key_does_not_hide_a_wrong_value():
    assert problems({"deep": {"role": [{"name": 3, "group": []}]}}, Owns("deep", Deep)) == [
        "[[deep.role]] #1 group: unknown key; did you mean 'groups'?",
        "[[deep.role]] #1 name: expected a string, got an integer",
    ]


def test_each_of_several_tables_is_counted():
    assert problems({"ca": [{}, {"dyas": 1}, {"days": 0}, 3]}, Owns("ca[]", Authority)) == [
        "[[ca]] #2 dyas: unknown key; did you mean 'days'?",
        "[[ca]] #3 days: expected an integer >= 1, found 0",
        "[[ca]] #4: expected a table, found an integer",
    ]


def test_a_name_that_is_none_of_a_few_is_told_with_them():
    class Choice(msgspec.Struct, frozen=True, kw_only=True):
        provider: Literal["builtin", "other"] | None = None

    assert problems({"profiles": {"provider": "dogtag"}}, Owns("profiles", Choice)) == [
        "[profiles] provider: invalid enum value 'dogtag'; expected 'builtin' or 'other'"
    ]


def test_what_is_wrong_with_a_value_as_a_whole_is_told_of_its_key():
    assert problems({"lists": {"days": [1, 2, 3, 4]}}, Owns("lists", Lists)) == ["[lists] days: expected a list of length <= 3"]
    assert problems({"lists": {"hosts": 3, "table": 3}}, Owns("lists", Lists)) == [
        "[lists] hosts: expected a table, got an integer",
        "[lists] table: expected a table, got an integer",
    ]


def test_each_table_of_a_section_is_called_by_its_name():
    document = {"profiles": {"web": {"dyas": 3}, "mail.one": {"dyas": 3, "days": 0}, "days": 3}}

    assert problems(document, Owns("profiles.*", Authority)) == [
        "[profiles] days: unknown key; there is [profiles.*] days",
        "[profiles.web] dyas: unknown key; did you mean 'days'?",
        "[profiles.\"mail.one\"] dyas: unknown key; did you mean 'days'?",
        '[profiles."mail.one"] days: expected an integer >= 1, found 0',
    ]


def test_a_secret_can_be_read_once_from_a_pipe():
    class Keyed(msgspec.Struct, frozen=True, kw_only=True):
        key: Secret

    reading, writing = os.pipe()
    os.write(writing, b"hush")
    os.close(writing)
    binder = Binder()
    binder.declare("p", [Owns("paint", Keyed)])

    bound = binder.bind({"paint": {"key": {"file": f"/dev/fd/{reading}"}}})

    os.close(reading)
    assert binder.problems == []
    assert bound.tables[Keyed].key.value == "hush"
