"""From a table of a configuration file to a Struct: every mistake in it, by its key, once."""

import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from greatseal.api.declarations import Secret

_KEY = re.compile(r"[A-Za-z0-9_-]+")
_WRONG = (msgspec.ValidationError, ValueError)


class Place(msgspec.Struct, frozen=True):
    """Where something stands in the file: a table, and perhaps what is inside of it."""

    table: str
    """The table as it is written: ``[rbac]``, ``[[rbac.role]] #2`` for the second of several."""
    name: str
    """What an array of tables in it is named after; empty where one has no header of its own."""
    inside: str = ""

    @classmethod
    def of(cls, section: str, number: int | None = None) -> "Place":
        """A section, or one of several tables of it, counted from 1."""
        return cls(f"[{section}]", section) if number is None else cls(f"[[{section}]] #{number}", "")

    def key(self, key: str) -> "Place":
        """A key of the table that stands here."""
        return msgspec.structs.replace(self, inside=f"{self.inside}.{dotted(key)}" if self.inside else dotted(key))

    def item(self, index: int, value: object) -> "Place":
        """An item of the list that stands here."""
        if isinstance(value, dict) and self.name:
            return Place.of(f"{self.name}.{self.inside}", index + 1)
        return msgspec.structs.replace(self, inside=f"{self.inside}[{index}]")

    def __str__(self) -> str:
        return f"{self.table} {self.inside}".rstrip()


class Decoded(msgspec.Struct, frozen=True):
    """What a table says. ``value`` leaves out what is wrong, and is None where nothing can stand without it."""

    value: msgspec.Struct | None
    problems: list[str]
    refused: frozenset[str]
    """The keys that are there and wrong."""


def decode(table: Mapping[str, object], struct: type[msgspec.Struct], where: Place) -> Decoded:
    """The Struct of the table that stands at ``where``. Its own keys may belong to others; inside of them every key must be known."""
    problems: list[str] = []
    given: dict[str, object] = {}
    refused: set[str] = set()
    for field in msgspec.structs.fields(struct):
        key = field.encode_name
        if key not in table:
            if field.required:
                problems.append(f"{where.key(key)}: must be given")
            continue
        problems += _unknown(table[key], field.type, where.key(key))
        try:
            given[field.name] = _converted(table[key], field.type)
        except _WRONG as error:
            refused.add(key)
            problems += [f"{place}: {reason}" for place, reason in _faults(error, table[key], field.type, where.key(key))]
    value, wrong = _made(struct, given, refused)
    return Decoded(value, problems + [f"{where} {problem}" for problem in wrong], frozenset(refused))


def dotted(key: str) -> str:
    """The key as it stands in a dotted name of TOML: quoted unless it is a bare one."""
    return key if _KEY.fullmatch(key) else json.dumps(key)


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint that a name is misspelt, empty where none is like it."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def shown(value: object) -> str:
    """What kind of thing a file has there."""
    names = {str: "a string", int: "an integer", bool: "true or false", list: "a list", dict: "a table", float: "a number"}
    return names.get(type(value), type(value).__name__)


