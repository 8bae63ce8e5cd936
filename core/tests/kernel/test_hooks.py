"""Every hook does what its specification promises: a plugin implements it, and the running service shows the effect."""

import asyncio
import sqlite3
import sys
import textwrap

import aiohttp
import pytest

from greatseal.api.acme import AccountBinding, ChallengeValidator
from greatseal.api.authorization import Extension
from greatseal.api.clients import ClientAuthMethod, ClientResolver
from greatseal.api.declarations import ScopeDefinition, Statistic
from greatseal.api.directory import Directory
from greatseal.api.http import AuthScheme, ClientTrust
from greatseal.api.identity import Authenticator, LoginOptions, PasswordChanger
from greatseal.api.issuance import FinalizeCheck, IdentifierType, IssuanceObserver, Issuer, SanInjector
from greatseal.api.keys import KeyStore
from greatseal.api.log import LogBackend
from greatseal.api.problems import StartProblem, Unavailable
from greatseal.api.tokens import ClaimsProvider, Grant, GrantCheck, TokenBinding
from greatseal.api.workload import Selector
from greatseal.kernel.kernel import Kernel
from greatseal.kernel.running import opened
from greatseal.testing.distributions import install
from greatseal.testing.service import document

PRELUDE = """
import asyncio, contextlib
import click, msgspec
from sqlalchemy import Column, MetaData
from greatseal import hookimpl
from greatseal.api.acme import *
from greatseal.api.authorization import *
from greatseal.api.clients import *
from greatseal.api.declarations import *
from greatseal.api.directory import *
from greatseal.api.identity import *
from greatseal.api.http import *
from greatseal.api.issuance import *
from greatseal.api.keys import KeyStore
from greatseal.api.log import LogBackend
from greatseal.api.pages import *
from greatseal.api.problems import Forbidden
from greatseal.api.services import ServiceKey
from greatseal.api.tokens import *
from greatseal.api.workload import Selector

async def answer(call):
    return Reply.json({"caller": getattr(call.caller, "subject", None)})

class Plugin:
"""
BASE = {"server": {"base_url": "http://localhost:8080"}}


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture
def plugin(site):
    """Installs a plugin whose class body is given, and returns its feature id."""

    def make(body, name="greatseal-sample"):
        indented = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
        return install(site, name, PRELUDE + indented)

    return make


def kernel_with(*features, **sections):
    return Kernel({**BASE, **sections, "plugins": {"enabled": list(features)}})


