"""Nothing is declared in vain: each hook is read and each method of a contract is called by what is shipped, or is said to be planned."""

import ast
import inspect
import pkgutil
import re
from abc import ABC
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import greatseal.api
from greatseal import hookspecs, host
from greatseal.kernel.registry import POINTS

ROOT = Path(__file__).parents[2]
MODULES = [*(import_module(f"greatseal.api.{module.name}") for module in pkgutil.iter_modules(greatseal.api.__path__)), host]
HOOKS = [name for name, value in inspect.getmembers(hookspecs, inspect.isfunction) if value.__module__ == hookspecs.__name__]
PLANNED = {"selectors", "operations"}
"""Hooks for features to come."""


@cache
def shipped() -> dict[Path, ast.Module]:
    """The sources of every distribution but the kit for tests."""
    files = [*ROOT.glob("core/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
    return {file: ast.parse(file.read_text()) for file in files if "testing" not in file.parts}


@cache
def asked() -> frozenset[str]:
    """Attributes that are taken of anything but ``self``."""
    nodes = (node for tree in shipped().values() for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return frozenset(node.attr for node in nodes if not (isinstance(node.value, ast.Name) and node.value.id == "self"))


def is_planned(thing: Any) -> bool:
    """Its docstring says so, with the feature, or that of its module."""
    docs = (inspect.getdoc(thing) or "", inspect.getdoc(inspect.getmodule(thing)) or "")
    return any(re.search(r"^Planned, for the feature [a-z][a-z0-9-]*[,:.; ]", doc, re.MULTILINE) for doc in docs)


def contracts() -> Iterator[type]:
    """Protocols and abstract classes that plugins call or implement."""
    for module in MODULES:
        for _, value in inspect.getmembers(module, inspect.isclass):
            if value.__module__ == module.__name__ and (getattr(value, "_is_protocol", False) or ABC in value.__mro__):
                yield value


def methods(contract: type) -> Iterator[tuple[str, Any]]:
    """What it has of its own, properties too."""
    for name, value in vars(contract).items():
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            yield name, value.fget if isinstance(value, property) else value


def test_only_what_may_be_is_planned() -> None:
    hooked = {point.contract for point in POINTS if point.hook in PLANNED}
    to_come = {"greatseal.api.nodes"}
    of_services = [contract for contract in contracts() if contract not in hooked and contract.__module__ not in to_come]

    assert {hook for hook in HOOKS if is_planned(getattr(hookspecs, hook))} == PLANNED
    assert [f"{one.__name__}.{name}" for one in of_services for name, method in methods(one) if is_planned(method)] == []


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_is_read(hook: str) -> None:
    contracts = {point.hook: point.contract.__name__ for point in POINTS}
    reading = rf"(?:components|\.of)\({contracts[hook]}[\[\])]" if hook in contracts else rf'"{hook}"'
    kernel = ROOT / "core/src/greatseal"
    sources = (file.read_text() for file in shipped() if file not in {kernel / "kernel/registry.py", kernel / "hookspecs.py"})

    read = any(re.search(reading, source) for source in sources)
    assert read or is_planned(getattr(hookspecs, hook)), (
        f"nothing that is shipped reads the hook {hook}; drop it, or say for what it is planned"
    )


@pytest.mark.parametrize("contract", list(contracts()), ids=lambda contract: f"{contract.__module__}.{contract.__name__}")
def test_each_method_of_a_contract_is_called(contract: type) -> None:
    idle = {f"{contract.__name__}.{name}" for name, method in methods(contract) if name not in asked() and not is_planned(method)}

    planned = is_planned(contract) or any(point.hook in PLANNED and point.contract is contract for point in POINTS)
    left = sorted(idle)
    assert planned or not left, f"nothing that is shipped calls {', '.join(left)}; drop it, or say for what it is planned"
