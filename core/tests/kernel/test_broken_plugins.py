"""Every way in which a plugin can break the contract of a hook is told at the start, with its name and the cure."""

import inspect
from typing import Any

import aiohttp
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
    "audit_events": ("from greatseal.api.declarations import EventType", "[EventType('x.made', 'x', 'It was made.')]", "'x.made'"),
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


MEMBERS = {
    "routes": ("from greatseal.api.http import Route", "[Route('GET', '/x', print, {})]", {
        "style='weird'": "style is 'weird'; it is one of 'oauth', 'api', 'acme', 'acme-admin', 'page'",
        "listener='other'": "listener is 'other'; it is one of 'main', 'admin'",
        "content_types='text/plain'": "content_types is 'text/plain'; it is of the type tuple[str, ...]",
        "cors=1": "cors is 1; it is True or False",
        "owner='n1'": "owner is 'n1'; it is a function or None",
    }),
    "jobs": ("from greatseal.api.declarations import Job", "[Job(name='x', run=print, **dict(every=60, {}))]", {
        "every='often'": "every is 'often'; it is a number above 0",
        "every=0": "every is 0; it is a number above 0",
        "every=True": "every is True; it is a number above 0",
        "jitter=-1": "jitter is -1; it is a number of 0 or more",
    }),
    "checks": ("from greatseal.api.declarations import Check", "[Check(name='x', {})]", {"run=5": "run is 5; it is a function"}),
    "discovery": ("from greatseal.api.http import Discovery", "[Discovery({}, members=dict)]", {
        "'openidd'": "document is 'openidd'; it is one of 'oauth', 'openid', 'resource', 'federation', 'acme', 'jwks', 'features'",
    }),
    "catalogues": ("from greatseal.api.languages import Catalogue", "[Catalogue({})]", {"5": "package is 5; it is a text"}),
    "settings": ("from greatseal.api.declarations import Owns", "[Owns({})]", {
        "'mine', dict": "struct is <class 'dict'>; it is of the type type[msgspec.Struct]",
    }),
    "client_trust": ("from greatseal.api.http import ClientTrust", "[ClientTrust(name='x', roots=list, {})]", {
        "listener='other'": "listener is 'other'; it is one of 'main', 'admin'",
    }),
    "scopes": ("from greatseal.api.declarations import ScopeDefinition", "[ScopeDefinition({})]", {
        "'a b', ''": "name is 'a b'; it is a text like ^[\\x21\\x23-\\x5b\\x5d-\\x7e]+$",
    }),
}  # fmt: skip
"""By hook: wrong members of what it returns, and what is said of each."""


@pytest.mark.parametrize(("hook", "given"), [(hook, given) for hook, (_, _, wrong) in MEMBERS.items() for given in wrong])
def test_a_declaration_with_a_member_of_another_type_is_told(problems: Any, hook: str, given: str):
    head, value, wrong = MEMBERS[hook]
    value = value.replace("every=60, {}", given if given.startswith("every") else "every=60, {}")

    (message,) = problems(hook, value.format(given), head=head)

    assert message.startswith(f"plugin 'sample': hook {hook} returned ")
    assert message.endswith(f" whose {wrong[given]}")


TRAITS = {
    "directories": ({"name": "'x'"}, "without tier; set it, it is a Tier"),
    "finalize_checks": ({"name": "'x'", "phase": "'later'"}, "whose phase is 'later'; it is one of 'authorize', 'csr', 'policy'"),
    "extensions": ({"name": "'x'", "claims": "['a']"}, "whose claims is ['a']; it is of the type frozenset[str]"),
    "token_bindings": (
        {"confirmation": "'x'", "fields": "dict"},
        f"whose fields is {dict}; it is of the type type[msgspec.Struct] or None",
    ),
    "grants": ({"grant_type": "'x'", "handle": "'code'"}, "whose handle is 'code'; it is of the type tuple[str, str] or None"),
    "authenticators": (
        {"name": "'x'", "credential": "str"},
        "whose credential is <class 'str'>; it is of the type type[Password | PasswordAndCode | NegotiateHeader]",
    ),
}
"""By hook: what a component says of itself, and what is wrong with it."""