COMPONENTS = {
    "scopes": (ScopeDefinition, "sample", "return [ScopeDefinition('sample', 'A sample.')]"),
    "statistics": (Statistic, "sample", "return [Statistic(name='sample', count=lambda: None)]"),
    "client_trust": (ClientTrust, "sample", "return [ClientTrust(name='sample', roots=lambda: [])]"),
    "authenticators": (
        Authenticator,
        "sample",
        """
        class Sample(Authenticator[Password]):
            name, credential = "sample", Password
            async def attempt(self, credential, context): return NotMine()
        return [Sample()]
        """,
    ),
    "login_options": (
        LoginOptions,
        "sample",
        """
        class Sample(LoginOptions):
            name = "sample"
            async def options(self, context): return []
        return [Sample()]
        """,
    ),
    "password_changers": (
        PasswordChanger,
        "sample",
        """
        class Sample(PasswordChanger):
            name = "sample"
            async def change(self, username, old, new, context): return ChangeRefused(messages=("no",))
        return [Sample()]
        """,
    ),
    "directories": (
        Directory,
        "sample",
        """
        class Sample(Directory):
            name, tier, realm = "sample", Tier.STATIC, "SAMPLE"
            async def user(self, username): return None
            async def group(self, name): return None
        return [Sample()]
        """,
    ),
    "claims": (
        ClaimsProvider,
        "sample",
        """
        class Sample(ClaimsProvider):
            name, claims = "sample", frozenset({"colour"})
            async def of(self, subject, wanted): return {}
        return [Sample()]
        """,
    ),
    "client_auth_methods": (
        ClientAuthMethod,
        "sample",
        """
        class Sample(ClientAuthMethod[Password]):
            method = "sample"
            def credentials(self, request): return None
            def client_id(self, credentials): return None
            async def verify(self, credentials, client): ...
        return [Sample()]
        """,
    ),
    "token_bindings": (
        TokenBinding,
        "sample",
        """
        class Sample(TokenBinding):
            confirmation = "sample"
            async def prove(self, request): return None
            async def check(self, call, text, token, value): return ()
        return [Sample()]
        """,
    ),
    "extensions": (
        Extension,
        "sample",
        """
        class Sample(Extension[Password]):
            name = "sample"
        return [Sample()]
        """,
    ),
    "client_resolvers": (
        ClientResolver,
        "sample",
        """
        class Sample(ClientResolver):
            name = "sample"
            async def resolve(self, client_id): return None
        return [Sample()]
        """,
    ),
    "grants": (
        Grant,
        "urn:sample",
        """
        class Sample(Grant[Password]):
            grant_type = "urn:sample"
            async def prepare(self, request): ...
        return [Sample()]
        """,
    ),
    "grant_checks": (
        GrantCheck,
        "sample",
        """
        class Sample(GrantCheck):
            name = "sample"
            async def check(self, question): return question.scopes
        return [Sample()]
        """,
    ),
    "key_stores": (
        KeyStore,
        "store",
        """
        class Store(KeyStore):
            name = "store"
            async def make(self, purpose, algorithm): ...
            async def load(self, kid): ...
            async def find(self, words, *, purpose): ...
            async def destroy(self, kid): ...
        return [Store()]
        """,
    ),
    "auth_schemes": (
        AuthScheme,
        "Session",
        """
        class Scheme(AuthScheme):
            rule = Session
            async def authenticate(self, call): return Caller(subject="somebody")
        return [Scheme()]
        """,
    ),
    "identifier_types": (
        IdentifierType,
        "sample",
        """
        class Sample(IdentifierType):
            type = "sample"
            def canonical(self, value): return value
            def general_name(self, value): ...
            def of(self, name): return None
        return [Sample()]
        """,
    ),
    "challenge_validators": (
        ChallengeValidator,
        "sample-01",
        """
        class Validator(ChallengeValidator):
            type = "sample-01"
            identifier_types = frozenset({"dns"})
            async def validate(self, attempt): return VALID
        return [Validator()]
        """,
    ),
    "account_bindings": (
        AccountBinding,
        "sampleBinding",
        """
        class Bind(AccountBinding):
            member = "sampleBinding"
            def bind(self, tx, request): return Binding(echo=None)
        return [Bind()]
        """,
    ),
    "finalize_checks": (
        FinalizeCheck,
        "sample",
        """
        class Sample(FinalizeCheck):
            name, phase = "sample", "policy"
            async def check(self, finalization): pass
        return [Sample()]
        """,
    ),
    "san_injectors": (
        SanInjector,
        "sample",
        """
        class Sample(SanInjector):
            name = "sample"
            def names(self, issuance): return []
        return [Sample()]
        """,
    ),
    "issuers": (
        Issuer,
        "sample",
        """
        class Sample(Issuer):
            issue_as = "sample"
            def bounds(self, ca_id): ...
            def frame(self, request): ...
            async def issue(self, prepared): ...
            async def settle(self, prepared): ...
        return [Sample()]
        """,
    ),
    "selectors": (
        Selector,
        "Sample",
        """
        class Sample(Selector[str]):
            type = "Sample"
            def parse(self, value): return str(value)
            async def facts(self, workload, wanted): return frozenset()
        return [Sample()]
        """,
    ),
    "log_backends": (
        LogBackend,
        "sample",
        """
        class Sample(LogBackend):
            name = "sample"
            def hold(self, log): ...
            def reader(self, log): ...
        return [Sample()]
        """,
    ),
    "issuance_observers": (
        IssuanceObserver,
        "Sample",
        """
        class Sample(IssuanceObserver):
            def issued(self, tx, certificate): pass
        return [Sample()]
        """,
    ),
}


