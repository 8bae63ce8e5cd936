"""Everything that a plugin author or an operator meets is declared, documented and tested."""

import ast
import inspect
import pkgutil
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pytest
import sqlalchemy

import greatseal.api
from greatseal import hookspecs, host, net
from greatseal.api.declarations import Schema
from greatseal.api.http import Handler, Permission, Rule
from greatseal.db import tables
from greatseal.db.tables import State
from greatseal.kernel.kernel import Kernel

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
    declared = {one.name: one for name in kernel.order for one in kernel.hooks.collect(name, "audit_events")}
    written = set(re.findall(r'event_type="([^"]+)"', sources("core/src/**/*.py", "plugins/*/src/**/*.py")))

    assert written <= declared.keys()
    for event in declared.values():
        assert event.summary, event.name
        assert event.service in {"idp", "ca"}, event.name


# ---- Configuration keys


def owners() -> dict[tuple[str, str], str]:
    listed = tomllib.loads((ROOT / "tests/architecture/config_keys.toml").read_text())
    return {(section, key): owner for section, keys in listed.items() for key, owner in keys.items()}


def test_every_configuration_key_is_listed_under_its_owner_and_documented(kernel: Kernel):
    ours = {"core", *(folder.name for folder in (ROOT / "plugins").iterdir())}
    listed, declared = owners(), kernel.binder.rows()
    wrong = []
    for section, key, owner, _, doc in declared:
        if owner in ours:
            if listed.get((section, key)) != owner:
                wrong.append(f"[{section}] {key} of {owner}: the list says {listed.get((section, key), 'no such key')}")
            if not doc:
                wrong.append(f"[{section}] {key} of {owner} has no docstring")

    assert not wrong, "\n".join(wrong)


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
