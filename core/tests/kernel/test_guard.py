"""The deadline around components: what it costs nobody, and what it keeps from hanging."""

import asyncio

import aiohttp
import pytest

from greatseal.api.clients import ClientAuthMethod
from greatseal.api.directory import Directory, DirectoryUnavailable, Group, Tier
from greatseal.api.identity import Authenticator, NotMine, Password
from greatseal.api.issuance import FinalizeCheck
from greatseal.api.problems import Forbidden, Outbound, StartProblem, Unavailable
from greatseal.kernel.guard import guard
from greatseal.testing.distributions import install


class Ldap(Directory):
    name, tier, realm = "ldap", Tier.DIRECTORY, "EXAMPLE"

    def __init__(self):
        self.silent = asyncio.Event()
        self.cancelled = False
        self.answer = None

    async def user(self, username):
        if self.answer is not None:
            raise self.answer
        return

    async def group(self, name):
        try:
            await self.silent.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return Group(name=name, realm=self.realm, source="ldap")


@pytest.fixture
def told():
    return []


@pytest.fixture
def ldap(told):
    directory = Ldap()
    waited = lambda outcome, seconds: told.append(outcome)  # noqa: E731
    assert guard(directory, Directory, seconds=0.05, failure=DirectoryUnavailable, named=False, name="ldap", waited=waited) is None
    return directory


async def test_a_directory_that_does_not_answer_is_left_and_named(ldap, told):
    with pytest.raises(DirectoryUnavailable) as late:
        await ldap.group("staff")

    assert (late.value.cause, late.value.status) == ("ldap: group: no answer in 0.05 s", 503)
    assert "ldap" not in late.value.detail
    assert ldap.cancelled
    assert told == ["late"]


async def test_what_does_not_wait_makes_no_timer_and_is_not_told(ldap, told, monkeypatch):
    monkeypatch.setattr(asyncio, "timeout", None)

    assert await ldap.user("alice") is None
    assert told == []


def test_only_a_default_of_the_contract_that_asks_nobody_is_left_as_it_is(ldap, told):
    class Secret(ClientAuthMethod):
        method, secret_form = "secret", None
        credentials = client_id = None

        async def verify(self, proven, client):
            return

    method = Secret()
    guard(method, ClientAuthMethod, seconds=1, failure=Unavailable, named=False, name="secret", waited=told.append)

    assert ldap.groups.__func__ is Directory.groups
    assert method.prove.__func__ is ClientAuthMethod.prove
    assert hasattr(method.find, "guarded")  # which reads clients
    assert hasattr(method.verify, "guarded")


async def test_an_answer_after_a_wait_is_that_of_the_component(ldap, told):
    asyncio.get_running_loop().call_soon(ldap.silent.set)

    assert await ldap.group("staff") == Group(name="staff", realm="EXAMPLE", source="ldap")
    assert told == ["returned"]


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ConnectionRefusedError(111, "refused"), "ldap: user: ConnectionRefusedError: [Errno 111] refused"),
        (TimeoutError("its own"), "ldap: user: TimeoutError: its own"),
        (Outbound("ldaps://ldap7: NXDOMAIN"), "ldap: user: Outbound: ldaps://ldap7: NXDOMAIN"),
    ],
)
async def test_an_error_of_the_network_is_a_refusal(ldap, raised, expected):
    ldap.answer = raised

    with pytest.raises(DirectoryUnavailable) as refused:
        await ldap.user("alice")
    assert refused.value.cause == expected


@pytest.mark.parametrize(
    ("method", "returned", "said"),
    [
        ("user", "alice", "a User or None"),
        ("group", False, "a Group or None"),
        ("groups", None, "of the type Sequence[Group]"),
    ],
)
async def test_what_a_component_returns_is_of_the_type_that_its_contract_says(told, method, returned, said):
    async def wrong(self, *_):
        return returned

    directory = type("Wrong", (Ldap,), {method: wrong})()
    guard(directory, Directory, seconds=1, failure=DirectoryUnavailable, named=False, name="plugin 'x': ldap", waited=told.append)

    with pytest.raises(TypeError) as fault:
        await getattr(directory, method)("alice")
    assert str(fault.value) == f"plugin 'x': ldap: {method} returned {returned!r}; what it returns is {said}"