def implementation(hook):
    parameters = "self" if hook == "scopes" else "self, host"
    return f"@hookimpl\ndef {hook}({parameters}):\n" + textwrap.indent(textwrap.dedent(COMPONENTS[hook][2]), "    ")


@pytest.mark.parametrize("hook", sorted(COMPONENTS))
def test_a_component_is_kept_under_its_key(plugin, hook):
    contract, key, _ = COMPONENTS[hook]

    kernel = kernel_with(plugin(implementation(hook)))

    assert list(kernel.registry.of(contract))[-1:] == [key]  # the kernel counts its events first
    assert isinstance(kernel.registry.of(contract)[key], contract)
    with pytest.raises(TypeError):
        kernel.registry.of(contract)["another"] = None


@pytest.mark.parametrize("hook", sorted(COMPONENTS))
def test_two_components_under_one_key_stop_the_start_and_name_both(plugin, hook):
    one, two = plugin(implementation(hook), "greatseal-one"), plugin(implementation(hook), "greatseal-two")

    with pytest.raises(StartProblem) as caught:
        kernel_with(one, two)

    assert any(hook in message and "'one'" in message and "'two'" in message for message in caught.value.messages)


@pytest.mark.parametrize("hook", sorted(COMPONENTS))
def test_a_component_of_another_class_stops_the_start(plugin, hook):
    feature = plugin(f"@hookimpl\ndef {hook}(self):\n    return [object()]")

    with pytest.raises(StartProblem, match=COMPONENTS[hook][0].__name__):
        kernel_with(feature)


def test_an_exception_in_a_hook_names_the_plugin(plugin):
    feature = plugin("@hookimpl\ndef routes(self, host):\n    raise LookupError('no luck')")

    with pytest.raises(StartProblem, match="plugin 'sample': hook routes failed: LookupError: no luck"):
        kernel_with(feature)


def test_settings_services_and_verify(plugin):
    provider = plugin(
        """
@hookimpl
def services(self, host):
    return {ServiceKey("colour"): lambda: "red"}
""",
        "greatseal-provider",
    )
    user = plugin(
        """
requires = (ServiceKey("colour"),)
uses = (ServiceKey("shape"),)
class Settings(msgspec.Struct, frozen=True, kw_only=True):
    wanted: str = "red"
@hookimpl
def settings(self):
    return [Owns("sample", self.Settings)]
@hookimpl
def verify(self, host):
    assert host.optional_service(ServiceKey("shape")) is None
    found, wanted = host.service(ServiceKey("colour")), host.settings(self.Settings).wanted
    return [] if found == wanted else [f"[sample] wanted: {wanted!r}; there is {found!r}"]
""",
        "greatseal-user",
    )

    assert kernel_with(user, provider).order == ["provider", "user"]
    with pytest.raises(StartProblem, match=r"\[sample\] wanted: 'blue'; there is 'red'"):
        kernel_with(user, provider, sample={"wanted": "blue"})


def test_a_route_may_ask_only_for_declared_permissions(plugin):
    body = """
@hookimpl
def auth_schemes(self, host):
    class Scheme(AuthScheme):
        rule = Permission
        async def authenticate(self, call): return Caller(subject="somebody")
    return [Scheme()]
@hookimpl
def routes(self, host):
    return [Route("GET", "/sample", answer, auth=Permission("samples:read"))]
"""
    declared = "@hookimpl\ndef permissions(self):\n    return [PermissionName('samples:read', 'Read samples.')]\n"

    with pytest.raises(StartProblem, match="samples:read"):
        kernel_with(plugin(body, "greatseal-bare"))
    kernel = kernel_with(plugin(body + declared, "greatseal-full"))
    assert "permissions" in kernel.hooks.implemented("full")
    assert [one.name for one in kernel.hosts["full"].permissions()] == ["samples:read"]


