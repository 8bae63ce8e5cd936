"""The contracts hold what their implementers need: type-level examples under mypy strict, and the shapes that types cannot say."""

import importlib.util
import inspect
import pkgutil
from abc import ABC
from pathlib import Path
from types import ModuleType
from typing import get_args

import msgspec
import pytest
from mypy import api as mypy

import greatseal.api

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "tests/architecture/typing").glob("*.py"))
API = [importlib.import_module(f"greatseal.api.{module.name}") for module in pkgutil.iter_modules(greatseal.api.__path__)]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"contract_example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def components() -> list[type]:
    """The abstract classes that plugins implement."""
    found = (value for module in API for _, value in inspect.getmembers(module, inspect.isclass) if value.__module__ == module.__name__)
    return [value for value in found if ABC in value.__mro__ and inspect.isabstract(value)]


@pytest.mark.timeout(300)
def test_the_examples_are_right_under_mypy_strict():
    said, failed, code = mypy.run(["--config-file", str(ROOT / "pyproject.toml"), *map(str, EXAMPLES)])

    assert code == 0, said + failed


def test_the_examples_implement_every_contract():
    implemented = {base for path in EXAMPLES for _, value in inspect.getmembers(load(path), inspect.isclass) for base in value.__mro__}

    # Kernel-side contracts, whose implementers in this repository are checked with it.
    elsewhere = {"AuthScheme", "KeyStore"}
    assert {contract.__name__ for contract in components() if contract not in implemented} <= elsewhere


def test_every_example_component_can_be_made():
    """Nothing abstract is left: an example that forgot a method would fail here, not at a start."""
    for path in EXAMPLES:
        for name, value in inspect.getmembers(load(path), inspect.isclass):
            if value.__module__.startswith("contract_example_"):
                assert not inspect.isabstract(value), f"{path.name}: {name} lacks {sorted(value.__abstractmethods__)}"


@pytest.mark.parametrize("issue_as", ["x509", "mtc"])
def test_a_kill_table_has_five_points_with_one_outcome_each(issue_as):
    issuers = load(ROOT / "tests/architecture/typing/issuers.py")
    kills = issuers.KILL_TABLES[issue_as]

    assert len({kill.point for kill in kills}) == 5
    assert all(kill.found for kill in kills)
    assert {kill.outcome for kill in kills} <= set(get_args(issuers.Outcome))
    assert kills[0].outcome == "nothing"
    assert kills[-1].outcome == "issued"


def test_the_identity_contracts_are_services_and_components_of_architecture_4():
    names = {contract.__name__ for contract in components()}

    assert names >= {
        "AccountBinding", "AuthScheme", "Authenticator", "ChallengeValidator", "ClaimsProvider", "ClientAuthMethod", "ClientResolver",
        "CredentialStore", "Directory", "FinalizeCheck", "Grant", "GrantCheck", "IssuanceObserver", "Issuer", "KeyStore", "LogBackend",
        "LoginOptions", "PasswordChanger", "SanInjector", "Selector", "TokenBinding",
    }  # fmt: skip


def test_values_that_are_handed_to_plugins_cannot_be_changed():
    for module in API:
        for name, value in inspect.getmembers(module, inspect.isclass):
            if issubclass(value, msgspec.Struct) and value.__module__ == module.__name__:
                assert value.__struct_config__.frozen, f"{module.__name__}.{name}"
