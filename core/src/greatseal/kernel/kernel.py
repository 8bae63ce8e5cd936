"""Assembly: from a configuration document to a kernel whose registries are frozen."""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

import structlog

from greatseal import __version__
from greatseal.api.declarations import Check, EventType, Job, Lifespan, Owns, PermissionName, Reads, Schema, Statistic, Welcome
from greatseal.api.http import AuthScheme, Discovery, Permission, Route
from greatseal.api.keys import Keys
from greatseal.api.languages import Catalogue
from greatseal.api.look import style_of
from greatseal.api.nodes import Peers
from greatseal.api.pages import Pages
from greatseal.api.problems import Problem, StartProblem
from greatseal.api.services import PAGES, PEERS, ServiceKey
from greatseal.api.store import OPERATION, Operation
from greatseal.audit import EVENTS, SCHEMA, counted
from greatseal.clock import SystemClock, look
from greatseal.db.config import DatabaseConfig
from greatseal.db.database import Store
from greatseal.handles import NodeHandles
from greatseal.host import Clock, NodeInfo
from greatseal.http.dispatch import Refusal, check_routes
from greatseal.http.sockets import is_private
from greatseal.http.start import StartPage
from greatseal.kernel import settings, soundness
from greatseal.kernel.blocking import BlockingPools
from greatseal.kernel.changes import ChangesHub
from greatseal.kernel.config import Binder, Bound, Document
from greatseal.kernel.discovery import merged
from greatseal.kernel.exposition import Exposition
from greatseal.kernel.folders import FALLBACK, state_folder
from greatseal.kernel.health import Health
from greatseal.kernel.hooks import NAMED, Hooks, kind_of
from greatseal.kernel.jobs import Jobs
from greatseal.kernel.languages import LanguagesImpl
from greatseal.kernel.limits import LimitsImpl
from greatseal.kernel.loading import Loaded, features_of, load
from greatseal.kernel.metrics import Metrics
from greatseal.kernel.overflow import EVERY, AuditBound
from greatseal.kernel.plugin_host import PluginHost
from greatseal.kernel.registry import POINTS, STATISTICS, Registry
from greatseal.kernel.report import PluginFailed, Report
from greatseal.kernel.scripts import ScriptRunner
from greatseal.kernel.services import start_order
from greatseal.kernel.strikes import StrikesImpl, forget_expired
from greatseal.kernel.urls import base_and_issuer
from greatseal.keys.blocked import BlockedKeysImpl
from greatseal.keys.envelopes import NodeSeals

CORE = (
    Owns("server", settings.Server),
    Owns("admin", settings.Admin),
    Owns("database", DatabaseConfig),
    Owns("plugins", settings.Plugins),
    Owns("cluster", settings.Cluster),
    Reads("webui", settings.Look),
)
"""The keys that the kernel owns."""


