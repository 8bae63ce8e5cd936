"""Whatever people read is in a catalogue, and German and French are complete. `make messages` writes the catalogues."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Message
from jinja2 import Environment
from rig import messages

ROOT = Path(__file__).parents[2]
COMPLETE = {"de", "fr"}
PACKAGES = {package.name: package for package in messages.packages()}
TEMPLATES = [path for package in PACKAGES.values() for path in sorted(package.glob("templates/*.html"))]
CATALOGUES = [path for package in PACKAGES.values() for path in sorted(package.glob("locale/*.po"))]

_SPOKEN = re.compile(r'\b(?:alt|aria-label|placeholder|title)="([^"]*)"')
_TAG = re.compile(r"<[^<>]*>")
_WORD = re.compile(r"(?!XXXX\b)\b[^\W\d_]{2,}")


@pytest.mark.parametrize("name", PACKAGES)
def test_the_catalogues_are_those_of_the_source(name: str) -> None:
    """Else run `make messages`."""
    package = PACKAGES[name]
    there = {path: path.read_bytes() for path in package.glob("locale/*")}

    assert there == messages.of_package(package, messages.tags())


def test_german_and_french_are_there() -> None:
    assert messages.tags() >= COMPLETE


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_translations_are_whole(path: Path) -> None:
    """Each is there, with the places and tags of the English text: a page is put together of them."""
    missing = [str(one.id) for one in _said(path) if not messages.complete(one)]
    wrong = [str(one.id) for one in _said(path) if messages.complete(one) and not _fits(one)]

    assert (missing if path.stem in COMPLETE else [], wrong) == ([], [])


@pytest.mark.parametrize("path", [path for path in CATALOGUES if path.stem == "fr"], ids=lambda path: path.parts[-3])
def test_no_line_of_french_begins_with_a_mark(path: Path) -> None:
    """The space before it does not break."""
    breaks = re.compile(r" (?=[:;?!»])|« ")

    assert [str(one.string) for one in _said(path) if breaks.search(str(one.string))] == []


def test_one_message_has_one_translation() -> None:
    """All catalogues of a language are one."""
    found: dict[tuple[str, str], set[str]] = {}
    for path in CATALOGUES:
        for one in _said(path):
            found.setdefault((path.stem, str(one.id)), set()).add(str(one.string))

    assert {key: said for key, said in found.items() if len(said) > 1} == {}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_a_template_has_no_words_outside_of_trans(path: Path) -> None:
    assert list(_words(path.read_text())) == []


def test_words_outside_of_trans_are_found() -> None:
    template = '<p>Hello</p>{% trans %}Fine{% endtrans %}<a title="Too" href="/no">{{ fine }} {{ "One" if x else \'fine\' }}</a>'

    assert sorted(_words(template)) == ["Hello", "One", "Too"]


def test_the_service_runs_without_babel() -> None:
    imported = re.compile(r"^\s*(?:from|import) babel\b", re.MULTILINE)

    assert [str(path) for package in PACKAGES.values() for path in package.rglob("*.py") if imported.search(path.read_text())] == []


def test_a_message_is_a_literal() -> None:
    """Of what is put together, no catalogue has the whole."""
    put_together: list[str] = []
    for package in PACKAGES.values():
        for path in package.rglob("*.py"):
            text = path.read_text()
            if "Message(" in text or "plural(" in text or "marked(" in text:
                put_together += [f"{path.relative_to(ROOT)}:{line}" for line in _not_literal(ast.parse(text))]

    assert put_together == []


def _not_literal(tree: ast.AST) -> Iterator[int]:
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in {"Message", "plural", "marked"}:
            texts = call.args[:2] if call.func.id == "plural" else call.args[:1]
            literal = all(isinstance(text, ast.Constant) or _is_field(text) for text in texts)
            if not literal:
                yield call.lineno


def _is_field(text: ast.expr) -> bool:
    """What :func:`greatseal.api.messages.plural` passes on."""
    return isinstance(text, ast.Name) and text.id == "one"


def _said(path: Path) -> list[Message]:
    return [one for one in messages.translation_of(path) if one.id]


def _fits(one: Message) -> bool:
    """A form of a plural may say its number in a word."""
    ids = one.id if isinstance(one.id, tuple | list) else (one.id,)
    strings = one.string if isinstance(one.string, tuple | list) else (one.string,)
    allowed = [_shape(text) for text in ids]
    return all(_shape(text) in allowed for text in strings)


def _shape(text: str) -> tuple[list[str], list[str], bool]:
    plain = _TAG.sub("", text)
    return messages.places(text), sorted(_TAG.findall(text)), '"' in plain or "<" in plain


def _words(template: str) -> Iterator[str]:
    """The words that stand in a template itself, and in the texts of its expressions."""
    environment = Environment(extensions=["jinja2.ext.i18n"], autoescape=True)
    inside, shown, html = False, False, []
    for _line, kind, value in environment.lex(template):
        if kind == "name" and value in {"trans", "endtrans"}:
            inside = value == "trans"
        if kind == "variable_begin":
            shown = True
        elif kind == "variable_end":
            shown = False
        elif kind == "data" and not inside:
            html.append(value)
        elif kind == "string" and shown and re.match(r"['\"][A-Z]", value):
            html.append(f">{value[1:-1]}<")
        elif kind != "data":
            html.append("" if inside else "\0")
    text = re.sub(r'\bclass="[^"]*"', "", "".join(html))
    spoken = [words for tag in _TAG.findall(text) for words in _SPOKEN.findall(tag)]
    for part in [*_TAG.split(text), *spoken]:
        yield from _WORD.findall(part)
