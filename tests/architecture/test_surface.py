"""Everything that a plugin author or an operator meets is declared, documented and tested."""

import ast
import inspect
import pkgutil
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
import sqlalchemy

import greatseal.api
from greatseal import hookspecs, host, net
from greatseal.api.declarations import Schema, Secret
from greatseal.api.http import Handler, Permission, Rule
from greatseal.audit import EVENTS
from greatseal.db import tables
from greatseal.db.tables import State
from greatseal.kernel.config import Binder
from greatseal.kernel.kernel import CORE, Kernel
from greatseal.kernel.known import known

MISSPELT = "zz-misspelt"
ROOT = Path(__file__).parents[2]
HOOKS = [name for name, value in inspect.getmembers(hookspecs, inspect.isfunction) if value.__module__ == hookspecs.__name__]
COLUMN_TYPES = (tables.Id, tables.Text, tables.Document, tables.Blob, tables.Moment, tables.Flag, sqlalchemy.BigInteger)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """Every installed plugin of the workspace at once."""
    return Kernel(
        {
            "plugins": {"enabled": sorted(point.name for point in entry_points(group="greatseal.plugins"))},
            "server": {"base_url": "http://localhost:8080"},
            "admin": {"listen": "127.0.0.1:0"},
        }
    )


def sources(*patterns: str) -> str:
    return "\n".join(path.read_text() for pattern in patterns for path in sorted(ROOT.glob(pattern)))


# ---- Hooks


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_says_its_purpose_and_its_types(hook: str):
    specification = getattr(hookspecs, hook)
    signature = inspect.signature(specification)

    assert inspect.getdoc(specification)
    assert signature.return_annotation is not inspect.Signature.empty
    assert set(signature.parameters) <= {"host"}
    assert hook in hookspecs.__all__


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_is_in_the_reference(hook: str, kernel: Kernel):
    assert f"## {hook}\n" in reference().hooks(kernel)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_is_tested(hook: str):
    """A test names it: a plugin of a test implements it, or a string asks for it."""
    folders = ("core/tests", "plugins/*/tests", "examples/*/tests", "tests/system", "tests/security", "tests/faults")
    tests = sources(*(f"{folder}/**/*.py" for folder in folders))

    assert re.search(rf'\bdef {hook}\(self|"{hook}"|\bhook_{hook}\b', tests), f"no test implements or names the hook {hook}"


def reference() -> ModuleType:
    """docs/_ext/greatseal_reference.py, which writes the reference pages."""
    folder = str(ROOT / "docs/_ext")
    sys.path.insert(0, folder)
    try:
        return import_module("greatseal_reference")
    finally:
        sys.path.remove(folder)


# ---- The reference


def test_a_reference_page_shows_each_module_that_a_plugin_imports():
    pages = reference().contracts()

    text = "\n".join(pages.values())
    for module in [*public_modules(), net]:
        if module is not hookspecs:
            assert f".. automodule:: {module.__name__}\n" in text
    for part in ("plugin", "resolver", "validators", "schema"):
        assert f".. automodule:: greatseal.testing.{part}\n" in pages["testing"]


def test_a_key_is_shown_in_the_words_of_the_file(kernel: Kernel):
    page = reference().keys(kernel)

    assert "| `max_body_bytes` | integer, 16384 to 16777216 | `65536` | core |" in page
    assert "\n## [[rbac.role]]\n" in page
    assert "| `permissions` | list of text | `[]` | idp |" in page
    assert "\n## [ca] or [[ca]]\n" in page
    assert "\n## [mtc.signing_key]\n" in page
    assert '| `key_type` | `"ed25519"` or `"ec:P-256"` or `"ec:P-384"` | `"ed25519"` | mtc |' in page
    assert "\n## [ca.mtc]\n" in page
    assert "\n## [oauth.authorization_details.members.\\<name>.members.\\<name>]\n" in page
    assert not re.search(r"\| (?:table of )?(?:signingkey|cosignerkey|ofca|member|accountlimits) \|", page), "the name of a class"
    for word in ("Annotated", "msgspec", "Optional", "NoneType"):
        assert word not in page
    assert not re.search(r"(?<!\\)<", re.sub("`[^`]*`", "", page)), "a < outside of backticks is HTML"


def test_the_example_is_no_part_of_the_reference(tmp_path: Path):
    reference().generate(tmp_path)

    assert "finger-01" not in (tmp_path / "configuration.md").read_text()
    assert ":class:" not in (tmp_path / "hooks.md").read_text()


# ---- Tables


