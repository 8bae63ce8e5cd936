"""Components collected from the plugins, keyed and frozen; cardinality is checked here."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from greatseal.api.acme import AccountBinding, ChallengeValidator
from greatseal.api.authorization import Extension
from greatseal.api.clients import ClientAuthMethod, ClientResolver
from greatseal.api.components import Component, contract_of
from greatseal.api.declarations import ScopeDefinition, Statistic
from greatseal.api.directory import Directory, DirectoryUnavailable
from greatseal.api.http import AuthScheme, ClientTrust
from greatseal.api.identity import Authenticator, LoginOptions, PasswordChanger
from greatseal.api.issuance import FinalizeCheck, IdentifierType, IssuanceObserver, Issuer, SanInjector
from greatseal.api.keys import KeyStore
from greatseal.api.log import LogBackend
from greatseal.api.problems import Unavailable
from greatseal.api.tokens import ClaimsProvider, Grant, GrantCheck, TokenBinding
from greatseal.api.workload import Selector
from greatseal.kernel.guard import guard
from greatseal.kernel.metrics import Metrics
from greatseal.kernel.shapes import member_problem, trait_problem

T = TypeVar("T")


class Point(msgspec.Struct, frozen=True):
    """An extension point with keyed components: its hook, the contract, and how a component is named."""

    hook: str
    contract: type[Any]
    key: Callable[[Any], str]
    seconds: float | None = 15.0
    """How long an async method of a component may take, unless it has a ``deadline`` of its own; None where whoever asks sees to that."""
    failure: type[Unavailable] = Unavailable
    """What it is when it takes longer, or cannot reach what it asks."""
    named: bool = False
    """Whether whoever caused the call may know which server did not answer: in ACME, they chose it."""


STATISTICS = Point("statistics", Statistic, lambda one: one.name)
POINTS = (
    Point("key_stores", KeyStore, lambda one: one.name, seconds=60.0),
    Point("auth_schemes", AuthScheme, lambda one: one.rule.__name__, seconds=None),
    Point("client_trust", ClientTrust, lambda one: one.name),
    Point("authenticators", Authenticator, lambda one: one.name),
    Point("login_options", LoginOptions, lambda one: one.name, seconds=3.0),
    Point("password_changers", PasswordChanger, lambda one: one.name),
    Point("directories", Directory, lambda one: one.name, failure=DirectoryUnavailable),
    Point("claims", ClaimsProvider, lambda one: one.name),
    Point("client_auth_methods", ClientAuthMethod, lambda one: one.method),
    Point("client_resolvers", ClientResolver, lambda one: one.name),
    Point("token_bindings", TokenBinding, lambda one: one.confirmation),
    Point("extensions", Extension, lambda one: one.name),
    Point("grants", Grant, lambda one: one.grant_type),
    Point("grant_checks", GrantCheck, lambda one: one.name),
    Point("scopes", ScopeDefinition, lambda one: one.name),
    Point("identifier_types", IdentifierType, lambda one: one.type),
    Point("challenge_validators", ChallengeValidator, lambda one: one.type, seconds=None),
    Point("account_bindings", AccountBinding, lambda one: one.member),
    Point("finalize_checks", FinalizeCheck, lambda one: one.name, seconds=330.0, named=True),
    Point("san_injectors", SanInjector, lambda one: one.name),
    Point("issuers", Issuer, lambda one: one.issue_as, seconds=120.0, named=True),
    Point("selectors", Selector, lambda one: one.type),
    Point("log_backends", LogBackend, lambda one: one.name),
    STATISTICS,
    Point("issuance_observers", IssuanceObserver, lambda one: type(one).__name__),
)
"""In the order in which they are collected."""


class Registry:
    """Every component of one kernel."""

    def __init__(self, metrics: Metrics, who: Callable[[str], str] = "plugin {!r}".format) -> None:
        self._who = who
        self._waits = metrics.histogram(
            "greatseal_component_wait_seconds", "Calls of components that had to wait.", ("hook", "component", "outcome")
        )
        self._found: dict[type[Any], dict[str, Any]] = {point.contract: {} for point in POINTS}
        self._views = {contract: MappingProxyType(found) for contract, found in self._found.items()}
        self._owners: dict[tuple[type[Any], str], str] = {}

    def add_own(self, component: object, owner: str) -> str | None:
        """Keep a component whose contract is none of the kernel's; returns what is wrong with it, if anything."""
        if not isinstance(component, Component):
            return f"plugin {owner!r}: hook components returned {type(component).__name__}, which is no Component"
        contract = contract_of(component)
        found = self._found.setdefault(contract, {})
        if problem := self.add(Point("components", contract, lambda one: f"{contract.__name__} {one.name}"), component, owner):
            return problem
        if contract.most is not None and len(found) > contract.most:
            owners = " and ".join(repr(self._owners[contract, key]) for key in found)
            return f"components: of {contract.__name__} there may be {contract.most}, they come from plugins {owners}; disable one"
        return None

    def add(self, point: Point, component: object, owner: str) -> str | None:
        """Keep the component; returns what is wrong with it, if anything."""
        if not isinstance(component, point.contract):
            return f"plugin {owner!r}: hook {point.hook} returned {type(component).__name__}, which is no {point.contract.__name__}"
        try:
            key = point.key(component)
        except AttributeError as error:
            return f"plugin {owner!r}: hook {point.hook} returned {type(component).__name__} without {error.name}, which is its key; set it"
        if not isinstance(key, str) or not key:
            return f"plugin {owner!r}: hook {point.hook} returned {type(component).__name__} with the key {key!r}; it is a text"
        first = self._owners.setdefault((point.contract, key), owner)
        if key in self._found[point.contract]:
            return f"{point.hook}: {key!r} comes from plugin {first!r} and from plugin {owner!r}; disable one of them"
        self._found[point.contract][key] = component
        return self._guard(point, component, key, owner) or self._misfit(point, component, owner)

    def _guard(self, point: Point, component: object, key: str, owner: str) -> str | None:
        if point.seconds is None:
            return None
        name = f"{self._who(owner)}: {point.hook} {key!r}"
        waited = partial(self._waited, point.hook, key)
        options: dict[str, Any] = {"seconds": point.seconds, "failure": point.failure, "named": point.named}
        return guard(component, point.contract, name=name, waited=waited, **options)

    def _misfit(self, point: Point, component: object, owner: str) -> str | None:
        problem = member_problem(component) if isinstance(component, msgspec.Struct) else trait_problem(component, point.contract)
        return f"plugin {owner!r}: hook {point.hook} returned {type(component).__name__} {problem}" if problem else None

    def _waited(self, hook: str, key: str, outcome: str, seconds: float) -> None:
        self._waits.observe(seconds, hook, key, outcome)

    def forget(self, point: Point) -> None:
        """Nobody can tell what there is, since a plugin did not answer: :meth:`of` raises KeyError from now on."""
        del self._found[point.contract], self._views[point.contract]

    def of(self, contract: type[T]) -> Mapping[str, T]:
        """The components of one contract. Raises KeyError for a class that is no extension point."""
        view = self._views.get(contract)
        if view is not None:
            return view
        if issubclass(contract, Component):
            return MappingProxyType({one.name: one for one in self._found.get(contract, {}).values()})
        raise KeyError(contract)

    def owner(self, contract: type[Any], key: str) -> str:
        """The feature that provided the component, by its key in :meth:`of`."""
        return self._owners[contract, f"{contract.__name__} {key}" if issubclass(contract, Component) else key]
