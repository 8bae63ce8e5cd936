"""Whether what plugins hand over has the types that its contract declares: a Struct that code makes is looked at by nobody else."""

import collections.abc
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

if sys.version_info >= (3, 14):
    import annotationlib

__all__ = ["member_problem", "returned_types", "trait_problem"]

_WORDS: dict[Any, str] = {
    str: "a text", int: "a whole number", float: "a number", bool: "True or False", bytes: "bytes", types.NoneType: "None",
    None: "None", collections.abc.Callable: "a function",
}  # fmt: skip
_WRAPPED = (typing.Annotated, typing.ClassVar)
_UNIONS = (typing.Union, types.UnionType)
_LONGEST = 60
_VARIABLE = re.compile(r"\[~\w+\]")
_SAID = re.compile(r"(?<![\w.])(?:collections\.abc|typing|greatseal(?:\.\w+)*)\.")


def member_problem(item: msgspec.Struct) -> str | None:
    """What is wrong with a member of a declaration, worded to follow what it is: ``whose every is 'often'; it is a number``."""
    for name, hint in _members(type(item)):
        value = getattr(item, name)
        if type(value) is not hint and not fits(value, hint):
            return f"whose {name} is {_shown(value)}; it is {_said(hint)}"
    return None


def trait_problem(component: object, contract: type[Any]) -> str | None:
    """The same of what a contract has its implementers declare on the class, worded to follow the component's name."""
    for name, hint in _traits(contract):  # type: ignore[arg-type]  # mypy takes classes for unhashable
        if not hasattr(component, name):
            return f"without {name}; set it, it is {_said(hint)}"
        value = getattr(component, name)
        if not fits(value, hint):
            return f"whose {name} is {_shown(value)}; it is {_said(hint)}"
    return None


def returned_types(method: Callable[..., Any]) -> tuple[tuple[type[Any], ...], str] | None:
    """The classes of what a method of a contract returns, and how that is said; None where its annotation leaves it open."""
    hint = _hint_of(_annotations(method).get("return", Any), inspect.getmodule(method))
    found = _classes_of(hint)
    return None if object in found else (found, _said(hint))


def fits(value: object, hint: Any) -> bool:
    """Whether the value is of the type. What cannot be told is right."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _WRAPPED:
        limits = [one for one in arguments[1:] if isinstance(one, msgspec.Meta)]
        return fits(value, arguments[0]) and all(_within(value, one) for one in limits)
    if origin in _UNIONS:
        return any(fits(value, one) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is type:
        return isinstance(value, type) and issubclass(value, _classes_of(arguments[0]))
    if origin is None:
        return isinstance(value, (int, float) if hint is float else _classes(hint)) and (hint is bool or not isinstance(value, bool))
    return isinstance(value, origin) and _all_fit(value, origin, arguments)


def _all_fit(value: Any, origin: type[Any], arguments: tuple[Any, ...]) -> bool:
    if origin is tuple and Ellipsis not in arguments:
        return len(value) == len(arguments) and all(map(fits, value, arguments))
    if issubclass(origin, collections.abc.Mapping):
        return all(fits(key, arguments[0]) and fits(one, arguments[1]) for key, one in value.items())
    if issubclass(origin, collections.abc.Collection):
        return not isinstance(value, str) and all(fits(one, arguments[0]) for one in value)
    return True


def _within(value: Any, limits: msgspec.Meta) -> bool:
    return (
        (limits.gt is None or value > limits.gt)
        and (limits.ge is None or value >= limits.ge)
        and (limits.pattern is None or re.search(limits.pattern, value) is not None)
    )


@cache
def _members(struct: Hashable) -> tuple[tuple[str, Any], ...]:
    assert isinstance(struct, msgspec.StructMeta)
    return tuple(_hints(struct, struct.__struct_fields__))


@cache
def _traits(contract: Hashable) -> tuple[tuple[str, Any], ...]:
    assert isinstance(contract, type)
    names = [name for kind in contract.__mro__ for name in _annotations(kind) if not name.startswith("_")]
    return tuple((name, hint) for name, hint in _hints(contract, names) if typing.get_origin(hint) is typing.ClassVar)


def _hints(owner: type[Any], names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    for name in names:
        kind = next(kind for kind in owner.__mro__ if name in _annotations(kind))
        yield name, _hint_of(_annotations(kind)[name], inspect.getmodule(kind))


def _annotations(kind: Callable[..., Any]) -> dict[str, Any]:
    """Those of a function, or of a class itself. Since Python 3.14 they are made when asked for (PEP 749), some of absent names."""
    if sys.version_info >= (3, 14):
        return annotationlib.get_annotations(kind, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(kind)


def _hint_of(hint: Any, module: types.ModuleType | None) -> Any:
    """A type as it is meant, ``object`` for the words of one that is imported by type checkers alone."""
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, vars(module) if module else {})  # noqa: S307  # the words stand in the source of a contract
    except (NameError, AttributeError):
        return object


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)


def _classes(hint: Any) -> tuple[type[Any], ...]:
    """What isinstance can ask of a value of this type; ``object`` where it can ask nothing."""
    hint = typing.get_origin(hint) or hint
    if hint is None:
        return (types.NoneType,)
    if hint is collections.abc.Callable or not isinstance(hint, type) or getattr(hint, "_is_protocol", False):
        return (object,)
    return (hint,)


def _classes_of(hint: Any) -> tuple[type[Any], ...]:
    return tuple(kind for one in _alternatives(hint) for kind in _classes(one))


def _said(hint: Any) -> str:
    """A type in the words of a message."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _WRAPPED:
        return _said(arguments[0]) + "".join(_limits(one) for one in arguments[1:] if isinstance(one, msgspec.Meta))
    if origin in _UNIONS:
        return " or ".join(_said(one) for one in arguments)
    if origin is typing.Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if word := _WORDS.get(origin or hint):
        return word
    if origin is None and isinstance(hint, type):
        return f"{'an' if hint.__name__[0] in 'AEIO' else 'a'} {hint.__name__}"
    return f"of the type {_SAID.sub('', _VARIABLE.sub('', str(hint)))}"


def _limits(limits: msgspec.Meta) -> str:
    said = [f" above {limits.gt}" if limits.gt is not None else "", f" of {limits.ge} or more" if limits.ge is not None else ""]
    return "".join([*said, f" like {limits.pattern}" if limits.pattern is not None else ""])


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."