def all_tables(kernel: Kernel) -> Iterator[tuple[Schema, sqlalchemy.Table]]:
    for schema in kernel.schemas:
        for table in schema.metadata.tables.values():
            yield schema, table


def test_every_table_has_a_state_and_its_owner_in_its_name(kernel: Kernel):
    found = list(all_tables(kernel))
    assert len(found) > 5

    for schema, table in found:
        assert isinstance(table.info.get("state"), State), f"{table.name} declares no State"
        assert table.name.startswith(f"{schema.feature.replace('-', '_')}_"), f"{table.name} of {schema.feature}"
        if table.info["state"] is State.REPLICATED:
            assert len(table.primary_key.columns) == 1, f"{table.name}: a Collection has a key of one column"


def test_every_column_is_of_a_type_that_both_databases_read_alike(kernel: Kernel):
    for _, table in all_tables(kernel):
        for column in table.columns:
            assert isinstance(column.type, COLUMN_TYPES), f"{table.name}.{column.name}: {column.type!r}"
            assert column.default is None, f"{table.name}.{column.name}: a Python-side default is never run"
            assert column.onupdate is None, f"{table.name}.{column.name}: a Python-side onupdate is never run"


# ---- Routes, permissions, events


def test_every_route_says_who_may_call_it_and_what_it_is_for(kernel: Kernel):
    declared = {one.name for name in kernel.order for one in kernel.hooks.collect(name, "permissions")}

    for route in kernel.routes:
        what = f"{route.method} {route.path}"
        assert isinstance(route.auth, Rule), what
        assert route.summary, f"{what} has no summary"
        if isinstance(route.auth, Handler):
            assert len(route.auth.reason) > 10, f"{what}: Handler says why no scheme can"
        if isinstance(route.auth, Permission):
            assert route.auth.name in declared, f"{what}: permission {route.auth.name}"


def test_every_audit_event_that_is_written_is_declared(kernel: Kernel):
    declared = {one.name: one for one in [*EVENTS, *(one for name in kernel.order for one in kernel.hooks.collect(name, "audit_events"))]}
    written = set(re.findall(r'event_type="([^"]+)"', sources("core/src/**/*.py", "plugins/*/src/**/*.py")))

    assert written <= declared.keys()
    for event in declared.values():
        assert event.summary, event.name
        assert event.service in {"core", "idp", "ca"}, event.name


# ---- Configuration keys


def declared(kernel: Kernel) -> dict[tuple[str, str], tuple[str, str]]:
    """The keys of the project with their owner, or ``read by`` whom, and their meaning. Examples are no part of the product."""
    ours = {"core", *(folder.name for folder in (ROOT / "plugins").iterdir())}
    return {(section, key): (who, doc) for section, key, who, _, doc in kernel.binder.rows() if who.removeprefix("read by ") in ours}


def test_the_list_of_keys_and_the_settings_agree_both_ways(kernel: Kernel):
    absent = {"gssapi"} - kernel.plugins.keys()  # where its library cannot be built
    listed = {(section, key): owner for section, keys in known().built.items() for key, owner in keys.items() if owner not in absent}
    found = declared(kernel)

    assert listed.keys() == found.keys()
    assert {place: who for place, (who, _) in found.items() if who not in {listed[place], f"read by {who[8:]}"}} == {}
    assert [place for place, (_, doc) in found.items() if not doc] == []


def test_a_planned_key_is_declared_by_nobody(kernel: Kernel):
    planned = {(section, key) for section, keys in known().planned.items() for key in keys}

    assert planned.isdisjoint(declared(kernel))


def test_a_planned_key_is_in_the_reference_and_called_so(kernel: Kernel):
    page = reference().keys(kernel)

    for section, keys in known().planned.items():
        for key, planned in keys.items():
            assert f"| `{key}` | {planned.owner} | " in page.partition("\n## Planned\n")[2], f"[{section}] {key}"
    assert "planned, not built yet" in page


def places(kind: Any) -> Iterator[Any]:
    """A smallest value of a type for every table inside of it, with an unknown key in that table."""
    for one in alternatives(kind):
        origin, arguments = get_origin(one) or one, get_args(one)
        if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
            least = smallest(one)
            yield {**least, MISSPELT: 1}
            for field in msgspec.structs.fields(one):
                yield from ({**least, field.encode_name: inner} for inner in places(field.type))
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            yield from ({"name": inner} for inner in places(arguments[1]))
        elif origin is tuple and arguments[1:] != (...,):
            for index, argument in enumerate(arguments):
                yield from (
                    [*map(least_of, arguments[:index]), inner, *map(least_of, arguments[index + 1 :])] for inner in places(argument)
                )
        elif isinstance(origin, type) and issubclass(origin, Collection) and arguments:
            yield from ([inner] for inner in places(arguments[0]))


