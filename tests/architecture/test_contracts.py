"""The contracts hold what their implementers need: type-level examples under mypy strict, and the shapes that types cannot say."""

import asyncio
import importlib.util
import inspect
import pkgutil
import re
from abc import ABC
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import msgspec
import pytest
from mypy import api as mypy

import greatseal.api
import greatseal.testing
from greatseal.api import services
from greatseal.api.declarations import Secret
from greatseal.api.identity import Attempted, Authenticator, LoginContext, Password, PasswordAndCode
from greatseal.api.services import LOGIN
from greatseal.kernel.registry import POINTS
from greatseal.testing.desk import Answer, hidden_fields

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "tests/architecture/typing").glob("*.py"))
KIT = [importlib.import_module(f"greatseal.testing.{module.name}") for module in pkgutil.iter_modules(greatseal.testing.__path__)]
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

    assert {contract.__name__ for contract in components() if contract not in implemented} == set()


def test_every_example_component_can_be_made():
    """Nothing abstract is left: an example that forgot a method would fail here, not at a start."""
    for path in EXAMPLES:
        for name, value in inspect.getmembers(load(path), inspect.isclass):
            if value.__module__.startswith("contract_example_"):
                assert not inspect.isabstract(value), f"{path.name}: {name} lacks {sorted(value.__abstractmethods__)}"


@pytest.mark.parametrize("contract", [point.contract for point in POINTS if ABC in point.contract.__mro__], ids=lambda one: one.__name__)
def test_each_extension_point_has_a_test_class_that_tests_inherit(contract: type) -> None:
    name = f"{contract.__name__}Contract"
    made = {getattr(module, name) for module in KIT if hasattr(module, name)}
    assert len(made) == 1, f"greatseal.testing has no {name}: what the docstrings of {contract.__name__} promise is tested by nobody"

    tests = (file.read_text() for folder in ("core/tests", "plugins/*/tests", "tests") for file in ROOT.glob(f"{folder}/**/test_*.py"))
    assert any(re.search(rf"^class \w+\((?:.+, )?{name}\):", text, re.MULTILINE) for text in tests), f"no test inherits {name}"


def test_each_service_has_a_fake_that_keeps_its_protocol() -> None:
    """That it keeps it is said by mypy, which reads the annotations of the fakes."""
    keys = re.findall(r'^([A-Z]+): "?ServiceKey\[(\w+)\]"? = ServiceKey', inspect.getsource(services), re.MULTILINE)
    fakes = re.findall(r"^([A-Z]+): (\w+) = ", (ROOT / "tests/architecture/typing/fakes.py").read_text(), re.MULTILINE)

    assert {key for key, _ in keys} == {name for name, value in vars(services).items() if isinstance(value, services.ServiceKey)}
    assert set(keys) == set(fakes) - {("CALL", "Call")}


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
        "Directory", "FinalizeCheck", "Grant", "GrantCheck", "IssuanceObserver", "Issuer", "KeyStore", "LogBackend",
        "LoginOptions", "PasswordChanger", "SanInjector", "Selector", "TokenBinding",
    }  # fmt: skip


def test_values_that_are_handed_to_plugins_cannot_be_changed():
    for module in API:
        for name, value in inspect.getmembers(module, inspect.isclass):
            if issubclass(value, msgspec.Struct) and value.__module__ == module.__name__:
                assert value.__struct_config__.frozen, f"{module.__name__}.{name}"


# ---- One that runs: a one-time code beside a password


class Codes:
    """One code of alice's, which is good once."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    async def use(self, subject: str, code: Secret) -> bool:
        good = (subject, code.value) == ("alice@LOCALHOST", "123456") and code.value not in self.used
        self.used.add(code.value)
        return good


@pytest.fixture
async def sign_in(open_people: Any) -> Any:
    """``await sign_in(authenticator, code)``: the second step of alice's sign-in, with that authenticator for passwords and codes."""
    desk = await open_people("idp")
    desk.people.change("alice", authentication_types=("otp",))
    html = {"Accept": "text/html"}

    async def send(authenticator: Authenticator[PasswordAndCode], code: str) -> Answer:
        desk.service.host("idp").components(Authenticator)["codes"].attempt = authenticator.attempt
        page = await desk.get("/ui/auth/login", headers=html)
        cookie = page.headers["Set-Cookie"].partition(";")[0]
        form = {**hidden_fields(page), "username": "alice", "password": "wonderland"}
        asked = await desk.post("/login", data=form, cookie=cookie, headers=html)
        async with asyncio.timeout(20):
            return await desk.post("/login", data={**hidden_fields(asked), "code": code}, cookie=cookie, headers=html)

    send.host = desk.service.host("idp")  # type: ignore[attr-defined]
    return send


async def test_a_one_time_code_authenticator_has_the_password_checked_within_its_attempt(sign_in: Any):
    otp = load(ROOT / "tests/architecture/typing/logins.py").OtpAuthenticator(Codes().use)

    assert [(await sign_in(otp, code)).status for code in ("000000", "123456", "123456")] == [401, 303, 401]


@pytest.mark.parametrize("wrong", ["attempt", "user"])
async def test_an_attempt_within_an_attempt_is_refused_at_once(sign_in: Any, wrong: str):
    class Inside(Authenticator[PasswordAndCode]):
        name = "codes"
        credential = PasswordAndCode

        async def attempt(self, credential: PasswordAndCode, context: LoginContext) -> Attempted:
            password = Password(username="alice" if wrong == "attempt" else "bob", password=credential.password)
            if wrong == "user":
                return await context.password(password)
            return await sign_in.host.service(LOGIN).attempt(context.call, password)  # type: ignore[no-any-return]

    assert [(await sign_in(Inside(), "123456")).status for _ in range(2)] == [500, 500]