def test_audit_events_are_listed(plugin):
    feature = plugin("@hookimpl\ndef audit_events(self):\n    return [EventType('sample.made', 'ca', 'A sample was made.')]")

    kernel = kernel_with(feature)

    assert "audit_events" in kernel.hooks.implemented(feature)
    *_, event = kernel.hosts[feature].audit_events()
    assert (event.name, event.service) == ("sample.made", "ca")


def test_commands_stand_beside_those_of_the_kernel(plugin):
    from click.testing import CliRunner

    from greatseal.cli import main

    body = """
@hookimpl
def commands(self):
    return [click.Command("sample", callback=lambda: click.echo("done"))]
"""
    plugin(body)

    result = CliRunner().invoke(main, ["sample"])

    assert (result.exit_code, result.stdout) == (0, "done\n")
    assert "sample" in CliRunner().invoke(main, ["--help"]).output


def test_a_hook_that_nothing_reads_yet_is_shown_as_planned(plugin, tmp_path):
    from click.testing import CliRunner

    from greatseal.cli import main

    path = tmp_path / "greatseal.toml"
    feature = plugin(implementation("selectors") + implementation("directories"))
    path.write_text(f'[server]\nbase_url = "http://localhost:8080"\n[plugins]\nenabled = ["{feature}"]\n')

    shown = CliRunner().invoke(main, ["plugins", "-c", str(path)]).stdout

    assert shown.startswith("sample               greatseal-sample 1.0: directories, selectors (planned)\n")


def test_discovery_members_are_merged_and_never_doubled(plugin):
    body = "@hookimpl\ndef discovery(self, host):\n    return [Discovery('acme', lambda: {'%s': 1})]"
    one, two, again = plugin(body % "x", "greatseal-one"), plugin(body % "y", "greatseal-two"), plugin(body % "x", "greatseal-again")

    kernel = kernel_with(one, two)
    assert kernel.discovery_members("acme") == {"x": 1, "y": 1}
    assert kernel.hooks.implemented(one) == ["discovery"]
    with pytest.raises(StartProblem, match="'x'"):
        kernel_with(one, again).discovery_members("acme")


def test_discovery_members_may_be_those_of_one_ca(plugin):
    body = "@hookimpl\ndef discovery(self, host):\n    return [Discovery('acme', lambda: {'%s': '%s'}, ca_id=%r)]"
    parts = [("x", "all", None), ("y", "first", "one"), ("y", "second", "two"), ("x", "again", "two")]
    names = [plugin(body % part, f"greatseal-part{at}") for at, part in enumerate(parts)]

    kernel = kernel_with(*names[:3])
    assert kernel.discovery_members("acme") == {"x": "all"}
    assert kernel.discovery_members("acme", "two") == {"x": "all", "y": "second"}
    with pytest.raises(StartProblem, match="'x'"):
        kernel_with(*names).discovery_members("acme", "two")


async def test_lifespans_open_in_the_order_of_requires_and_close_in_reverse(plugin, tmp_path):
    body = """
{head}
@hookimpl
def services(self, host):
    return {{ServiceKey("{name}"): object}}
@hookimpl
def lifespans(self, host):
    @contextlib.asynccontextmanager
    async def life():
        with open(r"{path}", "a") as log: log.write("+{name}")
        yield
        with open(r"{path}", "a") as log: log.write("-{name}")
    return [Lifespan(name="{name}", open=life)]
"""
    log = tmp_path / "log"
    first = plugin(body.format(name="b", path=log, head=""), "greatseal-b")
    second = plugin(body.format(name="a", path=log, head='requires = (ServiceKey("b"),)'), "greatseal-a")

    from greatseal.testing.service import document, serve

    async with serve(document(tmp_path, [second, first])):
        assert log.read_text() == "+b+a"
    assert log.read_text() == "+b+a-a-b"


