"""Finding and importing plugins: only the named ones, never through a cache, never two under one name."""

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec
from stevedore.named import NamedExtensionManager

from greatseal.kernel.known import is_planned

PLUGINS = "greatseal.plugins"
SETS = "greatseal.sets"


class Loaded(msgspec.Struct, frozen=True):
    """A plugin class and where it came from."""

    feature: str
    distribution: str
    version: str
    factory: Callable[[], object]

    @property
    def who(self) -> str:
        """How messages name it; the distribution where the feature does not tell it."""
        own = self.distribution == f"greatseal-{self.feature}"
        return f"plugin {self.feature!r}" + ("" if own else f" of {self.distribution} {self.version}")


class _Named(NamedExtensionManager[Callable[[], object]]):
    """stevedore keeps a cache of entry points on disk; whoever can write it would choose what is imported. So it is not asked."""

    def __init__(self, points: list[EntryPoint], on_failure: Callable[[Any, EntryPoint, BaseException], None]) -> None:
        self._points = points
        names = [point.name for point in points]
        super().__init__(PLUGINS, names, name_order=True, on_load_failure_callback=on_failure, on_missing_entrypoints_callback=None)

    def list_entry_points(self) -> list[EntryPoint]:
        return self._points

    def _load_one_plugin(self, *arguments: Any) -> Any:
        try:
            return super()._load_one_plugin(*arguments)
        except SystemExit as error:  # which would end the process without a word
            raise ImportError(f"it ended with SystemExit({error.code!r})") from error


def installed() -> dict[str, list[EntryPoint]]:
    """Every installed feature with its entry points: more than one is a conflict."""
    return _points(PLUGINS)


def features_of(enabled: Sequence[str], sets: Sequence[str]) -> tuple[list[str], list[str]]:
    """The features that names and bundles ask for, in order and once each, and what is wrong with them."""
    problems: list[str] = []
    wanted: list[str] = []
    bundles, known = (_points(SETS), installed()) if sets else ({}, {})
    for name in sets:
        if name not in bundles:
            hint = _nearest(name, list(bundles), f"greatseal-bundle-{name}")
            problems.append(f"[plugins] sets: {name!r} is not an installed bundle{hint}")
        elif len(bundles[name]) > 1:
            problems.append(f"bundle {_twice(name, bundles[name])}")
        else:
            features, wrong = _features(bundles[name][0])
            absent = [one for one in features if one not in known]
            problems += [f"[plugins] sets: {name!r} brings {one!r}, which is not installed; install greatseal-{one}" for one in absent]
            wanted += [one for one in features if one in known]
            problems += wrong
    for key, names in (("enabled", enabled), ("sets", sets)):
        counted = [(name, count) for name, count in Counter(names).items() if count > 1]
        problems += [f"[plugins] {key}: {name!r} is named {count} times; name it once" for name, count in counted]
    return list(dict.fromkeys([*wanted, *enabled])), problems


def load(features: Sequence[str]) -> tuple[list[Loaded], list[str]]:
    """Import the plugins of these features, and nothing else. Returns what was loaded and what is wrong."""
    known = installed()
    problems: list[str] = []
    wanted: list[EntryPoint] = []
    for name in features:
        points = known.get(name, [])
        if len(points) > 1:
            problems.append(f"plugin {_twice(name, points)}")
        elif not points and is_planned(name):
            problems.append(f"[plugins] enabled: {name!r} is planned, not built yet; take the name out")
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


def _points(group: str) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, []).append(point)
    return found


def _twice(name: str, points: Sequence[EntryPoint]) -> str:
    return f"{name!r} is provided by {' and '.join(sorted(map(_owner, points)))}; uninstall one of them"


def _features(bundle: EntryPoint) -> tuple[list[str], list[str]]:
    """What a bundle lists, or what is wrong with it."""
    try:
        listed = bundle.load()
    except Exception as error:  # noqa: BLE001  # whatever a third party's module raises must name its distribution
        return [], [f"bundle {bundle.name!r} of {_owner(bundle)} cannot be imported: {type(error).__name__}: {error}; install it again"]
    if isinstance(listed, list | tuple) and all(isinstance(one, str) for one in listed):
        return list(listed), []
    return [], [f"bundle {bundle.name!r} of {_owner(bundle)} is no list of feature ids; {bundle.value} must be one"]


def _distribution(point: EntryPoint) -> tuple[str, str]:
    return (point.dist.name, point.dist.version) if point.dist else (point.value, "?")


def _owner(point: EntryPoint) -> str:
    return " ".join(_distribution(point))


def _nearest(name: str, known: list[str], distribution: str) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    # A feature that is right but not installed may have a name close to that of one that is (gssapi, fapi).
    return f"; did you mean {close[0]!r}? If not, install {distribution}" if close else f"; install {distribution}, or take the name out"