async def test_a_check_that_answers_instead_of_raising_is_told(told):
    class No(FinalizeCheck):
        name, phase = "no", "policy"

        async def check(self, finalization):
            return False

    check = No()
    guard(check, FinalizeCheck, seconds=1, failure=Unavailable, named=False, name="no", waited=told.append)

    with pytest.raises(TypeError, match=r"^no: check returned False; what it returns is None$"):
        await check.check(None)


@pytest.mark.parametrize("raised", [Forbidden("no"), Unavailable("later"), KeyError("a fault")])
async def test_every_other_error_is_as_it_was(ldap, raised):
    ldap.answer = raised

    with pytest.raises(type(raised)) as found:
        await ldap.user("alice")
    assert found.value is raised


async def test_whoever_goes_away_cancels_the_component(ldap):
    asking = asyncio.create_task(ldap.group("staff"))
    await asyncio.sleep(0)
    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking
    assert ldap.cancelled


async def test_a_component_may_have_a_deadline_of_its_own_and_is_guarded_once(told):
    class Slow(Ldap):
        deadline = 0.01

    directory = Slow()
    for _ in range(3):
        guard(
            directory,
            Directory,
            seconds=60,
            failure=DirectoryUnavailable,
            named=False,
            name="slow",
            waited=lambda *told_: told.append(told_),
        )
    with pytest.raises(DirectoryUnavailable) as late:
        await directory.group("staff")
    assert late.value.cause == "slow: group: no answer in 0.01 s"
    assert len(told) == 1


HANGING = """
import asyncio
from greatseal import hookimpl
from greatseal.api.http import Reply, Route
from greatseal.api.identity import Authenticator, NotMine, Password
from greatseal.api.issuance import FinalizeCheck

class Hanging(Authenticator[Password]):
    name, credential, deadline = "hanging", Password, 0.05
    {method}

class Plugin:
    @hookimpl
    def authenticators(self, host):
        return [Hanging()]
    @hookimpl
    def routes(self, host):
        async def ask(call):
            await host.components(Authenticator)["hanging"].attempt(None, None)
        return [Route("GET", "/ask", ask)]
"""


@pytest.fixture
def hanging(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return lambda method: install(tmp_path, "greatseal-hanging", HANGING.format(method=method))


async def test_a_hanging_component_is_503_and_counted(hanging, start_service):
    feature = hanging("async def attempt(self, credential, context): await asyncio.Event().wait()")
    service = await start_service(feature, admin={"listen": "127.0.0.1:0"})

    async with aiohttp.ClientSession() as http:
        async with http.get(f"{service.url}/ask") as answer:
            assert answer.status == 503
        async with http.get(f"http://{service.addresses['admin']}/metrics") as answer:
            text = await answer.text()
    assert 'wait_seconds_count{component="hanging",hook="authenticators",outcome="late"} 1.0\n' in text


async def test_a_component_that_is_not_async_stops_the_start(hanging, start_service):
    with pytest.raises(StartProblem, match="authenticators 'hanging': attempt is no async function; write async def"):
        await start_service(hanging("def attempt(self, credential, context): return NotMine()"))


def test_a_class_that_takes_no_guard_is_named():
    class Slotted(Authenticator[Password]):
        __slots__ = ()
        name, credential = "slotted", Password

        async def attempt(self, credential, context):
            return NotMine()

        def __setattr__(self, name, value):
            raise AttributeError(name)

    problem = guard(Slotted(), Authenticator, seconds=1, failure=Unavailable, named=False, name="slotted", waited=lambda *_: None)

    assert problem == "slotted: a deadline cannot be put around attempt; leave __slots__ and frozen out of its class"
