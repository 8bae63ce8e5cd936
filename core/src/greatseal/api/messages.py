"""What people read on pages and in mails, so that it can be translated: a :class:`Message`, English in the source."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import msgspec

__all__ = ["Message", "Text", "marked", "plural"]

_NOTHING: "Mapping[str, Text | int]" = MappingProxyType({})


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text for people that pages and mails say in their language: ``Message("Try again in %(seconds)d seconds.", {"seconds": 5})``.

    ``id`` is the English text, a literal, for catalogues are made from the source. Values go where ``%(name)s`` and ``%(name)d`` are; one
    that is a Message is translated too, every other is shown as it is. With values, a percent sign is ``%%``. As a ``str`` it is English:
    that is what logs and JSON get.
    """

    id: str
    values: "Mapping[str, Text | int]" = _NOTHING
    many: str | None = None
    """The English text for other numbers than one: see :func:`plural`."""

    def __str__(self) -> str:
        pattern = self.id if self.many is None or self.values["count"] == 1 else self.many
        return pattern % self.values if self.values else pattern


def marked(text: str) -> str:
    """The text itself, which is in catalogues: for what is a ``str`` by contract, and looked up by :meth:`.languages.Language.known`."""
    return text


Text: TypeAlias = str | Message
"""What is shown to people: a Message is translated, a ``str`` is somebody's own words and shown as it is."""


def plural(one: str, many: str, count: int, values: "Mapping[str, Text | int]" = _NOTHING) -> Message:
    """A message that depends on a number, which stands in it as ``%(count)d``: ``plural("One day", "%(count)d days", 3)``."""
    return Message(one, {**values, "count": count}, many)
