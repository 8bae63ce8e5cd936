"""Finding and importing plugins: only the named ones, never through a cache, never two under one name."""

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec
from stevedore.named import NamedExtensionManager

PLUGINS = "greatseal.plugins"
SETS = "greatseal.sets"


class Loaded(msgspec.Struct, frozen=True):
    """A plugin class and where it came from."""

    feature: str
    distribution: str
    version: str
    factory: Callable[[], object]


class _Named(NamedExtensionManager[Callable[[], object]]):
    """stevedore keeps a cache of entry points on disk; whoever can write it would choose what is imported. So it is not asked."""

    def __init__(self, points: list[EntryPoint], on_failure: Callable[[Any, EntryPoint, BaseException], None]) -> None:
        self._points = points
        names = [point.name for point in points]
        super().__init__(PLUGINS, names, name_order=True, on_load_failure_callback=on_failure, on_missing_entrypoints_callback=None)

    def list_entry_points(self) -> list[EntryPoint]:
        return self._points


def installed() -> dict[str, list[EntryPoint]]:
    """Every installed feature with its entry points: more than one is a conflict."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=PLUGINS):
        found.setdefault(point.name, []).append(point)
    return found


def features_of(enabled: Sequence[str], sets: Sequence[str]) -> tuple[list[str], list[str]]:
    """The features that names and bundles ask for, in order and once each, and what is wrong with them."""
    problems: list[str] = []
    wanted: list[str] = []
    bundles = {point.name: point for point in entry_points(group=SETS)} if sets else {}
    for name in sets:
        if name in bundles:
            wanted += bundles[name].load()
        else:
            problems.append(
                f"[plugins] sets: {name!r} is not an installed bundle{_nearest(name, list(bundles), 'greatseal-bundle-' + name)}"
            )
    for name, count in Counter(enabled).items():
        if count > 1:
            problems.append(f"[plugins] enabled: {name!r} is named {count} times; name it once")
    return list(dict.fromkeys([*wanted, *enabled])), problems


def load(features: Sequence[str]) -> tuple[list[Loaded], list[str]]:
    """Import the plugins of these features, and nothing else. Returns what was loaded and what is wrong."""
    known = installed()
    problems: list[str] = []
    wanted: list[EntryPoint] = []
    for name in features:
        points = known.get(name, [])
        if len(points) > 1:
            owners = " and ".join(sorted(_owner(point) for point in points))
            problems.append(f"plugin {name!r} is provided by {owners}; uninstall one of them")
        elif not points:
            problems.append(f"[plugins] enabled: {name!r} is not installed{_nearest(name, list(known), 'greatseal-' + name)}")
        else:
            wanted += points
    manager = _Named(
        wanted,
        lambda _, point, error: problems.append(
            f"plugin {point.name!r} of {_owner(point)} cannot be imported: {type(error).__name__}: {error}; "
            "install it again, or take it out of [plugins] enabled"
        ),
    )
    loaded = [Loaded(one.name, *_distribution(one.entry_point), one.plugin) for one in manager]
    return loaded, problems


def _distribution(point: EntryPoint) -> tuple[str, str]:
    return (point.dist.name, point.dist.version) if point.dist else (point.value, "?")


def _owner(point: EntryPoint) -> str:
    return " ".join(_distribution(point))


def _nearest(name: str, known: list[str], distribution: str) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; install {distribution}, or take the name out"
