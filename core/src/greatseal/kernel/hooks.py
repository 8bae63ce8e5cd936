"""The only code that touches pluggy: registration with exact errors, and typed collecting calls for one plugin at a time."""

import difflib
import re
from collections.abc import Callable
from typing import Any

import pluggy

from greatseal import hookspecs
from greatseal.api.services import ServiceKey
from greatseal.host import Host
from greatseal.kernel.loading import Loaded


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
        except Exception as error:  # noqa: BLE001  # whatever a third party's constructor raises must name its distribution
            return f"{who} cannot be created: {type(error).__name__}: {error}"
        self.instances[plugin.feature] = instance
        return None

    def _nearest(self, reason: str) -> str:
        unknown = re.fullmatch(r"unknown hook '(\w+)'", reason)
        known = [name for name, hook in vars(self._manager.hook).items() if hook.has_spec()]
        close = difflib.get_close_matches(unknown[1], known, n=1) if unknown else []
        return f"; did you mean {close[0]!r}?" if close else ""

    def collect(self, feature: str, hook: str, **arguments: object) -> list[Any]:
        """What one plugin returns from one hook; an empty list when it does not implement it."""
        return [item for items in self._call(feature, hook, arguments) for item in items]

    def services(self, feature: str, host: Host) -> dict[ServiceKey[Any], Callable[[], object]]:
        """The service factories of one plugin."""
        return {key: factory for found in self._call(feature, "services", {"host": host}) for key, factory in found.items()}

    def _call(self, feature: str, hook: str, arguments: dict[str, object]) -> list[Any]:
        others = [other for name, other in self.instances.items() if name != feature]
        results: list[Any] = self._manager.subset_hook_caller(hook, others)(**arguments)
        return results

    def implemented(self, feature: str) -> list[str]:
        """The names of the hooks that the plugin implements."""
        callers = self._manager.get_hookcallers(self.instances[feature]) or []
        return sorted(caller.name for caller in callers)
