"""What a stranger sent, made safe to show in a problem."""

from collections.abc import Iterable

__all__ = ["excerpt", "listing"]

SHOWN_CHARACTERS = 100
SHOWN_VALUES = 3


def excerpt(found: bytes | str, limit: int = SHOWN_CHARACTERS) -> str:
    """The first ``limit`` characters in quotes; control characters, bidirectional marks and broken UTF-8 escaped."""
    text = found if isinstance(found, str) else found[: 4 * limit].decode(errors="backslashreplace")
    shown = "".join(_printable(character) for character in text[: limit + 1])
    return f'"{shown}"' if len(shown) <= limit else f'"{shown[:limit]}"...'


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def listing(found: Iterable[bytes | str]) -> str:
    """The first values as excerpts, and how many more there were."""
    values = list(found)
    shown = ", ".join(excerpt(value) for value in values[:SHOWN_VALUES])
    more = len(values) - SHOWN_VALUES
    return f"{shown} and {more} more" if more > 0 else shown or "nothing"
