"""The configuration keys of rich authorization requests: `[[oauth.authorization_details]]`."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import msgspec

PLACE = re.compile(r"\{([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)?)\}")
"""Where a value stands in a sentence: a member, or one of an object."""
COMMON: Mapping[str, str] = {
    "locations": "list of text",
    "actions": "list of text",
    "datatypes": "list of text",
    "identifier": "text",
    "privileges": "list of text",
}
"""Members that have one meaning in every type, with what they hold (RFC 9396 s2.2)."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
Sentence = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    """A member of an object in an authorization detail."""

    type: Literal["text", "decimal", "integer", "boolean", "list of text"] = "text"
    """What it holds; decimal is a number without sign in a text, such as `"12.50"`."""
    required: bool = False
    """Whether every object has it."""
    values: tuple[str, ...] = ()
    """The texts that it may be; any text in one line when left out."""

    def __post_init__(self) -> None:
        _check_values(self.type, self.values)


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A member of an authorization detail."""

    type: Literal["text", "decimal", "integer", "boolean", "list of text", "object"] = "text"
    """What it holds; decimal is a number without sign in a text, such as `"12.50"`."""
    required: bool = False
    """Whether every detail of the type has it."""
    values: tuple[str, ...] = ()
    """The texts that it may be; any text in one line when left out."""
    members: Mapping[str, Inner] = {}
    """The members of an object."""

    def __post_init__(self) -> None:
        _check_values(self.type, self.values)
        if bool(self.members) != (self.type == "object"):
            raise ValueError('members: given for the type "object", and for no other')
        _check_names(self.members)


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """[[oauth.authorization_details]]: a type of authorization details (RFC 9396)."""

    type: Annotated[str, msgspec.Meta(pattern=r"^[\x21-\x7e]{1,200}$")]
    """The type as clients name it."""
    sentence: Sentence
    """What the person reads, with `{member}` or `{object.member}` where a value stands; such a member is required."""
    lines: tuple[Sentence, ...] = ()
    """Sentences below it, each shown when all of its values are there. Whatever no sentence tells is shown by its name."""
    members: Mapping[str, Member] = {}
    """The members that a detail may have beside `type`; others are refused."""
    without_person: bool = False
    """Whether a client that is registered for the type may have it for itself (client_credentials)."""

    def __post_init__(self) -> None:
        _check_names(self.members)
        for name, member in self.members.items():
            if name == "type":
                raise ValueError("members: type is always there and not declared")
            if member.type != COMMON.get(name, member.type):
                raise ValueError(f'members: {name} has the type "{COMMON[name]}" in every type (RFC 9396 s2.2)')
        optional = [place for place in _places("sentence", self.sentence, self.members) if not _is_required(self.members, place)]
        if optional:
            raise ValueError(f"sentence: {{{optional[0]}}} is not required, so it may be missing; require it, or put it into lines")
        for line in self.lines:
            if not list(_places("lines", line, self.members)):
                raise ValueError("lines: each has a place for a value, such as {actions}; what is always said belongs into sentence")


class DetailSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[oauth], the part of rich authorization requests."""

    authorization_details: tuple[Declaration, ...] = ()
    """Types of authorization details."""

    def __post_init__(self) -> None:
        names = [one.type for one in self.authorization_details]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"authorization_details: the type {twice[0]!r} is declared twice")


def _check_values(type: str, values: tuple[str, ...]) -> None:
    if values and type not in {"text", "list of text"}:
        raise ValueError('values: given for the types "text" and "list of text"')
    if not all(value and value.isprintable() for value in values):
        raise ValueError("values: expected texts in one line")


def _check_names(members: Mapping[str, object]) -> None:
    if not all(map(_NAME.fullmatch, members)):
        raise ValueError("members: expected names of letters, digits, _ and -")


def _places(key: str, text: str, members: Mapping[str, Member]) -> Iterator[str]:
    """The places of a sentence. Raises ValueError for one where no value can stand."""
    if not text.isprintable():
        raise ValueError(f"{key}: expected one line")
    if set("{}") & set(PLACE.sub("", text)):
        raise ValueError(f"{key}: a brace that is no place; a place is {{member}} or {{object.member}}")
    for place in PLACE.findall(text):
        name, _, inner = place.partition(".")
        member = members.get(name)
        if member is None or (inner not in member.members if inner else member.type == "object"):
            raise ValueError(f"{key}: {{{place}}} is no value; name a declared member, of an object one of its members")
        yield place


def _is_required(members: Mapping[str, Member], place: str) -> bool:
    name, _, inner = place.partition(".")
    return members[name].required and (not inner or members[name].members[inner].required)
