"""Every way in which a plugin can break the contract of a hook is told at the start, with its name and the cure."""

import inspect
from typing import Any

import msgspec
import pytest

from greatseal import hookspecs
from greatseal.api.problems import StartProblem
from greatseal.kernel.kernel import Kernel
from greatseal.kernel.registry import POINTS
from greatseal.testing.distributions import install

HOOKS = sorted(name for name, value in inspect.getmembers(hookspecs, inspect.isfunction) if value.__module__ == hookspecs.__name__)
CALLED = [hook for hook in HOOKS if hook not in {"commands", "ctl"}]
"""Those that a start calls."""
CLASSES = [point for point in POINTS if not issubclass(point.contract, msgspec.Struct) and point.hook != "issuance_observers"]
CODE = """
from greatseal import hookimpl
{head}
class Plugin:
    @hookimpl
    def {hook}(self):
        return {value}
"""
COMPONENT = """
from greatseal.kernel.registry import POINTS
(contract,) = [point.contract for point in POINTS if point.hook == "{hook}"]
Sample = type("Sample", (contract,), {members})
Sample.__abstractmethods__ = frozenset()
"""
WRONG = ("None", "5", "'words'", "object()")
"""What no hook returns."""


@pytest.fixture
def problems(tmp_path, monkeypatch):
    """What a start says of a plugin whose hook returns ``value``; of several such plugins."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def start(hook: str, *values: str, head: str = "") -> tuple[str, ...]:
        names = ("sample", *(f"other{number}" for number in range(1, len(values))))
        for name, value in zip(names, values, strict=True):
            install(tmp_path, f"greatseal-{name}", CODE.format(hook=hook, value=value, head=head))
        with pytest.raises(StartProblem) as caught:
            Kernel({"server": {"base_url": "http://localhost:8080"}, "plugins": {"enabled": list(names)}})
        return caught.value.messages

    return start


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("hook", CALLED)
def test_what_is_no_list_is_told(problems: Any, hook: str, value: str):
    (message,) = problems(hook, value)

    assert message.startswith(f"plugin 'sample': hook {hook} returned ")
    assert "; return a" in message


@pytest.mark.parametrize("hook", [hook for hook in CALLED if hook != "services"])
def test_what_does_not_belong_in_the_list_is_told(problems: Any, hook: str):
    (message,) = problems(hook, "[object()]")

    assert message.startswith(f"plugin 'sample': hook {hook} returned ")


@pytest.mark.parametrize("value", ["{'colour': list}", "{ServiceKey('colour'): 5}"])
def test_services_are_factories_under_their_keys(problems: Any, value: str):
    (message,) = problems("services", value, head="from greatseal.api.services import ServiceKey")

    assert message.startswith("plugin 'sample': hook services returned ")
    assert message.endswith("; each is a factory under a ServiceKey")


@pytest.mark.parametrize("point", CLASSES, ids=lambda point: point.hook)
def test_a_component_without_a_key_is_told(problems: Any, point: Any):
    (message,) = problems(point.hook, "[Sample()]", head=COMPONENT.format(hook=point.hook, members={}))

    assert message.startswith(f"plugin 'sample': hook {point.hook} returned Sample without ")


@pytest.mark.parametrize("key", ["5", "''"])
def test_a_key_that_is_no_text_is_told(problems: Any, key: str):
    (message,) = problems("directories", "[Sample()]", head=COMPONENT.format(hook="directories", members=f"{{'name': {key}}}"))

    assert message == f"plugin 'sample': hook directories returned Sample with the key {key}; it is a text"


@pytest.mark.parametrize("deadline", ["'long'", "0", "-1", "True", "float('inf')", "float('nan')", "None"])
def test_a_deadline_that_is_none_is_told(problems: Any, deadline: str):
    head = COMPONENT.format(hook="directories", members=f"{{'name': 'ldap', 'deadline': {deadline}}}")

    (message,) = problems("directories", "[Sample()]", head=head)

    assert message.startswith("plugin 'sample': directories 'ldap': its deadline is ")
    assert message.endswith("; it is a number of seconds above 0")


TWICE = {
    "services": ("from greatseal.api.services import ServiceKey", "{ServiceKey('x'): list}", "service 'x'"),
    "routes": (
        "from greatseal.api.http import Reply, Route\nasync def answer(call): return Reply.text('x')",
        "[Route('GET', '/x', answer)]",
        "/x",
    ),
    "discovery": ("from greatseal.api.http import Discovery", "[Discovery('openid', lambda: {'x': 1})]", "'x'"),
    "permissions": ("from greatseal.api.declarations import PermissionName", "[PermissionName('x:read', 'Read.')]", "'x:read'"),
    "jobs": ("from greatseal.api.declarations import Job", "[Job(name='x', every=60.0, run=print)]", "'x'"),
    "checks": ("from greatseal.api.declarations import Check", "[Check(name='x', run=print)]", "'x'"),
    "schemas": (
        "from sqlalchemy import MetaData\nfrom greatseal.api.declarations import Schema",
        "[Schema('x', MetaData(), 'migrations', 'first')]",
        "'x'",
    ),
    "operations": (
        "from greatseal.api.store import operation\n@operation('x', owner=lambda given: 'n1')\ndef x(tx, given): ...",
        "[x]",
        "'x'",
    ),
}


@pytest.mark.parametrize("hook", sorted(TWICE))
def test_what_two_plugins_bring_is_told_of_the_second(problems: Any, hook: str):
    head, value, named = TWICE[hook]

    (message,) = problems(hook, value, value, head=head)

    assert named in message
    assert "other1" in message
    assert "disable one" in message or "rename one" in message
