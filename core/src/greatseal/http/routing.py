"""Paths as data: exact ones in a dictionary, templates in a tree; percent-encoding is taken off exactly once."""

import re
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar
from urllib.parse import unquote_to_bytes

from greatseal.api.http import Anonymous, AuthScheme, Handler, Route, Rule

T = TypeVar("T")

_PLAIN = re.compile(r"(?:/[A-Za-z0-9\-._~!$&'()*+,;=:@]*)+")
_ENCODED = re.compile(r"(?:/[A-Za-z0-9\-._~!$&'()*+,;=:@]*(?:%[0-9A-Fa-f]{2}[A-Za-z0-9\-._~!$&'()*+,;=:@]*)*)+")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_PARAMETER = re.compile(r"\{([a-z][a-z0-9_]*)(\*{0,2})\}")
_KINDS = {"": "parameter", "*": "rest", "**": "whole"}
_METHOD = re.compile(r"[A-Z]+")


def segments_of(path: str) -> list[str] | None:
    """The decoded segments of a path as it was sent; None for one that no route can have.

    An encoded slash stays inside its segment. Dot segments, bad percent-encoding, what is not UTF-8, and control characters are
    refused instead of being repaired, so that every component in front of and behind us reads one path in one way.
    """
    segments = path[1:].split("/")
    if _PLAIN.fullmatch(path) is None:
        if _ENCODED.fullmatch(path) is None:
            return None
        try:
            segments = [unquote_to_bytes(segment).decode() for segment in segments]
        except UnicodeDecodeError:
            return None
        if any(map(_CONTROL.search, segments)):
            return None
    return None if "." in segments or ".." in segments else segments


class _Node(Generic[T]):
    """A prefix of templates: what may follow, and the methods of a template that ends here or takes the rest, or the whole of it."""

    __slots__ = ("ends", "literals", "parameter", "rest", "whole")

    def __init__(self) -> None:
        self.literals: dict[str, _Node[T]] = {}
        self.parameter: _Node[T] | None = None
        self.ends: dict[str, tuple[T, tuple[str, ...]]] = {}
        self.rest: dict[str, tuple[T, tuple[str, ...]]] = {}
        self.whole: dict[str, tuple[T, tuple[str, ...]]] = {}

    def taking(self, kind: str) -> dict[str, tuple[T, tuple[str, ...]]]:
        """The methods of a template whose last segment is of that kind."""
        return {"rest": self.rest, "whole": self.whole}.get(kind, self.ends)


class Match(Generic[T]):
    """What a method and path lead to: a value with its parameters, or the methods that the path has (none: no such path)."""

    __slots__ = ("allowed", "parameters", "value")

    def __init__(self, value: T | None, parameters: Mapping[str, str], allowed: Mapping[str, T]) -> None:
        self.value = value
        self.parameters = parameters
        self.allowed = allowed


class PathTable(Generic[T]):
    """Values by method and path template.

    ``{name}`` takes one segment that is not empty, ``{name*}`` one or more, ``{name**}`` whatever follows. The most specific template
    that has the method wins: segment by segment from the left, a literal before ``{name}`` before ``{name*}`` before ``{name**}``.
    """

    def __init__(self) -> None:
        self._exact: dict[str, dict[str, Match[T]]] = {}
        self._root: _Node[T] = _Node()

    def add(self, method: str, path: str, value: T) -> bool:
        """False, and nothing changed, when the method has a value on an equal template. Raises ValueError for a bad template."""
        node, names, kind = self._node(path)
        ends = node.taking(kind)
        if method in ends:
            return False
        ends[method] = (value, names)
        if not names:
            self._exact.setdefault(path, {})[method] = Match(value, {}, {})
        return True

    def get(self, method: str, path: str) -> T | None:
        """The value of an equal template."""
        node, _, kind = self._node(path)
        found = node.taking(kind).get(method)
        return found[0] if found else None

    def find(self, method: str, path: str) -> Match[T]:
        """What ``path``, as it was sent, leads to."""
        exact = self._exact.get(path)
        if exact is not None and (hit := exact.get(method)) is not None:
            return hit
        segments = segments_of(path)
        if segments is None:
            return Match(None, {}, {})
        search: _Search[T] = _Search(method, segments)
        return search.under(self._root, 0, ()) or Match(None, {}, search.allowed)

    def _node(self, path: str) -> tuple[_Node[T], tuple[str, ...], str]:
        node, names = self._root, []
        segments = template_of(path)
        for kind, text in segments:
            match kind:
                case "literal":
                    node = node.literals.setdefault(text, _Node())
                case "parameter":
                    node.parameter = node.parameter or _Node()
                    node = node.parameter
            if kind != "literal":
                names.append(text)
        return node, tuple(names), segments[-1][0]


