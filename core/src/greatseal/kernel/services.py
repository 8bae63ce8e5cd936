"""Services by key: one provider each, made in the topological order of ``requires``."""

from collections.abc import Mapping, Sequence
from typing import Any

from greatseal.api.services import ServiceKey


def requires_of(plugin: object) -> tuple[ServiceKey[Any], ...]:
    """The services without which the plugin cannot run."""
    return tuple(getattr(plugin, "requires", ()))


def uses_of(plugin: object) -> tuple[ServiceKey[Any], ...]:
    """The services that it takes when they are there."""
    return tuple(getattr(plugin, "uses", ()))


def start_order(plugins: Mapping[str, object], provided: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Features so that providers come before those who need them, in the order of the configuration otherwise; and problems.

    ``provided`` tells the feature that provides a service, by the service's name. ``uses`` order too, where that makes no cycle.
    """
    problems: list[str] = []
    order: list[str] = []
    for feature, plugin in plugins.items():
        problems.extend(
            f"plugin {feature!r} requires the service {key.name!r}, which no enabled plugin provides; enable one that does"
            for key in requires_of(plugin)
            if key.name not in provided
        )
    needs = {feature: [provided[key.name] for key in requires_of(plugin) if key.name in provided] for feature, plugin in plugins.items()}
    likes = {feature: [provided[key.name] for key in uses_of(plugin) if key.name in provided] for feature, plugin in plugins.items()}

    def visit(feature: str, path: Sequence[str]) -> None:
        if feature in path:
            circle = " -> ".join([*path[path.index(feature) :], feature])
            problems.append(f"plugins require each other in a circle: {circle}; one of them must use `uses` instead of `requires`")
            return
        if feature in order:
            return
        for other in needs[feature]:
            visit(other, [*path, feature])
        for other in likes[feature]:
            if other not in path and feature not in _reach(other, needs):
                visit(other, [*path, feature])
        if feature not in order:
            order.append(feature)

    for feature in plugins:
        visit(feature, [])
    return order, list(dict.fromkeys(problems))


def _reach(feature: str, needs: Mapping[str, Sequence[str]]) -> set[str]:
    """Every feature that ``feature`` needs, directly or not."""
    found: set[str] = set()
    waiting = [feature]
    while waiting:
        for other in needs[waiting.pop()]:
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found
