"""The only code that touches pluggy: registration with exact errors, and typed collecting calls for one plugin at a time."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from types import UnionType
from typing import Any

import msgspec
import pluggy

from greatseal import hookspecs
from greatseal.api.declarations import Check, EventType, Job, Lifespan, Owns, PermissionName, Reads, Schema, Welcome
from greatseal.api.http import Discovery, Route
from greatseal.api.languages import Catalogue
from greatseal.api.pages import StartPart
from greatseal.api.problems import StartProblem
from greatseal.api.services import ServiceKey
from greatseal.host import Host
from greatseal.kernel.loading import Loaded
from greatseal.kernel.shapes import member_problem

ITEMS: Mapping[str, type[Any] | UnionType] = {
    "settings": Owns | Reads, "schemas": Schema, "permissions": PermissionName, "audit_events": EventType, "discovery": Discovery,
    "routes": Route, "verify": str, "notes": str, "catalogues": Catalogue,
    "lifespans": Lifespan, "jobs": Job, "checks": Check, "start_page": StartPart, "welcome": Welcome,
}  # fmt: skip
"""What hooks return that are no components; the registry looks at those."""
NAMED = {"audit_events": "name", "schemas": "feature", "permissions": "name", "jobs": "name", "checks": "name", "catalogues": "package"}
"""Of these, what has a name that is there once."""


class Hooks:
    """The plugin instances of one kernel."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager("greatseal")
        self._manager.add_hookspecs(hookspecs)
        self.instances: dict[str, object] = {}

    def register(self, plugin: Loaded) -> str | None:
        """Make the instance and register it; returns what is wrong with it, if anything."""
        who = f"plugin {plugin.feature!r} of {plugin.distribution} {plugin.version}"
        try:
            instance = plugin.factory()
            self._manager.register(instance, plugin.feature)
            self._manager.check_pending()
        except pluggy.PluginValidationError as error:
            if self._manager.has_plugin(plugin.feature):
                self._manager.unregister(name=plugin.feature)
            reason = " ".join(str(error).replace(f" in plugin {instance!r}", "").split())
            cure = "greatseal.hookspecs lists every hook with its parameters"
            return f"{who} has a hook that does not fit: {reason}{self._nearest(reason)}; {cure}"
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a third party's constructor raises must name its distribution
            return f"{who} cannot be created: {type(error).__name__}: {error}"
        if problem := _needs_problem(instance):
            self._manager.unregister(name=plugin.feature)
            return f"{who} {problem}"
        self.instances[plugin.feature] = instance
        return None

    def _nearest(self, reason: str) -> str:
        unknown = re.fullmatch(r"unknown hook '(\w+)'", reason)
        known = [name for name, hook in vars(self._manager.hook).items() if hook.has_spec()]
        close = difflib.get_close_matches(unknown[1], known, n=1) if unknown else []
        return f"; did you mean {close[0]!r}?" if close else ""

    def collect(self, feature: str, hook: str, **arguments: object) -> list[Any]:
        """What one plugin returns from one hook; an empty list when it does not implement it. Raises StartProblem for anything else."""
        found: list[Any] = []
        for items in self._call(feature, hook, arguments):
            if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
                raise StartProblem(f"plugin {feature!r}: hook {hook} returned {kind_of(items)}; return a list")
            found += items
        kind = ITEMS.get(hook, object)
        for item in found:
            if not isinstance(item, kind):
                expected = kind.__name__ if isinstance(kind, type) else " or ".join(one.__name__ for one in kind.__args__)
                raise StartProblem(f"plugin {feature!r}: hook {hook} returned a list with {kind_of(item)} in it; each is a {expected}")
            if isinstance(item, msgspec.Struct) and kind is not object and (problem := member_problem(item)):
                raise StartProblem(f"plugin {feature!r}: hook {hook} returned {kind_of(item)} {problem}")
        return found

    def services(self, feature: str, host: Host) -> dict[ServiceKey[Any], Callable[[], object]]:
        """The service factories of one plugin. Raises StartProblem where they are none."""
        services: dict[ServiceKey[Any], Callable[[], object]] = {}
        for found in self._call(feature, "services", {"host": host}):
            if not isinstance(found, Mapping):
                raise StartProblem(f"plugin {feature!r}: hook services returned {kind_of(found)}; return a dict of factories by ServiceKey")
            for key, factory in found.items():
                if not isinstance(key, ServiceKey) or not callable(factory):
                    kinds = f"{kind_of(factory)} under {kind_of(key)}"
                    raise StartProblem(f"plugin {feature!r}: hook services returned {kinds}; each is a factory under a ServiceKey")
                services[key] = factory
        return services

    def _call(self, feature: str, hook: str, arguments: dict[str, object]) -> list[Any]:
        others = [other for name, other in self.instances.items() if name != feature]
        caller = self._manager.subset_hook_caller(hook, others)
        try:
            results: list[Any] = caller(**arguments)
        except SystemExit as error:  # which would end the process without a word
            raise RuntimeError(f"it ended with SystemExit({error.code!r})") from error
        if len(results) < len(caller.get_hookimpls()):  # pluggy leaves None out
            raise StartProblem(f"plugin {feature!r}: hook {hook} returned None; return an empty one where there is nothing")
        return results

    def implemented(self, feature: str) -> list[str]:
        """The names of the hooks that the plugin implements."""
        callers = self._manager.get_hookcallers(self.instances[feature]) or []
        return sorted(caller.name for caller in callers)


def _needs_problem(instance: object) -> str | None:
    """What is wrong with ``requires``, ``uses`` and ``expects``, worded to follow the plugin."""
    for name in ("requires", "uses"):
        keys = getattr(instance, name, ())
        if not isinstance(keys, list | tuple) or not all(isinstance(key, ServiceKey) for key in keys):
            return f"has {name} = {keys!r}; write a tuple of ServiceKeys, as {name} = (RESOLVER,)"
    expects = getattr(instance, "expects", {})
    if isinstance(expects, Mapping) and all(isinstance(one, type) and isinstance(cure, str) for one, cure in expects.items()):
        return None
    return f"has expects = {expects!r}; write a dict of cures by contract"


def is_planned(hook: str) -> bool:
    """Whether nothing that is shipped reads the hook yet."""
    return (getattr(hookspecs, hook).__doc__ or "").startswith("Planned")


def kind_of(value: object) -> str:
    """Its type, with an article."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"