class Kernel:
    """One service: its plugins, settings, services, components and routes. Nothing runs and nothing is written yet.

    Raises StartProblem with every problem that was found. Who will not serve need not be able to read the files of the service.
    """

    def __init__(self, document: Document, *, clock: Clock | None = None, serving: bool = True) -> None:
        self._serving = serving
        self._report = Report(self.who)
        self.log: structlog.stdlib.BoundLogger = structlog.get_logger().bind(plugin="core")
        self.clock: Clock = clock or SystemClock()
        self.hooks = Hooks()
        self.plugins: dict[str, Loaded] = {}
        self.binder = Binder()
        self._load(document)
        self.bound: Bound = self.binder.bind(document)
        self._report.add(self.binder.problems)
        self._report.refused(self.binder.refused)
        self._read_core()
        self._tools()
        hosts = {name: PluginHost(self, name, plugin) for name, plugin in self.hooks.instances.items()}
        self.order = self._find_services(hosts)
        self.hosts = {name: hosts[name] for name in self.order}
        self.peers = self._meet()
        self.languages = self._find_languages()
        self._assemble()
        self._report.settle()

    def service(self, key: ServiceKey[Any]) -> object:
        """The service, made at its first use. Raises KeyError when nobody provides it."""
        if key not in self._made:
            self._made[key] = self._make(key)
        return self._made[key]

    def who(self, feature: str) -> str:
        """How messages name the plugin of a feature."""
        return self.plugins[feature].who if feature in self.plugins else f"plugin {feature!r}"

    def provides(self, key: ServiceKey[Any]) -> bool:
        """Whether an enabled plugin provides the service."""
        return key in self._factories

    @property
    def refusal(self) -> Refusal | None:
        """What says the problems of pages; None where no enabled plugin makes pages."""
        return cast("Pages", self.service(PAGES)).refusal if self.provides(PAGES) else None

    def discovery_members(self, document: str, ca_id: str | None = None) -> dict[str, object]:
        """The members of a discovery document, of that CA, merged, also inside of ``meta``; keys are joined.

        Raises StartProblem for two owners of one member, PluginFailed where one cannot say its members.
        """
        return merged([(feature, one) for feature, one in self.discovery if one.ca_id in {None, ca_id}], document, self.who)

    def admin(self) -> settings.Admin | None:
        """The settings of the admin listener, None without the section."""
        return cast("settings.Admin | None", self.bound.tables.get(settings.Admin))

    def this_node(self) -> NodeInfo:
        """What other nodes and administrators see of this one: its peers reach it under its base URL."""
        return NodeInfo(
            node_id=self.node_id,
            name=socket.gethostname(),
            address=self.base_url,
            status="alive",
            last_seen=self.clock.now(),
            is_self=True,
            version=__version__,
            started_at=self._started_at,
            kek_ids=(self.keys.cluster_key().key_id,) if self.keys is not None else (),
        )

    def who_brought(self, route: Route) -> str:
        """How messages name the plugin of a route."""
        return next((self.who(feature) for feature, one in self._owned if one is route), "core")

    def _make(self, key: ServiceKey[Any]) -> object:
        provider = self.who(self._providers[key.name])
        try:
            made = self._factories[key]()
        except (Problem, StartProblem, PluginFailed):
            raise
        except Exception as error:
            raise PluginFailed(f"{provider}: its service {key.name!r} cannot be made: {type(error).__name__}: {error}") from error
        if lacking := [name for name in key.members() if not (hasattr(type(made), name) or hasattr(made, name))]:
            kind = kind_of(made)
            raise PluginFailed(f"{provider}: its service {key.name!r} is {kind} without {', '.join(lacking)}; {key.keeps} has them")
        return made

    def _open_keys(self) -> Keys:
        if self.keys is None:
            raise RuntimeError("keys of the database can be used from the lifespans on, not while components are collected")
        return self.keys

    def _tools(self) -> None:
        self._started_at = self.clock.now()
        self.metrics = Metrics()
        writes = self.metrics.histogram("greatseal_write_seconds", "Write transactions, from the call to the commit.", ("outcome",))
        self.store = Store(writes.of)
        self.keys: Keys | None = None
        self.handles = NodeHandles(self.node_id, self.clock)
        self.changes = ChangesHub(self.store)
        self.blocked_keys = BlockedKeysImpl(self.store, self.changes)
        self.seals = NodeSeals(self.store, self._open_keys, self.handles, self.clock, self.node_id)
        self.strikes = StrikesImpl(self.clock, self.store, self.handles)
        self.limits = LimitsImpl(self.clock)
        self.blocking = BlockingPools()
        self.scripts = ScriptRunner()
        self.jobs = Jobs(self.log, self.metrics)
        self.registry = Registry(self.metrics, self.who)
        self._factories: dict[ServiceKey[Any], Any] = {}
        self._providers: dict[str, str] = {}
        self._made: dict[ServiceKey[Any], object] = {}
        self._unanswered: set[str] = set()

    def _read_core(self) -> None:
        """The kernel's own sections, with defaults where a value is wrong."""
        report, refused = self._report, self.binder.refused
        self.server = self._core(settings.Server)
        self.database = self._core(DatabaseConfig)
        self.cluster = self._core(settings.Cluster)
        self.base_url, self.issuer, misspelt = base_and_issuer(self.server)
        self.realm: str = self.server.realm or (urlsplit(self.base_url).hostname or "").upper()
        if self.base_url or {("server", "base_url"), ("server", "issuer")}.isdisjoint(refused):
            report.add(misspelt)  # else it is there, and the report says already what is wrong with it
        mislabelled = soundness.cluster_problems(self.cluster)
        report.add(mislabelled)
        self.node_id = settings.Cluster().node_id if mislabelled else self.cluster.node_id
        unreachable = soundness.database_problems(self.database)
        report.add(unreachable)
        self.listeners, wrong = soundness.listeners(self.server, self.admin(), refused, tls=self._serving, now=self.clock.now())
        report.add(wrong)
        self.state_dir = FALLBACK
        database = None if unreachable or ("database", "url") in refused or DatabaseConfig not in self.bound.tables else self.database
        if self.server.state_dir or (database and self.base_url):  # else nobody can tell which folder it is
            self.state_dir, homeless = state_folder(self.server, self.database.url, self.base_url)
            if self._serving:
                report.add_of_settings(homeless or soundness.file_problems(self.state_dir, database, self.cluster))

    def _load(self, document: Document) -> None:
        self.binder.declare("core", CORE)
        chosen = document.get("plugins", {})
        names = {key: _names(chosen.get(key) if isinstance(chosen, Mapping) else None) for key in ("enabled", "sets")}
        features, problems = features_of(names["enabled"], names["sets"])
        loaded, wrong = load(features)
        self._report.add([*problems, *wrong])
        self.binder.incomplete = bool(problems or wrong)
        for plugin in loaded:
            if problem := self.hooks.register(plugin):
                self._report.add([problem])
                self.binder.incomplete = True
                continue
            self.plugins[plugin.feature] = plugin
            try:
                self.binder.declare(plugin.feature, self.hooks.collect(plugin.feature, "settings"))
            except Exception as error:  # noqa: BLE001  # whatever a third party's hook raises must name its distribution
                self._report.add_failure(plugin.feature, "settings", error)
                self.binder.incomplete = True

    def _core(self, struct: type[Any]) -> Any:
        """The Struct of a core section; its defaults where the section itself had a problem that is already in the report."""
        return self.bound.tables.get(struct) or struct()

    def _find_services(self, hosts: Mapping[str, PluginHost]) -> list[str]:
        """Who provides what; returns the features in the order of the start."""
        provided = self._providers
        silent = False
        for feature, host in hosts.items():
            try:
                found = self.hooks.services(feature, host)
            except Exception as error:  # noqa: BLE001  # as above
                self._report.add_failure(feature, "services", error)
                silent = True
                continue
            for key, factory in found.items():
                first = provided.setdefault(key.name, feature)
                if first != feature:
                    self._report.add(
                        [f"the service {key.name!r} comes from plugin {first!r} and from plugin {feature!r}; disable one of them"]
                    )
                self._factories[key] = factory
        order, wrong = start_order(self.hooks.instances, provided)
        # Who provides what cannot be told while a plugin did not say.
        self._report.add([] if silent else wrong)
        return order

    def _find_languages(self) -> LanguagesImpl:
        """The languages of the core and the plugins; they are read when somebody wants them."""
        enabled = list(self.plugins)
        brought = sorted(self._collect("catalogues", with_host=False), key=lambda one: enabled.index(one[0]))
        return LanguagesImpl([Catalogue("greatseal"), *(one for _, one in brought)], self._core(settings.Look).languages)

    def _meet(self) -> Peers | None:
        """The way to other nodes, where a plugin brings one; from here on handles tell theirs."""
        if not self.provides(PEERS):
            return None
        try:
            peers = cast("Peers", self.service(PEERS))
            self.handles.know(peers.others)
        except Exception as error:  # noqa: BLE001  # as above
            self._report.add_failure(self._providers[PEERS.name], "services", error)
            return None
        return peers

    def _assemble(self) -> None:
        """Collect what the plugins bring. It goes on after a mistake: hooks that cannot answer then are passed over, and so is what only
        they could tell."""
        self.registry.add(STATISTICS, Statistic(name="audit_events", count=partial(self.store.read, counted)), "core")
        for point in POINTS:
            for feature, component in self._collect(point.hook):
                if problem := self.registry.add(point, component, feature):
                    self._report.add([problem])
            if point.hook in self._unanswered:
                self.registry.forget(point)
        for feature, component in self._collect("components"):
            if problem := self.registry.add_own(component, feature):
                self._report.add([problem])
        self._report.add(self._missing_components())
        self.schemas: list[Schema] = [SCHEMA, *(schema for _, schema in self._collect("schemas", with_host=False))]
        self.discovery: list[tuple[str, Discovery]] = self._collect("discovery")
        self.lifespans: list[tuple[str, Lifespan]] = self._collect("lifespans")
        sweep = Job(name="core-strikes", every=600, jitter=600, run=lambda: forget_expired(self.store, self.clock))
        watch = Job(name="core-clock", every=60, run=lambda: look(self.clock))
        bound = Job(name="core-audit", every=EVERY, run=AuditBound(self.store, self.admin(), self.log).look)
        self.all_jobs: list[Job] = [watch, sweep, bound, *(one for _, one in self._collect("jobs"))]
        self.operations = self._operations()
        self.welcomes: list[Welcome] = [one for _, one in self._collect("welcome")]
        self.health = Health([Check(name="database", run=self.store.healthy), *(one for _, one in self._collect("checks"))])
        owned = [(feature, route) for feature, route in self._collect("routes")]
        owned += [("core", route) for route in (*self.health.routes(), *self._start_page().routes())]
        if admin := self.admin():
            exposition = Exposition(self.metrics, private=is_private(admin.listen), token=admin.metrics_token)
            owned += [("core", route) for route in exposition.routes()]
        else:  # nobody could call those of its listener
            owned = [(feature, route) for feature, route in owned if route.listener != "admin"]
        self._owned = owned
        self.routes: list[Route] = [route for _, route in owned]
        self.permissions: list[PermissionName] = [one for _, one in self._collect("permissions", with_host=False)]
        self.audit_events: list[EventType] = [*EVENTS, *(one for _, one in self._collect("audit_events", with_host=False))]
        # Who guards a route cannot be told while a plugin did not say.
        if self._unanswered.isdisjoint({"auth_schemes", "permissions"}):
            schemes = self.registry.of(AuthScheme)
            owners = [feature for feature, _ in owned]
            self._report.add(check_routes(self.routes, owners, {one.rule: one for one in schemes.values()}))
            self._report.add(self._permission_problems(owned))
        self._report.add(self._discovery_problems())
        if self._serving:
            self._report.add_of_settings([problem for _, problem in self._collect("verify")])
            self._report.add_of_settings(self.languages.problems())
        self.notes: list[str] = [note for _, note in self._collect("notes")] if self._serving else []

    def _start_page(self) -> StartPage:
        webui = self._core(settings.Look)
        enabled = list(self.plugins)
        parts = [part for _, part in sorted(self._collect("start_page"), key=lambda one: enabled.index(one[0]))]
        return StartPage(
            parts,
            base_url=self.base_url,
            name=webui.display_name,
            theme=webui.default_theme,
            languages=self.languages,
            style=style_of(webui.accent_color),
        )

    def _operations(self) -> dict[str, Callable[..., Any]]:
        """What other nodes may ask the database of this one for, by name."""
        found: dict[str, Callable[..., Any]] = {}
        for feature, fn in [("core", self.strikes.taking), *self._collect("operations")]:
            mark: Operation | None = getattr(fn, OPERATION, None)
            if mark is None:
                self._report.add([f"plugin {feature!r}: hook operations returned {fn!r}, which is not marked with operation(...)"])
            elif mark.name in found:
                self._report.add([f"the operation {mark.name!r} is there twice, the second time from plugin {feature!r}; rename one"])
            else:
                found[mark.name] = fn
        return found

    def _missing_components(self) -> list[str]:
        """What plugins expect of others and nobody brings; nothing while a plugin did not say what it brings."""
        if self._unanswered:
            return []
        return [
            f"plugin {feature!r} has no {contract.__name__} to work with; {cure}"
            for feature, plugin in self.hooks.instances.items()
            for contract, cure in getattr(plugin, "expects", {}).items()
            if not self.registry.of(contract)
        ]

    def _permission_problems(self, owned: list[tuple[str, Route]]) -> list[str]:
        declared = {one.name for one in self.permissions}
        return [
            f"plugin {feature!r}: route {route.method} {route.path} asks for the permission {route.auth.name!r}, which no plugin declares"
            for feature, route in owned
            if isinstance(route.auth, Permission) and route.auth.name not in declared
        ]

    def _discovery_problems(self) -> list[str]:
        problems: list[str] = []
        for document, ca_id in sorted({(one.document, one.ca_id or "") for _, one in self.discovery}):
            # Members that need what the lifespans open are looked at again after them.
            with suppress(Exception):
                try:
                    self.discovery_members(document, ca_id or None)
                except StartProblem as problem:
                    problems += problem.messages
        return problems

    def _collect(self, hook: str, *, with_host: bool = True) -> list[tuple[str, Any]]:
        """What every plugin returns, in the start order, with the feature."""
        found: list[tuple[str, Any]] = []
        for feature, host in self.hosts.items():
            try:
                items = self.hooks.collect(feature, hook, **({"host": host} if with_host else {}))
            except Exception as error:  # noqa: BLE001  # as above
                self._report.add_failure(feature, hook, error)
                self._unanswered.add(hook)
                continue
            found += [(feature, item) for item in items]
        if name := NAMED.get(hook):
            self._report.add(_twice(hook, [(feature, getattr(item, name)) for feature, item in found]))
        return found


def _twice(hook: str, named: Sequence[tuple[str, str]]) -> Iterator[str]:
    first: dict[str, str] = {}
    for feature, name in named:
        if name in first:
            yield f"{hook}: {name!r} comes from plugin {first[name]!r} and from plugin {feature!r}; disable one of them"
        first.setdefault(name, feature)


def _names(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []
