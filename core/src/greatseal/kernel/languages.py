"""Catalogues of gettext, read when somebody first wants their language; and which language somebody gets."""

import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from importlib import resources
from importlib.util import find_spec
from typing import TYPE_CHECKING

import structlog

from greatseal.api.languages import Catalogue, Language, ranges_of
from greatseal.api.messages import Text

if TYPE_CHECKING:
    from gettext import GNUTranslations
    from importlib.abc import Traversable

ENGLISH = "en"
RIGHT_TO_LEFT = frozenset({"ar", "arc", "ckb", "dv", "fa", "he", "ks", "nqo", "ps", "sd", "syr", "ug", "ur", "yi"})
"""Languages whose usual script runs from right to left (CLDR)."""
RIGHT_TO_LEFT_SCRIPTS = frozenset({"adlm", "arab", "hebr", "nkoo", "rohg", "syrc", "thaa"})


class English:
    """The language of the source: nothing is looked up."""

    tag, rtl, plain = ENGLISH, False, True

    def text(self, text: Text) -> str:
        return str(text)

    def known(self, text: str) -> str:
        return text

    def pattern(self, one: str, many: str | None = None, count: int = 1) -> str:
        return one if many is None or count == 1 else many


class Translated:
    """A language of catalogues."""

    plain = False

    def __init__(self, tag: str, messages: "GNUTranslations") -> None:
        self.tag = tag
        self.rtl = is_right_to_left(tag)
        self._messages = messages

    def text(self, text: Text) -> str:
        if isinstance(text, str):
            return text
        count = text.values["count"] if text.many is not None else 1
        pattern = self.pattern(text.id, text.many, count if isinstance(count, int) else 1)
        if not text.values:
            return pattern
        return pattern % {name: value if isinstance(value, int) else self.text(value) for name, value in text.values.items()}

    def known(self, text: str) -> str:
        return self._messages.gettext(text) if text else text

    def pattern(self, one: str, many: str | None = None, count: int = 1) -> str:
        return self._messages.gettext(one) if many is None else self._messages.ngettext(one, many, count)


class LanguagesImpl:
    """See :class:`greatseal.api.languages.Languages`. ``wanted`` are those of the configuration, in order; all that there are without."""

    def __init__(self, catalogues: Sequence[Catalogue], wanted: Sequence[str] = ()) -> None:
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger().bind(plugin="core")
        self._packages = tuple(one.package for one in catalogues)
        self._wanted = tuple(wanted)
        self._made: dict[str, Language] = {}
        self._accepted = lru_cache(256)(self._of_header)

    @cached_property
    def found(self) -> Mapping[str, str]:
        """The tags of all catalogues and English, by their lower case."""
        tags = {file.name.removesuffix(".mo") for package in self._packages for file in _files(package)}
        return {tag.lower(): tag for tag in (ENGLISH, *sorted(tags))}

    @cached_property
    def offered(self) -> Sequence[str]:
        found = self.found
        return tuple(dict.fromkeys(found[tag.lower()] for tag in self._wanted if tag.lower() in found)) or tuple(found.values())

    def problems(self) -> Sequence[str]:
        """What is wrong with the languages of the configuration."""
        nowhere = [one for one in self._packages if one not in sys.modules and find_spec(one) is None]
        if nowhere:
            return (f"hook catalogues: there is no package {nowhere[0]!r}; name the one that has the folder locale",)
        unknown = [tag for tag in self._wanted if tag.lower() not in self.found]
        if not unknown:
            return ()
        there = ", ".join(self.found.values())
        return (f"[webui] languages: no enabled plugin has a catalogue for {', '.join(map(repr, unknown))}; there are: {there}",)

    def best(self, wanted: Iterable[str]) -> Language:
        offered = {tag.lower(): tag for tag in self.offered}
        for tag in wanted:
            if found := _nearest(tag.lower(), offered):
                return self._language(found)
        return self._language(self.offered[0])

    def of(self, headers: Mapping[str, str], first: Iterable[str] = ()) -> Language:
        accept, wanted = headers.get("Accept-Language", ""), tuple(first)
        return self.best((*wanted, *ranges_of(accept))) if wanted else self._accepted(accept)

    def _of_header(self, accept: str) -> Language:
        return self.best(ranges_of(accept))

    def _language(self, tag: str) -> Language:
        language = self._made.get(tag)
        if language is None:
            language = self._made[tag] = self._read(tag)
        return language

    def _read(self, tag: str) -> Language:
        from gettext import GNUTranslations

        chain: GNUTranslations | None = None
        for package in reversed(self._packages):
            for file in _files(package):
                if file.name != f"{tag}.mo":
                    continue
                try:
                    with file.open("rb") as stream:
                        one = GNUTranslations(stream)
                except (OSError, ValueError, struct.error) as error:
                    self._log.warning("a catalogue cannot be read", package=package, tag=tag, exc_info=error)
                    continue
                if chain is None:
                    chain = one
                else:
                    chain.add_fallback(one)
        return English() if chain is None else Translated(tag, chain)


def is_right_to_left(tag: str) -> bool:
    """Whether a language is written from right to left: by its script where the tag names one, else by what is usual."""
    first, *others = tag.lower().split("-")
    script = next((one for one in others if len(one) == 4 and one.isalpha()), None)
    return first in RIGHT_TO_LEFT if script is None else script in RIGHT_TO_LEFT_SCRIPTS


def _nearest(tag: str, offered: Mapping[str, str]) -> str | None:
    """The tag itself, or what is left when it is cut from the end (RFC 4647 s3.4), or another of that language."""
    rest = tag
    while rest:
        if rest in offered:
            return offered[rest]
        rest = rest.rpartition("-")[0]
    first = tag.partition("-")[0]
    return next((found for one, found in offered.items() if one.partition("-")[0] == first), None)


def _files(package: str) -> "list[Traversable]":
    folder = resources.files(package).joinpath("locale")
    return [file for file in folder.iterdir() if file.name.endswith(".mo")] if folder.is_dir() else []