def _made(struct: type[msgspec.Struct], given: Mapping[str, object], refused: set[str]) -> tuple[msgspec.Struct | None, list[str]]:
    """The Struct of the values that are right, and what its own rules (``__post_init__``) say of them.

    A rule may stop at the first mistake, so it is asked again without the values that it named. What it then says of a key that was
    left out is no news.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    values, absent, problems = dict(given), set(refused), list[str]()
    while all(field.name in values for field in fields.values() if field.required):
        try:
            return struct(**values), problems
        except ValueError as error:
            told = _apart(str(error), fields)
        problems += [one for one in told if absent.isdisjoint(_KEY.findall(one))]
        named = {word.group() for one in told if (word := _KEY.match(one))}
        culprits = {key for key in named & fields.keys() if fields[key].name in values}
        if not culprits:
            break
        absent |= culprits
        for key in culprits:
            del values[fields[key].name]
    return None, problems


def _apart(text: str, keys: Mapping[str, object]) -> list[str]:
    """The problems that a Struct told as one: each begins with its key."""
    names = "|".join(map(re.escape, keys))
    return re.split(rf"; (?=(?:{names}): )", text)


def _faults(error: Exception, value: object, kind: Any, place: Place) -> list[tuple[Place, str]]:
    """What is wrong with a value that ``error`` speaks of: the place inside of it, and the reason."""
    faults: list[tuple[Place, str]] = []
    for where, part, of in _parts(value, kind, place):
        try:
            _converted(part, of)
        except _WRONG as inner:
            faults += _faults(inner, part, of, where)
    faults += [(place.key(key), "must be given") for key in _missing(value, kind)]
    return faults or [(place, _reason(error, value, kind))]


def _unknown(value: object, kind: Any, place: Place) -> Iterator[str]:
    """The keys inside of a value that its Struct does not have: what is misspelt would have no effect, in silence."""
    for struct in _fitting(value, kind):
        if isinstance(value, dict) and _is(struct, msgspec.Struct):
            names = [field.encode_name for field in msgspec.structs.fields(struct)]
            for key in value:
                if key not in names and key != struct.__struct_config__.tag_field:
                    yield f"{place.key(key)}: unknown key{nearest(key, names) or '; expected ' + ', '.join(names)}"
    for where, part, of in _parts(value, kind, place):
        yield from _unknown(part, of, where)


def _converted(value: object, kind: Any) -> object:
    return msgspec.convert(value, kind, strict=True, dec_hook=_decode_hook)


def _parts(value: object, kind: Any, place: Place) -> Iterator[tuple[Place, object, Any]]:
    """The values inside of a value, each with its place and the type that it should have."""
    for one in _fitting(value, kind):
        origin, arguments = get_origin(one) or one, get_args(one)
        match value:
            case dict() if _is(origin, msgspec.Struct):
                fields = {field.encode_name: field.type for field in msgspec.structs.fields(one)}
                yield from ((place.key(key), part, fields[key]) for key, part in value.items() if key in fields)
            case dict() if _is(origin, Mapping) and len(arguments) == 2:
                yield from ((place.key(key), part, arguments[1]) for key, part in value.items())
            case list() if _is(origin, tuple) and arguments[1:] != (...,):
                yield from ((place.item(index, part), part, of) for index, (part, of) in enumerate(zip(value, arguments, strict=False)))
            case list() if _is(origin, (Sequence, set, frozenset)) and arguments:
                yield from ((place.item(index, part), part, arguments[0]) for index, part in enumerate(value))


def _missing(value: object, kind: Any) -> list[str]:
    for one in _fitting(value, kind):
        if isinstance(value, dict) and _is(one, msgspec.Struct):
            return [field.encode_name for field in msgspec.structs.fields(one) if field.required and field.encode_name not in value]
    return []


def _fitting(value: object, kind: Any) -> list[Any]:
    """The alternatives of a type, of tagged Structs the one that the table names."""
    return [one for one in _alternatives(kind) if not isinstance(value, dict) or _is_tagged(value, one)]


def _is_tagged(value: Mapping[str, object], kind: Any) -> bool:
    config = kind.__struct_config__ if _is(kind, msgspec.Struct) else None
    return config is None or config.tag_field is None or value.get(config.tag_field) == config.tag


def _alternatives(kind: Any) -> list[Any]:
    """The type, or each of a union, without what is only annotated."""
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0])
    if get_origin(kind) in {Union, UnionType}:
        return [one for alternative in get_args(kind) for one in _alternatives(alternative)]
    return [kind]


def _is(kind: Any, wanted: Any) -> bool:
    return isinstance(kind, type) and kind is not str and issubclass(kind, wanted)


def _decode_hook(kind: type, value: object) -> object:
    if kind is Path:
        if isinstance(value, str) and value:
            return Path(value)
        raise ValueError(f"Expected a path, got {shown(value)}")
    if kind is Secret:
        return Secret(_secret(value))
    raise NotImplementedError(kind)  # what msgspec wants to hear of a type that a hook does not know


def _secret(value: object) -> str:
    match value:
        case str() if value:
            return value
        case {"file": str(name), **rest} if not rest:
            try:
                return Path(name).read_text(encoding="utf-8").rstrip("\n")
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(f"the secret's file {name} cannot be read: {error}") from None
        case {"env": str(name), **rest} if not rest:
            if found := os.environ.get(name):
                return found
            raise ValueError(f"the environment variable {name} of the secret is not set")
        case _:
            raise ValueError('Expected a string, { file = "..." } or { env = "..." }')


_NAMES = {
    "str": "a string",
    "int": "an integer",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "float": "a number",
}
_TYPES = re.compile(r"`([a-z]+(?: \| [a-z]+)*)`")


def _reason(error: Exception, value: object, kind: Any) -> str:
    """The sentence of msgspec, in the words of a configuration file; also what was found out of bounds, and what was expected of names."""
    text = str(error)
    names = [repr(name) for one in _alternatives(kind) if get_origin(one) is Literal for name in get_args(one)]
    if names and isinstance(value, str):
        return f"invalid enum value {value!r}; expected {' or '.join(names)}"
    bounded = isinstance(value, int | float) and re.search(r"` [<>]=? ", text)
    text = _TYPES.sub(_named, text)
    return text[:1].lower() + text[1:] + (f", found {value}" if bounded else "")


def _named(types: re.Match[str]) -> str:
    names = types[1].split(" | ")
    if not set(names) <= {*_NAMES, "null"}:  # the name of a key
        return types[0]
    return " or ".join(_NAMES[name] for name in names if name != "null") or "nothing"
