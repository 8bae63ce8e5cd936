"""Assembly: from a configuration document to a kernel whose registries are frozen."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from greatseal import __version__
from greatseal.api.declarations import Check, Job, Lifespan, Owns, PermissionName, Schema, Welcome
from greatseal.api.http import AuthScheme, Discovery, ListenerName, Permission, Route
from greatseal.api.keys import Keys
from greatseal.api.problems import StartProblem
from greatseal.api.services import ServiceKey
from greatseal.audit import SCHEMA
from greatseal.clock import SystemClock, look
from greatseal.db.config import DatabaseConfig, check_url
from greatseal.handles import NodeHandles
from greatseal.host import Clock, NodeInfo
from greatseal.http.connection import TrustedProxies
from greatseal.http.dispatch import check_routes
from greatseal.http.sockets import ListenerConfig, check_address
from greatseal.http.tls import tls_context
from greatseal.kernel import settings
from greatseal.kernel.blocking import BlockingPools
from greatseal.kernel.changes import ChangesHub
from greatseal.kernel.config import Binder, Bound, Document
from greatseal.kernel.health import Health
from greatseal.kernel.hooks import Hooks
from greatseal.kernel.jobs import Jobs
from greatseal.kernel.limits import LimitsImpl
from greatseal.kernel.loading import Loaded, features_of, load
from greatseal.kernel.plugin_host import PluginHost, Store
from greatseal.kernel.registry import POINTS, Registry
from greatseal.kernel.scripts import ScriptRunner
from greatseal.kernel.services import start_order
from greatseal.kernel.strikes import StrikesImpl, forget_expired
from greatseal.kernel.urls import base_and_issuer, state_folder

CORE = (
    Owns("server", settings.Server),
    Owns("admin", settings.Admin),
    Owns("database", DatabaseConfig),
    Owns("plugins", settings.Plugins),
    Owns("cluster", settings.Cluster),
)
"""The keys that the kernel owns."""


class Kernel:
    """One service: its plugins, settings, services, components and routes. Nothing runs and nothing is written yet.

    Raises StartProblem with every problem that was found. Who will not serve need not be able to read the TLS files.
    """

    def __init__(self, document: Document, *, clock: Clock | None = None, serving: bool = True) -> None:
        self._serving = serving
        self.log: structlog.stdlib.BoundLogger = structlog.get_logger().bind(plugin="core")
        self.clock: Clock = clock or SystemClock()
        self.hooks = Hooks()
        self.plugins: dict[str, Loaded] = {}
        self.binder = Binder()
        problems = self._load(document)
        self.bound: Bound = self.binder.bind(document)
        problems += self.binder.problems
        self.server = self._core(settings.Server)
        self.database = self._core(DatabaseConfig)
        self.cluster = self._core(settings.Cluster)
        self.base_url, self.issuer, wrong = base_and_issuer(self.server)
        if not self.base_url and not {("server", "base_url"), ("server", "issuer")}.isdisjoint(self.binder.refused):
            wrong = []  # it is there, and the report says already what is wrong with it
        mislabelled = _cluster_problems(self.cluster)
        problems += [*wrong, *mislabelled, *self._database_problems(), *self._listener_problems()]
        self.node_id = settings.Cluster().node_id if mislabelled else self.cluster.node_id
        self.state_dir: Path = state_folder(self.database.url)
        self._tools()
        hosts = {name: PluginHost(self, name, plugin) for name, plugin in self.hooks.instances.items()}
        problems += self._find_services(hosts, sound=not problems)
        if problems:
            raise StartProblem(*problems)
        self.hosts = {name: hosts[name] for name in self.order}
        problems = self._assemble()
        if problems:
            raise StartProblem(*problems)

    def service(self, key: ServiceKey[Any]) -> object:
        """The service, made at its first use. Raises KeyError when nobody provides it."""
        if key not in self._made:
            self._made[key] = self._factories[key]()
        return self._made[key]

    def provides(self, key: ServiceKey[Any]) -> bool:
        """Whether an enabled plugin provides the service."""
        return key in self._factories

    def discovery_members(self, document: str) -> dict[str, object]:
        """The members of a discovery document, merged. Raises StartProblem for two owners of one member."""
        merged: dict[str, object] = {}
        for one in self.discovery:
            if one.document == document:
                members = one.members()
                if double := merged.keys() & members.keys():
                    raise StartProblem(f"the {document} document's member {min(double)!r} comes from two plugins; disable one of them")
                merged |= members
        return merged

    def admin(self) -> settings.Admin | None:
        """The settings of the admin listener, None without the section."""
        found = self.bound.tables.get(settings.Admin)
        return found if isinstance(found, settings.Admin) else None

    def this_node(self) -> NodeInfo:
        """What other nodes and administrators see of this one: its peers reach it under its base URL."""
        return NodeInfo(
            node_id=self.node_id,
            address=self.base_url,
            status="alive",
            last_seen=self.clock.now(),
            is_self=True,
            version=__version__,
            started_at=self._started_at,
        )

    def _tools(self) -> None:
        self._started_at = self.clock.now()
        self.store = Store()
        self.keys: Keys | None = None
        self.handles = NodeHandles(self.node_id, self.clock)
        self.changes = ChangesHub(self.store)
        self.strikes = StrikesImpl(self.clock)
        self.limits = LimitsImpl(self.clock)
        self.blocking = BlockingPools()
        self.scripts = ScriptRunner()
        self.jobs = Jobs(self.log)
        self.registry = Registry()
        self._factories: dict[ServiceKey[Any], Any] = {}
        self._made: dict[ServiceKey[Any], object] = {}

    def _database_problems(self) -> list[str]:
        try:
            check_url(self.database.url)
        except StartProblem as problem:
            return list(problem.messages)
        return []

    def _listener_problems(self) -> list[str]:
        """What is wrong with addresses, TLS files and proxies, so that check-config knows it too."""
        self.listeners: list[ListenerConfig] = []
        problems: list[str] = []
        sections: list[tuple[ListenerName, str, settings.Server | settings.Admin]] = [("main", "server", self.server)]
        if admin := self.admin():
            sections.append(("admin", "admin", admin))
            if admin.listen == self.server.listen and not admin.listen.endswith(":0"):
                problems.append(f"[admin] listen: {admin.listen!r} is the address of [server] listen; choose another")
        for name, section, chosen in sections:
            try:
                check_address(ListenerConfig(name, chosen.listen))
            except StartProblem as problem:
                problems += problem.messages
            try:
                self.listeners.append(ListenerConfig(name, chosen.listen, self._tls(section, chosen)))
            except StartProblem as problem:
                problems += [f"[{section}] {message}" for message in problem.messages]
        try:
            TrustedProxies(self.server.trusted_proxies)
        except ValueError as error:
            problems.append(f"[server] trusted_proxies: {error}; expected networks such as 10.0.0.0/8, or unix")
        return problems

    def _tls(self, section: str, chosen: settings.Server | settings.Admin) -> ssl.SSLContext | None:
        cert, key = chosen.tls_cert_file, chosen.tls_key_file
        if not {(section, "tls_cert_file"), (section, "tls_key_file")}.isdisjoint(self.binder.refused):
            return None
        if (cert is None) != (key is None):
            raise StartProblem("tls_cert_file and tls_key_file: give both or none")
        return tls_context(cert, key) if cert and key and self._serving else None

    def _load(self, document: Document) -> list[str]:
        self.binder.declare("core", CORE)
        chosen = document.get("plugins", {})
        names = {key: _names(chosen.get(key) if isinstance(chosen, Mapping) else None) for key in ("enabled", "sets")}
        features, problems = features_of(names["enabled"], names["sets"])
        loaded, wrong = load(features)
        problems += wrong
        for plugin in loaded:
            if problem := self.hooks.register(plugin):
                problems.append(problem)
                continue
            self.plugins[plugin.feature] = plugin
            self.binder.declare(plugin.feature, self.hooks.collect(plugin.feature, "settings"))
        return problems

    def _core(self, struct: type[Any]) -> Any:
        """The Struct of a core section; its defaults where the section itself had a problem that is already in the report."""
        return self.bound.tables.get(struct) or struct()

    def _find_services(self, hosts: Mapping[str, PluginHost], *, sound: bool) -> list[str]:
        problems: list[str] = []
        provided: dict[str, str] = {}
        silent = False
        for feature, host in hosts.items():
            try:
                found = self.hooks.services(feature, host)
            except Exception as error:
                if sound:
                    raise StartProblem(_failed(feature, "services", error)) from error
                silent = True
                continue
            for key, factory in found.items():
                first = provided.setdefault(key.name, feature)
                if first != feature:
                    problems.append(
                        f"the service {key.name!r} comes from plugin {first!r} and from plugin {feature!r}; disable one of them"
                    )
                self._factories[key] = factory
        self.order, wrong = start_order(self.hooks.instances, provided)
        # Who provides what cannot be told while a plugin did not say.
        return problems if silent else problems + wrong

    def _assemble(self) -> list[str]:
        problems: list[str] = []
        for point in POINTS:
            for feature, component in self._collect(point.hook):
                if problem := self.registry.add(point, component, feature):
                    problems.append(problem)
        self.schemas: list[Schema] = [SCHEMA, *(schema for _, schema in self._collect("schemas", with_host=False))]
        self.discovery: list[Discovery] = [one for _, one in self._collect("discovery")]
        self.lifespans: list[Lifespan] = [one for _, one in self._collect("lifespans")]
        sweep = Job(name="core-strikes", every=600, jitter=600, run=lambda: forget_expired(self.store, self.clock))
        watch = Job(name="core-clock", every=60, run=lambda: look(self.clock))
        self.all_jobs: list[Job] = [watch, sweep, *(one for _, one in self._collect("jobs"))]
        self.welcomes: list[Welcome] = [one for _, one in self._collect("welcome")]
        self.health = Health([Check(name="database", run=self.store.healthy), *(one for _, one in self._collect("checks"))])
        owned = [(feature, route) for feature, route in self._collect("routes")]
        owned += [("core", route) for route in self.health.routes()]
        self.routes: list[Route] = [route for _, route in owned]
        schemes = self.registry.of(AuthScheme)
        self.permissions: list[PermissionName] = [one for _, one in self._collect("permissions", with_host=False)]
        problems += check_routes(self.routes, [feature for feature, _ in owned], {one.rule: one for one in schemes.values()})
        problems += self._permission_problems(owned)
        problems += [problem for _, problem in self._collect("verify")]
        return problems

    def _permission_problems(self, owned: list[tuple[str, Route]]) -> list[str]:
        declared = {one.name for one in self.permissions}
        return [
            f"plugin {feature!r}: route {route.method} {route.path} asks for the permission {route.auth.name!r}, which no plugin declares"
            for feature, route in owned
            if isinstance(route.auth, Permission) and route.auth.name not in declared
        ]

    def _collect(self, hook: str, *, with_host: bool = True) -> list[tuple[str, Any]]:
        """What every plugin returns, in the start order, with the feature. An exception names the plugin."""
        found: list[tuple[str, Any]] = []
        for feature, host in self.hosts.items():
            try:
                items = self.hooks.collect(feature, hook, **({"host": host} if with_host else {}))
            except StartProblem:
                raise
            except Exception as error:
                raise StartProblem(_failed(feature, hook, error)) from error
            found += [(feature, item) for item in items]
        return found


def _names(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []


def _failed(feature: str, hook: str, error: Exception) -> str:
    return f"plugin {feature!r}: hook {hook} failed: {type(error).__name__}: {error}"


def _cluster_problems(cluster: settings.Cluster) -> list[str]:
    label = cluster.node_id
    if 1 <= len(label) <= 12 and label.isascii() and label.isalnum() and label == label.lower():
        return []
    return [f"[cluster] node_id: {label!r}: expected 1 to 12 of a to z and 0 to 9"]
