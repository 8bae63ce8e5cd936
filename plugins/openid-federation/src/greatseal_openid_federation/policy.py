"""Metadata policies (OpenID Federation 1.0 s6.1): how those of a trust chain are merged, and what they make of metadata.

``value``, ``default`` and ``essential`` take what JSON has; the others take arrays of strings, numbers or objects. Values are equal when
their JSON is: 1 is neither true nor 1.0.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import orjson

OPERATORS = ("value", "add", "default", "one_of", "subset_of", "superset_of", "essential")
"""In the order in which they are applied."""
LISTS = frozenset({"add", "one_of", "subset_of", "superset_of"})
SCOPE = "scope"  # one text in metadata, and an array for operators (s6.1.3.1.8)

Operators = Mapping[str, Any]
Policy = Mapping[str, Mapping[str, Operators]]
"""By entity type, and by parameter."""
_ABSENT = object()


class PolicyError(ValueError):
    """A policy that is none, policies that conflict, or metadata that break them. The words are fit for the client."""


def merged(policies: Iterable[Policy]) -> Policy:
    """The policy of a trust chain: that of the most superior entity comes first (s6.1.4.1). Raises PolicyError."""
    whole: dict[str, dict[str, Operators]] = {}
    for policy in policies:
        for entity_type, parameters in policy.items():
            present = whole.setdefault(entity_type, {})
            for name, operators in parameters.items():
                present[name] = combined(name, present.get(name, {}), read(name, operators))
    return whole


def applied(policy: Policy, metadata: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The resolved metadata (s6.1.4.2). Raises PolicyError."""
    resolved = {}
    for entity_type, parameters in metadata.items():
        found = dict(parameters)
        for name, operators in policy.get(entity_type, {}).items():
            value = enforced(name, operators, found.pop(name, _ABSENT))
            if value is not _ABSENT:
                found[name] = value
        resolved[entity_type] = found
    return resolved


def read(name: str, operators: Operators) -> dict[str, Any]:
    """The operators of one parameter, of those that are known, in one form. Raises PolicyError."""
    found = {one: _operand(name, one, operators[one]) for one in OPERATORS if one in operators}
    _check_combination(name, found)
    return found


def combined(name: str, superior: Operators, subordinate: Operators) -> dict[str, Any]:
    """The operators of two policies for one parameter (s6.1.4.1). Raises PolicyError."""
    found = {**subordinate, **superior}
    for operator in superior.keys() & subordinate.keys():
        found[operator] = _MERGES[operator](superior[operator], subordinate[operator])
        if found[operator] is _ABSENT:
            raise PolicyError(f"two superiors disagree about {_named(name)} by the policy operator {operator}")
    _check_combination(name, found)
    return found


def enforced(name: str, operators: Operators, value: Any) -> Any:
    """What the operators make of the value of a parameter, which may be absent. Raises PolicyError."""
    found = value.split() if name == SCOPE and isinstance(value, str) else value
    for operator in OPERATORS:
        if operator in operators:
            found = _ACTIONS[operator](name, operators[operator], found)
    return " ".join(map(str, found)) if name == SCOPE and isinstance(found, list) else found


def _named(name: str) -> str:
    """A parameter in a message; one that is no plain word is not repeated."""
    return name if name.isascii() and name.isidentifier() and len(name) <= 64 else "a parameter"


def _operand(name: str, operator: str, operand: Any) -> Any:
    """The value of an operator, of a type that it has. Raises PolicyError."""
    if name == SCOPE and isinstance(operand, str) and operator != "essential":
        operand = operand.split()
    good = _is_list(operand) if operator in LISTS else isinstance(operand, bool) if operator == "essential" else True
    if not good or (operator == "default" and operand is None) or (operator == "one_of" and not operand):
        raise PolicyError(f"the policy operator {operator} for {_named(name)} has a value of a type that it does not take")
    return operand


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str | int | float | dict) and not isinstance(one, bool) for one in value)


