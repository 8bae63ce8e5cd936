"""A type of authorization details that the configuration declares."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from greatseal.api.authorization import Shown
from greatseal.api.clients import Client
from greatseal.api.details import DetailType, InvalidAuthorizationDetails
from greatseal_rar.settings import PLACE, Declaration, Inner, Member

LONGEST = 500
"""Characters of a text: a person reads it."""
MANY = 100
"""Items of a list."""

_DECIMAL = re.compile(r"(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,6})?")
_MAX_INTEGER = 2**53 - 1  # RFC 8259 s6: what every reader has in full
_QUOTES = str.maketrans("“”„", '"""')
_EXPECTED = {
    "text": f"a text in one line of 1 to {LONGEST} characters",
    "decimal": "a number without sign in a text",
    "integer": "an integer of at most 53 bits",
    "boolean": "true or false",
    "list of text": f"a list of 1 to {MANY} texts in one line, none twice",
    "object": "an object",
}


class Declared(DetailType):
    """What a detail holds is what its declaration says, and nothing else."""

    def __init__(self, declaration: Declaration) -> None:
        self.name = declaration.type  # type: ignore[misc]  # one class, and a component for each declaration
        self._declaration = declaration

    def check(self, detail: Mapping[str, Any], client: Client) -> None:  # noqa: ARG002  # alike for every client
        beside = {name: value for name, value in detail.items() if name != "type"}
        _check_members("", beside, self._declaration.members)
        for name, member in self._declaration.members.items():
            if member.members and name in detail:
                _check_members(f"{name}.", detail[name], member.members)

    async def shown(self, detail: Mapping[str, Any], subject: str) -> Shown:  # noqa: ARG002  # alike for everybody
        values = dict(self._values(detail))
        lines = [line for line in self._declaration.lines if values.keys() >= set(PLACE.findall(line))]
        told = {place for text in (self._declaration.sentence, *lines) for place in PLACE.findall(text)}
        rest = [f"{place}: {value}" for place, value in values.items() if place not in told]
        return Shown(title=_filled(self._declaration.sentence, values), lines=(*(_filled(line, values) for line in lines), *rest))

    def for_itself(self, client: Client) -> bool:  # noqa: ARG002  # alike for every client
        return self._declaration.without_person

    def _values(self, detail: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """The words for each value that is there, by its place."""
        for name, member in self._declaration.members.items():
            if name not in detail:
                continue
            if not member.members:
                yield name, _words(detail[name], member)
            for inner, of in member.members.items():
                if inner in detail[name]:
                    yield f"{name}.{inner}", _words(detail[name][inner], of)


def _check_members(where: str, given: Mapping[str, Any], declared: Mapping[str, Member] | Mapping[str, Inner]) -> None:
    """Raises InvalidAuthorizationDetails, which names members of the declaration alone."""
    if not given.keys() <= declared.keys():
        raise InvalidAuthorizationDetails(f"{where.rstrip('.') or 'it'} has a member that the type does not declare (RFC 9396 s5)")
    for name, member in declared.items():
        if name not in given:
            if member.required:
                raise InvalidAuthorizationDetails(f"{where}{name} is required (RFC 9396 s5)")
        elif not _holds(given[name], member):
            expected = f"one of {', '.join(member.values)}" if member.type == "text" and member.values else _EXPECTED[member.type]
            raise InvalidAuthorizationDetails(f"{where}{name}: expected {expected} (RFC 9396 s5)")


def _holds(value: Any, member: Member | Inner) -> bool:
    match member.type:
        case "text":
            return _is_text(value, member)
        case "decimal":
            return isinstance(value, str) and _DECIMAL.fullmatch(value) is not None
        case "integer":
            return type(value) is int and abs(value) <= _MAX_INTEGER
        case "boolean":
            return isinstance(value, bool)
        case "list of text":
            return isinstance(value, list) and 1 <= len(value) <= MANY and _are_texts(value, member)
        case "object":
            return isinstance(value, dict)


def _are_texts(values: list[Any], member: Member | Inner) -> bool:
    return all(_is_text(value, member) for value in values) and len(set(values)) == len(values)


def _is_text(value: Any, member: Member | Inner) -> bool:
    """No character that cannot be seen: what turns the direction of a line around would change what the person reads."""
    if not isinstance(value, str):
        return False
    return value in member.values if member.values else 1 <= len(value) <= LONGEST and value.isprintable()


def _words(value: Any, member: Member | Inner) -> str:
    """A value in words. A free text stands in quotes, so that it cannot pass for a part of the sentence."""
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(_words_of_text(one, member) for one in value)
        case str() if member.type == "text":
            return _words_of_text(value, member)
        case _:
            return str(value)


def _words_of_text(value: str, member: Member | Inner) -> str:
    return value if member.values else f"“{value.translate(_QUOTES)}”"


def _filled(sentence: str, values: Mapping[str, str]) -> str:
    """Each place is filled once: a value that looks like a place is a value."""
    return PLACE.sub(lambda place: values[place[1]], sentence)