async def test_jobs_run_again_and_a_failure_does_not_end_them(plugin, start_service):
    feature = plugin(
        """
def __init__(self):
    self.runs = 0
    self.thrice = asyncio.Event()
async def work(self):
    self.runs += 1
    if self.runs == 3:
        self.thrice.set()
    raise RuntimeError("a job that fails")
@hookimpl
def jobs(self, host):
    return [Job(name="sample", every=0.001, run=self.work)]
"""
    )

    service = await start_service(feature)

    await asyncio.wait_for(service.kernel.hooks.instances[feature].thrice.wait(), 10)


async def test_schemas_are_migrated_before_anything_runs(plugin, start_service, site, tmp_path):
    migrations = site / "sample_migrations" / "versions"
    migrations.mkdir(parents=True)
    (migrations.parent / "__init__.py").write_text("")
    (migrations / "first.py").write_text(
        "from alembic import op\nimport sqlalchemy as sa\nrevision = 'first'\ndown_revision = None\n"
        "branch_labels = None\ndepends_on = None\n"
        "def upgrade():\n    op.create_table('sample_thing', sa.Column('id', sa.Text, primary_key=True))\n"
    )
    feature = plugin("@hookimpl\ndef schemas(self):\n    return [Schema('sample', MetaData(), 'sample_migrations', 'first')]")

    service = await start_service(feature)

    assert service.kernel.hooks.implemented(feature) == ["schemas"]
    path = service.kernel.database.url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as store:
        assert store.execute("SELECT count(*) FROM sample_thing").fetchone() == (0,)
    store.close()


async def test_checks_and_welcome(plugin, start_service):
    feature = plugin(
        """
@hookimpl
def checks(self, host):
    async def fine(): return CheckResult(ok=True, detail="fine")
    async def broken(): return CheckResult(ok=False, detail="mend it")
    async def fails(): raise OSError("secret detail")
    seen = [Check(name="fine", run=fine), Check(name="broken", run=broken), Check(name="fails", run=fails)]
    return [*seen, Check(name="doctor", run=fails, ready=False)]
@hookimpl
def welcome(self, host):
    return [Welcome(title="Next", lines=lambda: ["go on"])]
"""
    )

    service = await start_service(feature)
    async with aiohttp.ClientSession() as client, client.get(f"{service.url}/readyz") as answer:
        body = await answer.json()

    assert answer.status == 503
    assert body["checks"]["fine"] == {"ok": True, "detail": "fine"}
    assert body["checks"]["broken"] == {"ok": False, "detail": "mend it"}
    assert body["checks"]["fails"] == {"ok": False, "detail": "OSError: the check itself failed"}
    assert "doctor" not in body["checks"]
    assert [list(one.lines()) for one in service.kernel.welcomes] == [["go on"]]


async def test_the_start_page_has_the_parts_of_every_plugin(plugin, start_service):
    feature = plugin(
        """
@hookimpl
def start_page(self, host):
    return [StartPart(title="Here", lines=lambda: [StartLine(words="go on", link="/on")])]
"""
    )
    service = await start_service(feature)

    async with aiohttp.ClientSession() as http, http.get(f"{service.url}/") as answer:
        assert '<h2>Here</h2>\n<p><a href="/on">go on</a></p>' in await answer.text()


