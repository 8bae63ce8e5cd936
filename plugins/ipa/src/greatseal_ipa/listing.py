"""Names in order, of a directory that gives them in none: LDAP servers need not sort, and most do not."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from greatseal.api.directory import DirectoryUnavailable
from greatseal_ipa.library import Entry, Found, Query

SAMPLE = 1_000
"""Names that are read at once and sorted here."""
ALPHABET = " $'+-.0123456789@_abcdefghijklmnopqrstuvwxyz"
"""What a name may go on with, where more names than a sample begin alike."""
QUESTIONS = 2_000
"""Questions for one listing; names that no person chose could need more."""


class Kind(msgspec.Struct, frozen=True):
    """What is listed: a query by prefix, one by whole names, and the name of an entry."""

    beginning: Callable[[str], Query]
    named: Callable[[Sequence[str]], Query]
    name: Callable[[Entry], str | None]


class Listing:
    """Names that come after ``after``, at most ``limit`` of them."""

    def __init__(self, ask: Callable[[Query], Awaitable[Found]], kind: Kind, *, limit: int, after: str) -> None:
        self._ask = ask
        self._kind = kind
        self._limit = limit
        self._after = after
        self._names: set[str] = set()
        self._questions = 0

    async def of(self, prefix: str) -> list[str]:
        """Those that begin with ``prefix``, in the order of Unicode code points.

        Where more than a sample do, they are looked for letter by letter: then names with a character outside of the alphabet above are
        left out. Raises DirectoryUnavailable.
        """
        await self._visit(prefix, SAMPLE)
        return sorted(self._names)[: self._limit]

    async def _visit(self, prefix: str, sample: int) -> None:
        found = await self._question(self._kind.beginning(prefix), sample)
        if found.complete:
            self._add(found, prefix)
            return
        if prefix:
            self._add(await self._question(self._kind.named([prefix]), 1), prefix)
        for letter in ALPHABET:
            longer = prefix + letter
            if longer <= self._after and not self._after.startswith(longer):
                continue  # all of them come before
            await self._visit(longer, min(SAMPLE, self._limit + 100))
            if len(self._names) >= self._limit:
                return

    async def _question(self, query: Query, limit: int) -> Found:
        self._questions += 1
        if self._questions > QUESTIONS:
            raise DirectoryUnavailable("the directory has too many names that begin alike", cause=f"{QUESTIONS} questions for one listing")
        return await self._ask(msgspec.structs.replace(query, limit=limit))

    def _add(self, found: Found, prefix: str) -> None:
        names = (self._kind.name(entry) for entry in found.entries)
        self._names.update(name for name in names if name and name > self._after and name.casefold().startswith(prefix.casefold()))
