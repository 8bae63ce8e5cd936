"""What admin requests have in common: pages of a list, filters, moments as Unix seconds, a body that may be absent."""

import re
from typing import TypeVar

import msgspec

from greatseal.api.http import Call
from greatseal.api.problems import BadRequest

T = TypeVar("T")

SECOND = 1_000_000
LARGEST = 2**63 - 1
"""The largest integer that both databases know."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Page(msgspec.Struct, frozen=True):
    """Which part of a list is wanted."""

    limit: int
    offset: int


def page_of(call: Call, *, most: int = 100) -> Page:
    """``limit`` and ``offset`` of the query: too much is cut to what there may be, no number is refused (ruling R90)."""
    return Page(_number(call, "limit", 1, most, most), _number(call, "offset", 0, 0, LARGEST))


def filter_of(call: Call, name: str) -> str | None:
    """A value that a list is filtered by, None when it is not given."""
    value = call.query.get(name)
    if value is not None and _CONTROL.search(value):
        raise BadRequest(f"{name}: control characters are not possible")
    return value


def seconds(moment: int) -> int:
    """Microseconds as a Unix timestamp."""
    return moment // SECOND


async def optional_body(call: Call, kind: type[T]) -> T:
    """The body as ``kind``; without one, ``kind()``."""
    return await call.body(kind) if await call.raw() else kind()


def _number(call: Call, name: str, least: int, default: int, most: int) -> int:
    text = call.query.get(name)
    if text is None:
        return default
    digits = text.lstrip("0") or "0"
    if not (text.isascii() and text.isdigit()) or (len(digits) < 20 and int(digits) < least):
        raise BadRequest(f"{name}: expected a whole number from {least}")
    return most if len(digits) > 19 else min(int(digits), most)