async def test_routes_are_guarded_by_their_scheme(plugin, start_service):
    feature = plugin(
        """
@hookimpl
def auth_schemes(self, host):
    class Scheme(AuthScheme):
        rule = Session
        async def authenticate(self, call):
            if "X-Name" not in call.headers:
                raise Forbidden("no name")
            return Caller(subject=call.headers["X-Name"])
        def finish(self, call, reply):
            return reply.with_headers(("X-Seen", "yes"))
    return [Scheme()]
@hookimpl
def routes(self, host):
    return [Route("GET", "/sample", answer, auth=Session())]
"""
    )

    service = await start_service(feature)
    async with aiohttp.ClientSession() as client:
        async with client.get(f"{service.url}/sample", headers={"X-Name": "ann"}) as good:
            assert (good.status, await good.json()) == (200, {"caller": "ann"})
        async with client.get(f"{service.url}/sample") as bad:
            assert (bad.status, bad.headers["X-Seen"]) == (403, "yes")
            assert (await bad.json())["error"] == "forbidden"


async def test_beside_the_service_only_what_is_for_a_worker_is_opened(plugin, tmp_path):
    feature = plugin(
        """
opened = []
@hookimpl
def lifespans(self, host):
    def of(placement):
        @contextlib.asynccontextmanager
        async def open():
            self.opened.append(placement.value)
            yield
        return Lifespan(name=placement.value, open=open, placement=placement)
    return [of(placement) for placement in Placement]
"""
    )
    kernel = Kernel(document(tmp_path, [feature]))
    told = kernel.hooks.instances[feature].opened

    async with opened(kernel):
        assert told == ["worker", "node", "cluster"]
    beside = Kernel(document(tmp_path, [feature]))
    beside.hooks.instances[feature].opened = told = []
    async with opened(beside, beside=True):
        assert told == ["worker"]


FAMILY = """
from greatseal.api.components import Component

class Colour(Component):
    most = 2

    async def shade(self): ...
"""
PAINT = """
@hookimpl
def components(self, host):
    from sample_family import Colour
    class Paint(Colour):
        name = {name!r}
        async def shade(self): await asyncio.Event().wait()
        deadline = 0.01
    return [Paint()]
"""


@pytest.fixture
def family(site):
    (site / "sample_family.py").write_text(FAMILY)
    import sample_family

    yield sample_family.Colour
    del sys.modules["sample_family"]


async def test_a_family_of_plugins_brings_its_own_extension_point(plugin, family):
    red, blue = plugin(PAINT.format(name="red"), "greatseal-red"), plugin(PAINT.format(name="blue"), "greatseal-blue")

    kernel = kernel_with(red, blue)
    found = kernel.hosts[red].components(family)

    assert list(found) == ["red", "blue"]
    with pytest.raises(Unavailable) as late:
        await found["red"].shade()
    assert late.value.cause == "plugin 'red': components 'Colour red': shade: no answer in 0.01 s"
    assert dict(kernel_with().registry.of(family)) == {}


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (("red", "red"), "components: 'Colour red' comes from plugin 'one' and from plugin 'two'; disable one of them"),
        (
            ("red", "blue", "green"),
            "components: of Colour there may be 2, they come from plugins 'one' and 'two' and 'three'; disable one",
        ),
    ],
)
def test_how_many_components_there_may_be_is_said_by_their_contract(plugin, family, names, problem):
    features = [plugin(PAINT.format(name=name), f"greatseal-{who}") for name, who in zip(names, ("one", "two", "three"), strict=False)]

    with pytest.raises(StartProblem) as refused:
        kernel_with(*features)
    assert refused.value.messages == (problem,)


def test_what_is_no_component_stops_the_start(plugin):
    with pytest.raises(StartProblem, match="hook components returned object, which is no Component"):
        kernel_with(plugin("@hookimpl\ndef components(self, host):\n    return [object()]"))


def test_a_plugin_that_expects_a_component_is_not_started_without_one(plugin):
    feature = plugin("expects = {Directory: 'enable users-file'}")

    with pytest.raises(StartProblem, match="plugin 'sample' has no Directory to work with; enable users-file"):
        kernel_with(feature)