@pytest.mark.parametrize("hook", sorted(TRAITS))
def test_what_a_component_says_of_itself_is_of_the_type_that_its_contract_says(problems: Any, hook: str):
    members, said = TRAITS[hook]
    written = "{" + ", ".join(f"{name!r}: {value}" for name, value in members.items()) + "}"

    (message,) = problems(hook, "[Sample()]", head=COMPONENT.format(hook=hook, members=written))

    assert message == f"plugin 'sample': hook {hook} returned Sample {said}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("requires = 'resolver'", "has requires = 'resolver'; write a tuple of ServiceKeys, as requires = (RESOLVER,)"),
        ("uses = ('resolver',)", "has uses = ('resolver',); write a tuple of ServiceKeys, as uses = (RESOLVER,)"),
        ("expects = ['x']", "has expects = ['x']; write a dict of cures by contract"),
        ("def __init__(self): raise SystemExit(3)", "cannot be created: SystemExit: 3"),
    ],
)
def test_a_plugin_that_cannot_be_one_names_its_distribution(tmp_path: Any, monkeypatch: Any, body: str, said: str):
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "third-odd", f"class Plugin:\n    {body}\n", feature="odd")

    assert refused("odd") == (f"plugin 'odd' of third-odd 1.0 {said}",)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit(4)", "cannot be imported: ImportError: it ended with SystemExit(4)"),
        (CODE.format(hook="routes", value="exit(5)", head=""), ": hook routes failed: RuntimeError: it ended with SystemExit(5)"),
        (CODE.format(hook="routes", value="5", head=""), ": hook routes returned an int; return a list"),
    ],
)
def test_a_plugin_is_named_with_its_distribution_where_its_feature_does_not_tell_it(tmp_path: Any, monkeypatch: Any, code: str, said: str):
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "third-odd", code, feature="odd")

    (message,) = refused("odd")
    assert message.startswith("plugin 'odd' of third-odd 1.0")
    assert said in message


SERVICE = """
from greatseal import hookimpl
from greatseal.api.services import RESOLVER
class Plugin:
    {names}
    @hookimpl
    def {hook}
"""


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("lambda: 1 / 0", "cannot be made: ZeroDivisionError: division by zero"),
        ("object", "is an object without addresses, txt, caa, query; greatseal.api.services:Resolver has them"),
    ],
)
def test_a_service_that_is_none_is_told_of_who_provides_it(tmp_path: Any, monkeypatch: Any, factory: str, said: str):
    monkeypatch.syspath_prepend(str(tmp_path))
    provides = SERVICE.format(names="", hook=f"services(self, host): return {{RESOLVER: {factory}}}")
    install(tmp_path, "greatseal-sample", provides)
    takes = SERVICE.format(names="requires = (RESOLVER,)", hook="routes(self, host): return [host.service(RESOLVER)]")
    install(tmp_path, "greatseal-other", takes)

    assert refused("other", "sample") == (f"plugin 'sample': its service 'resolver' {said}",)


def refused(*names: str) -> tuple[str, ...]:
    with pytest.raises(StartProblem) as caught:
        Kernel({"server": {"base_url": "http://localhost:8080"}, "plugins": {"enabled": list(names)}})
    return caught.value.messages


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ("lambda: 1 / 0", "its members of the openid document cannot be told: ZeroDivisionError: division by zero"),
        ("lambda: ['x']", "its members of the openid document are a list; return a dict"),
    ],
)
async def test_members_that_are_none_stop_the_start(tmp_path: Any, monkeypatch: Any, start_service: Any, members: str, said: str):
    monkeypatch.syspath_prepend(str(tmp_path))
    head = "from greatseal.api.http import Discovery"
    install(tmp_path, "greatseal-sample", CODE.format(hook="discovery", value=f"[Discovery('openid', {members})]", head=head))

    with pytest.raises(StartProblem) as caught:
        await start_service("sample")
    assert caught.value.messages == (f"plugin 'sample': {said}",)


async def test_a_lifespan_that_does_not_open_is_told_with_its_plugin(tmp_path: Any, monkeypatch: Any, start_service: Any):
    monkeypatch.syspath_prepend(str(tmp_path))
    head = "from greatseal.api.declarations import Lifespan"
    install(tmp_path, "greatseal-sample", CODE.format(hook="lifespans", value="[Lifespan(name='pool', open=lambda: 1 / 0)]", head=head))

    with pytest.raises(StartProblem) as caught:
        await start_service("sample")
    assert caught.value.messages == ("plugin 'sample': the lifespan 'pool' cannot be opened: ZeroDivisionError: division by zero",)


async def test_a_handler_that_returns_no_reply_is_named_with_its_plugin(tmp_path: Any, monkeypatch: Any, start_service: Any, capsys: Any):
    monkeypatch.syspath_prepend(str(tmp_path))
    head = "from greatseal.api.http import Route\nasync def answer(call): return 'words'"
    install(tmp_path, "third-odd", CODE.format(hook="routes", value="[Route('GET', '/odd', answer)]", head=head), feature="odd")
    service = await start_service("odd")

    async with aiohttp.ClientSession() as http, http.get(f"{service.url}/odd") as answer:
        assert answer.status == 500
    said = " ".join(capsys.readouterr().out.split())
    assert "brought_by=\"plugin 'odd' of third-odd 1.0\"" in said
    assert "the handler of GET /odd returned str, not a Reply" in said