def _key(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _keys(values: object) -> frozenset[bytes]:
    """The values of an array, to compare; a value that is no array is one of its own, and in none."""
    return frozenset(map(_key, values)) if isinstance(values, list) else frozenset({b"\0" + _key(values)})


def _union(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    return list({_key(value): value for value in (*one, *other)}.values())


def _intersection(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    allowed = _keys(list(other))
    return [value for value in _union(one, ()) if _key(value) in allowed]


def _equal(one: object, other: object) -> Any:
    return one if _key(one) == _key(other) else _ABSENT


_MERGES: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "value": _equal,
        "add": _union,
        "default": _equal,
        "one_of": lambda one, other: _intersection(one, other) or _ABSENT,
        "subset_of": _intersection,
        "superset_of": _union,
        "essential": lambda one, other: one or other,
    }
)

_CONFLICTS: Sequence[tuple[str, str, Callable[[Any, Any], bool]]] = (
    ("value", "add", lambda value, add: value is None or not _keys(add) <= _keys(value)),
    ("value", "default", lambda value, _: value is None),
    ("value", "one_of", lambda value, one_of: _key(value) not in _keys(one_of)),
    ("value", "subset_of", lambda value, subset_of: not _keys(value) <= _keys(subset_of)),
    ("value", "superset_of", lambda value, superset_of: not _keys(value) >= _keys(superset_of)),
    ("value", "essential", lambda value, essential: value is None and essential),
    ("add", "one_of", lambda _, __: True),
    ("add", "subset_of", lambda add, subset_of: not _keys(add) <= _keys(subset_of)),
    ("one_of", "subset_of", lambda _, __: True),
    ("one_of", "superset_of", lambda _, __: True),
    ("subset_of", "superset_of", lambda subset_of, superset_of: not _keys(subset_of) >= _keys(superset_of)),
)
"""Two operators that do not go together, and when (s6.1.3.1)."""


def _check_combination(name: str, operators: Operators) -> None:
    for one, other, conflict in _CONFLICTS:
        if one in operators and other in operators and conflict(operators[one], operators[other]):
            raise PolicyError(f"the policy operators {one} and {other} for {_named(name)} do not go together")


def _set(_name: str, operand: Any, _value: Any) -> Any:
    return _ABSENT if operand is None else operand


def _add(name: str, operand: Any, value: Any) -> Any:
    return list(operand) if value is _ABSENT else _union(_array(name, "add", value), operand)


def _fill(_name: str, operand: Any, value: Any) -> Any:
    return operand if value is _ABSENT else value


def _one_of(name: str, operand: Any, value: Any) -> Any:
    if value is not _ABSENT and _key(value) not in _keys(operand):
        raise PolicyError(f"{_named(name)} is none of the values that the policy allows (one_of)")
    return value


def _subset(name: str, operand: Any, value: Any) -> Any:
    return value if value is _ABSENT else _intersection(_array(name, "subset_of", value), operand)


def _superset(name: str, operand: Any, value: Any) -> Any:
    if value is not _ABSENT and not _keys(_array(name, "superset_of", value)) >= _keys(operand):
        raise PolicyError(f"{_named(name)} lacks a value that the policy demands (superset_of)")
    return value


def _essential(name: str, operand: Any, value: Any) -> Any:
    if operand and value is _ABSENT:
        raise PolicyError(f"{_named(name)} is missing, and the policy demands it (essential)")
    return value


def _array(name: str, operator: str, value: Any) -> list[Any]:
    if not _is_list(value):
        raise PolicyError(f"{_named(name)} is no array, which the policy operator {operator} takes")
    return list(value)


_ACTIONS: Mapping[str, Callable[[str, Any, Any], Any]] = MappingProxyType(
    {
        "value": _set,
        "add": _add,
        "default": _fill,
        "one_of": _one_of,
        "subset_of": _subset,
        "superset_of": _superset,
        "essential": _essential,
    }
)