class _Search(Generic[T]):
    """One look-up in the tree. Every node is visited at most once, so a path costs no more than there are templates."""

    __slots__ = ("allowed", "method", "segments")

    def __init__(self, method: str, segments: list[str]) -> None:
        self.method = method
        self.segments = segments
        self.allowed: dict[str, T] = {}

    def under(self, node: _Node[T], at: int, values: tuple[str, ...]) -> Match[T] | None:
        """The most specific match below ``node`` for the segments from ``at``."""
        if at == len(self.segments):
            return self._chosen(node.ends, values)
        segment = self.segments[at]
        child = node.literals.get(segment)
        if child is not None and (found := self.under(child, at + 1, values)):
            return found
        if segment and node.parameter is not None and (found := self.under(node.parameter, at + 1, (*values, segment))):
            return found
        rest = self.segments[at:]
        if (
            node.rest
            and all(rest)
            and not any("/" in one for one in rest)
            and (found := self._chosen(node.rest, (*values, "/".join(rest))))
        ):
            return found
        return self._chosen(node.whole, (*values, "/".join(rest))) if node.whole else None

    def _chosen(self, ends: Mapping[str, tuple[T, tuple[str, ...]]], values: tuple[str, ...]) -> Match[T] | None:
        hit = ends.get(self.method)
        if hit is not None:
            return Match(hit[0], dict(zip(hit[1], values, strict=True)), {})
        for name, (value, _) in ends.items():
            self.allowed.setdefault(name, value)
        return None


def template_of(path: str) -> list[tuple[str, str]]:
    """The segments of a template as ("literal", text), ("parameter", name), ("rest", name) or ("whole", name). Raises ValueError with the
    reason."""
    parsed: list[tuple[str, str]] = []
    for segment in path[1:].split("/"):
        match = _PARAMETER.fullmatch(segment)
        if match is not None:
            parsed.append((_KINDS[match[2]], match[1]))
        else:
            parsed.append(("literal", segment))
    names = [text for kind, text in parsed if kind != "literal"]
    plain = "".join(f"/{'p' if kind != 'literal' else text}" for kind, text in parsed)
    if not path.startswith("/") or _PLAIN.fullmatch(plain) is None or segments_of(plain) is None:
        raise ValueError("expected /, plain characters, and {name}, {name*} or {name**} for whole segments")
    if len(set(names)) != len(names):
        raise ValueError("a parameter is named twice")
    if any(kind in {"rest", "whole"} for kind, _ in parsed[:-1]):
        raise ValueError("{name*} and {name**} must be last")
    return parsed


def check_routes(routes: Sequence[Route], owners: Sequence[str], schemes: Mapping[type[Rule], AuthScheme]) -> list[str]:
    """What is wrong with the routes of all plugins, each line with the owners and the cure; ``owners`` runs beside ``routes``."""
    problems: list[str] = []
    tables: dict[str, PathTable[str]] = {}
    known = {(route.listener, route.method, route.path) for route in routes if not route.credentials}
    beside: dict[tuple[str, str, str, str], str] = {}
    for route, owner in zip(routes, owners, strict=True):
        name = f"{route.method} {route.path}"
        if _METHOD.fullmatch(route.method) is None:
            problems.append(f"plugin {owner!r}: route {name}: the method must be in capital letters")
        problems += _unserved(route, owner, schemes)
        if route.credentials:
            place = (route.listener, route.method, route.path)
            what = f"{name} with {route.credentials} credentials"
            if place not in known:
                problems.append(f"plugin {owner!r}: {what} stands beside no route of that method and path; give it those of one")
            if (other := beside.get((*place, route.credentials))) is not None:
                problems.append(f"{what} comes from plugin {other!r} and from plugin {owner!r}; disable one of them")
            beside[*place, route.credentials] = owner
            continue
        table = tables.setdefault(route.listener, PathTable())
        try:
            free = table.add(route.method, route.path, owner)
        except ValueError as error:
            problems.append(f"plugin {owner!r}: route {name}: bad path: {error}")
            continue
        if not free:
            first = table.get(route.method, route.path)
            cure = "remove one of the two routes" if first == owner else "disable one of them"
            problems.append(f"{name} on the {route.listener} listener comes from plugin {first!r} and from plugin {owner!r}; {cure}")
        if route.owner is not None and route.listener != "main":
            problems.append(f"plugin {owner!r}: route {name}: a route with an owner is on the main listener, where other nodes ask")
    return problems


def _unserved(route: Route, owner: str, schemes: Mapping[type[Rule], AuthScheme]) -> list[str]:
    rule = type(route.auth)
    if rule in schemes or isinstance(route.auth, Anonymous | Handler):
        return []
    what = f"route {route.method} {route.path} is guarded by {rule.__name__}, which no enabled plugin serves"
    return [f"plugin {owner!r}: {what}; enable one with an auth scheme for {rule.__name__}"]