def smallest(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """A table with the keys that must be given alone."""
    config = struct.__struct_config__
    tag = {config.tag_field: config.tag} if config.tag_field else {}
    return {**tag, **{field.encode_name: least_of(field.type) for field in msgspec.structs.fields(struct) if field.required}}


def least_of(kind: Any) -> Any:
    """Some value of a type, in TOML."""
    (one, *_) = alternatives(kind)
    origin = get_origin(one) or one
    if origin is Literal:
        return get_args(one)[0]
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        return smallest(origin)
    return {str: "x", int: 1, float: 1.0, bool: True, Path: "x", Secret: "x"}.get(origin) or ({} if issubclass(origin, Mapping) else [])


def alternatives(kind: Any) -> list[Any]:
    if get_origin(kind) is Annotated:
        return alternatives(get_args(kind)[0])
    if get_origin(kind) in {Union, UnionType}:
        return [one for each in get_args(kind) for one in alternatives(each) if one is not type(None)]
    return [kind]


def test_an_unknown_key_is_refused_in_every_nested_table_of_the_settings(kernel: Kernel):
    tried = []
    for section, key, _, field, _ in kernel.binder.rows():
        for value in places(field.type):
            tried.append(f"[{section}] {key}")
            table: Any = {key: value}
            name = section.removesuffix(".*").removesuffix("[]")
            document = {name: {"one": table} if section.endswith(".*") else table}
            binder = Binder()
            binder.declare("all", [*CORE, *(one for name in kernel.order for one in kernel.hooks.collect(name, "settings"))])
            binder.bind(document)
            assert any(f"{MISSPELT}: unknown key" in problem for problem in binder.problems), f"[{section}] {key} takes {value}"

    assert "[rbac] role" in tried


def test_no_setting_takes_whatever_is_there(kernel: Kernel):
    """Inside of Any nobody would know a misspelt key."""
    takes = [f"[{section}] {key}" for section, key, _, field, _ in kernel.binder.rows() if re.search(r"\b(Any|object)\b", str(field.type))]

    assert takes == []


# ---- Docstrings of the public API


def public_modules() -> list[ModuleType]:
    api = [import_module(f"greatseal.api.{module.name}") for module in pkgutil.iter_modules(greatseal.api.__path__)]
    return [*api, host, hookspecs, tables]


def public(nodes: list[ast.stmt]) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        if not any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list):
            yield node


def undocumented(module: ModuleType) -> Iterator[str]:
    """Public classes, functions and methods without a docstring."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    assert ast.get_docstring(tree), module.__name__
    for node in public(tree.body):
        for one in (node, *(public(node.body) if isinstance(node, ast.ClassDef) else ())):
            if ast.get_docstring(one) is None:
                yield f"line {one.lineno}: {one.name} of {node.name}"


@pytest.mark.parametrize("module", public_modules(), ids=lambda module: module.__name__)
def test_everything_public_has_a_docstring(module: ModuleType):
    assert list(undocumented(module)) == []


PAPERS = re.compile(r"\b[Rr]ulings? R\d|\b[Rr]eference \d|\b[Dd]ecisions? (IDP|CA) |\(document, .[A-Z]|\barchitecture \d")
"""References into papers that a reader of the code does not have."""


def code() -> list[Path]:
    patterns = ("core/src/**/*.py", "plugins/*/src/**/*.py", "examples/*/src/**/*.py")
    files = [path for pattern in patterns for path in ROOT.glob(pattern)]
    assert len(files) > 300
    return files


def test_the_code_refers_only_to_what_its_readers_can_open():
    lines = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in code()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PAPERS.search(line)
    ]

    assert lines == []


LINES_OF_A_FILE, LINES_OF_A_FUNCTION = 400, 50


def too_long(path: Path) -> Iterator[str]:
    """The file and its functions. A migration is one list of statements."""
    name, text = path.relative_to(ROOT), path.read_text()
    if text.count("\n") > LINES_OF_A_FILE:
        yield f"{name}: more than {LINES_OF_A_FILE} lines"
    for node in ast.walk(ast.parse(text)) if path.parent.name != "versions" else ():
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.end_lineno is None:
            continue
        if node.end_lineno - node.lineno >= LINES_OF_A_FUNCTION:
            yield f"{name}:{node.lineno}: {node.name} has more than {LINES_OF_A_FUNCTION} lines"


def test_files_and_functions_are_short_enough_to_be_read_at_once():
    assert [found for path in code() for found in too_long(path)] == []
