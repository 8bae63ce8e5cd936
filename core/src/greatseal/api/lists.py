"""Lists with pages by key: ``limit`` and ``after`` in the query, the next page as a link (RFC 8288).

A page is read by the key of the last thing of the page before it, so that the thousandth costs no more than the first, and what is made or
deleted meanwhile shifts none of them. What ``after`` takes is the business of the list: callers follow the link.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from greatseal.api.http import Call, Reply
from greatseal.api.problems import BadRequest

T = TypeVar("T")

USUAL = 100
"""Things on a page when the caller does not say."""
MOST = 1000
"""Things on a page at most."""
LARGEST = 2**63 - 1
"""The largest integer that both databases know."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MOMENT = re.compile(r"([0-9]{1,19})\.(.{1,255})", re.ASCII)
_PARAMETER = re.compile(r"\{([a-z][a-z0-9_]*)\*?\}")


class Page(msgspec.Struct, frozen=True):
    """Which part of a list is wanted: at most ``limit`` things that come after the key ``after``, "" for the first page."""

    limit: int
    after: str

    @property
    def wanted(self) -> int:
        """How many to read: one more than are shown tells whether there is a next page."""
        return self.limit + 1

    def moment(self, first: int = -1) -> tuple[int, str]:
        """``after`` as :func:`moment_key` made it: a moment and an id, for lists in the order of time; ``first`` for the first page."""
        if not self.after:
            return first, ""
        parts = _MOMENT.fullmatch(self.after)
        if parts is None or int(parts[1]) > LARGEST:
            raise BadRequest("after: expected what the link to the next page says")
        return int(parts[1]), parts[2]

    def of(self, things: Iterable[T], key: Callable[[T], str]) -> list[T]:
        """The page of a list that is in memory, in the order of its keys."""
        return sorted((one for one in things if key(one) > self.after), key=key)[: self.wanted]


def page_of(call: Call) -> Page:
    """``limit`` and ``after`` of the query. Too large a limit is cut to what there may be, no number is refused."""
    if "offset" in call.query:
        raise BadRequest("offset: this list has pages by key; follow the link to the next one")
    return Page(number_of(call, "limit", least=1, default=USUAL, most=MOST), filter_of(call, "after") or "")


def listed(call: Call, base: str, page: Page, things: Sequence[T], *, key: Callable[[T], str], shown: Callable[[T], Any]) -> Reply:
    """A page as a JSON array; with more ``things`` than it may have, the link to the next one. ``base`` is the issuer or base URL."""
    reply = Reply.json([shown(one) for one in things[: page.limit]])
    if len(things) <= page.limit:
        return reply
    return reply.with_headers(next_link(call, base, limit=str(page.limit), after=key(things[page.limit - 1])))


def next_link(call: Call, base: str, **changes: str) -> tuple[str, str]:
    """The header that leads to the next page: this URL with ``changes`` of its query."""
    path = _PARAMETER.sub(lambda name: quote(call.path[name[1]], safe=""), call.route.path)
    return "Link", f'<{base}{path}?{urlencode({**call.query, **changes})}>; rel="next"'


def moment_key(moment: int, id: str) -> str:
    """The key of a thing in a list in the order of time."""
    return f"{moment}.{id}"


def filter_of(call: Call, name: str) -> str | None:
    """A text of the query that a list is filtered by, None when it is not given."""
    value = call.query.get(name)
    if value is not None and _CONTROL.search(value):
        raise BadRequest(f"{name}: control characters are not possible")
    return value


def number_of(call: Call, name: str, *, least: int, default: int, most: int) -> int:
    """A whole number of the query: cut to ``most``, refused below ``least``."""
    text = call.query.get(name)
    if text is None:
        return default
    digits = text.lstrip("0") or "0"
    if not (text.isascii() and text.isdigit()) or (len(digits) < 20 and int(digits) < least):
        raise BadRequest(f"{name}: expected a whole number from {least}")
    return most if len(digits) > 19 else min(int(digits), most)
