"""The languages of pages and mails: where translations are, and which language somebody gets.

English is the language of the source, of logs and of JSON. What a person reads is a :class:`greatseal.api.messages.Message`, or stands in a
template between ``{% trans %}`` and ``{% endtrans %}``; catalogues have the translations of both.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from greatseal.api.messages import Text

__all__ = ["Catalogue", "Language", "Languages", "ranges_of", "tags_of"]

MAX_RANGES = 32
"""Of a header; whoever sends more is no browser."""
MAX_TAGS, MAX_TEXT = 8, 256
"""Of a parameter."""
_TAG = re.compile(r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,7}", re.ASCII)
_RANGE = re.compile(r"\s*([A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,7}|\*)\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*)?")


class Catalogue(msgspec.Struct, frozen=True):
    """Translations that a plugin brings: ``<tag>.mo`` (gettext) in the folder ``locale`` of ``package``; the tag is such as ``pt-BR``.

    All catalogues of a language are one: a plugin may translate the messages of any other. Of two translations of one message, that of the
    plugin counts that is enabled later.
    """

    package: str


class Language(Protocol):
    """One language, and how messages read in it."""

    @property
    def tag(self) -> str:
        """As in the attribute ``lang`` (RFC 5646): ``de``."""

    @property
    def rtl(self) -> bool:
        """Whether it is written from right to left."""

    @property
    def plain(self) -> bool:
        """Whether it is the English of the source, and nothing else."""

    def text(self, text: Text) -> str:
        """A Message in this language; a ``str`` as it is. English where no catalogue has it."""

    def known(self, text: str) -> str:
        """The translation of a text that was a message of ours once, such as the description of a scope in a database; else ``text``."""

    def pattern(self, one: str, many: str | None = None, count: int = 1) -> str:
        """The translation of a message with the places for its values still in it."""


class Languages(Protocol):
    """The languages of this service: English, and those of the catalogues of its plugins."""

    @property
    def offered(self) -> Sequence[str]:
        """Their tags; the first is that of who wishes no other. `[webui] languages`, else English and then the others."""

    def best(self, wanted: Iterable[str]) -> Language:
        """The first wish that is offered, or that a near one is (RFC 4647 s3.4): ``de-AT`` finds ``de``. Else the first offered."""

    def of(self, headers: Mapping[str, str], first: Iterable[str] = ()) -> Language:
        """That of the answer to a request: of ``first``, then of the ``Accept-Language`` of its browser (RFC 9110 s12.5.4)."""


def ranges_of(accept: str) -> tuple[str, ...]:
    """The language ranges of an Accept-Language, best first; what is malformed is passed over, and so is what is not wanted (``q=0``)."""
    ranges: list[tuple[float, str]] = []
    for part in accept.split(",", MAX_RANGES)[:MAX_RANGES]:
        found = _RANGE.fullmatch(part)
        if found is not None and found[1] != "*" and (weight := float(found[2] or 1)) > 0:
            ranges.append((-weight, found[1]))
    return tuple(tag for _, tag in sorted(ranges, key=lambda one: one[0]))


def tags_of(text: str) -> tuple[str, ...]:
    """The tags of a parameter ``ui_locales`` (OpenID Connect Core s3.1.2.1), best first; what is none is passed over."""
    return tuple(tag for tag in text[:MAX_TEXT].split() if _TAG.fullmatch(tag))[:MAX_TAGS]
