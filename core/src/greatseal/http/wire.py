"""A Reply as bytes on the connection: safe headers, the headers that every answer carries, and whether the connection lives on."""

import re
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from aiohttp import HttpVersion10, web
from aiohttp.abc import AbstractStreamWriter

from greatseal.api.http import Reply, Style
from greatseal.http.body import is_large

DRAINED_BYTES = 65536
"""A body that nobody wanted is read to its end, so that the connection can be used again, up to this declared length."""

_FORBIDDEN = re.compile(r"[^\t\x20-\x7e]")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = frozenset({"connection", "content-length", "content-type", "date", "keep-alive", "transfer-encoding"})
_STATUS_LINES = MappingProxyType({status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus})
_EMPTY_STATUSES = frozenset({204, 304})
_FEW_VALUES = frozenset({"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Cache-Control", "ETag", "Pragma", "Vary"})
"""Headers with few values in a service, none of them a secret: their lines are made once."""

_ALWAYS = MappingProxyType(
    {
        "cache-control": "Cache-Control: no-store\r\n",
        "x-content-type-options": "X-Content-Type-Options: nosniff\r\n",
        "referrer-policy": "Referrer-Policy: no-referrer\r\n",
    }
)
_PAGE = MappingProxyType(
    {
        **_ALWAYS,
        "content-security-policy": "Content-Security-Policy: default-src 'self'; base-uri 'none'; frame-ancestors 'none'\r\n",
        "x-frame-options": "X-Frame-Options: DENY\r\n",
    }
)
_ALWAYS_TEXT, _PAGE_TEXT = "".join(_ALWAYS.values()), "".join(_PAGE.values())


class UnsafeHeader(ValueError):
    """A handler gave a header that must not be sent; it names the header, never the value."""


def head_of(reply: Reply, style: Style) -> str:
    """The header lines of ``reply`` and those that each answer of its style has unless the handler said otherwise.

    Answers are ``no-store`` unless the handler sets Cache-Control. Raises UnsafeHeader for control characters and what is not ASCII,
    and for the headers of this layer.
    """
    headers, content_type = reply.headers, reply.content_type
    if not headers:
        text = _PAGE_TEXT if style == "page" else _ALWAYS_TEXT
        return text if content_type is None else _content_type(content_type) + text
    if _FEW_VALUES.issuperset([name for name, _ in headers]):
        return _known_head(headers, content_type, style)
    return _head(headers, content_type, style)


def _head(headers: tuple[tuple[str, str], ...], content_type: str | None, style: Style) -> str:
    given = {name.lower() for name, _ in headers}
    defaults = _PAGE if style == "page" else _ALWAYS
    lines = [line for name, line in defaults.items() if name not in given]
    for name, value in headers:
        if _NAME.fullmatch(name) is None or _FORBIDDEN.search(value) is not None or name.lower() in _OURS:
            raise UnsafeHeader(f"the header {name!r} cannot be sent")
        lines.append(f"{name}: {value}\r\n")
    if content_type is not None:
        lines.insert(0, _content_type(content_type))
    return "".join(lines)


_known_head = lru_cache(256)(_head)


@lru_cache(64)
def _content_type(value: str) -> str:
    if _FORBIDDEN.search(value) is not None:
        raise UnsafeHeader("the header 'Content-Type' cannot be sent")
    return f"Content-Type: {value}\r\n"


class WireResponse(web.StreamResponse):
    """A whole answer in one write."""

    def __init__(self, status: int, head: str, body: bytes) -> None:
        super().__init__(status=status)
        self._head = head
        self._whole = body

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        protocol: Any = request.protocol
        if hasattr(protocol, "send"):
            await protocol.send(self.encoded(request))
        elif request.transport is not None:  # aiohttp serves by itself
            request.transport.write(self.encoded(request))
        return request.writer

    def encoded(self, request: web.BaseRequest) -> bytes:
        """What goes over the wire; decides whether the connection lives on."""
        keep = self._keep_alive is not False and keeps_alive(request)
        self._keep_alive = keep
        status, body = self._status, self._whole
        line = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n"
        length = "" if status in _EMPTY_STATUSES else f"Content-Length: {len(body)}\r\n"
        alive = "" if keep else "Connection: close\r\n"
        if keep and request.version == HttpVersion10:
            alive = "Connection: keep-alive\r\n"
        head = f"{line}{self._head}{length}{alive}Date: {_http_date(int(time.time()))}\r\n\r\n".encode("ascii")
        return head if status in _EMPTY_STATUSES or request.method == "HEAD" else head + body

    async def write_eof(self, data: bytes = b"") -> None:
        """Everything was written by :meth:`prepare`."""


def keeps_alive(request: web.BaseRequest) -> bool:
    """Whether another request may follow on the connection of this one, which is answered now."""
    if not request.keep_alive:
        return False
    protocol: Any = request.protocol
    if getattr(protocol, "closing", False):
        return False
    return request.content.is_eof() or _worth_draining(request)


def _worth_draining(request: web.BaseRequest) -> bool:
    headers = request.headers
    return (
        request.content_length is not None
        and not is_large(request, DRAINED_BYTES)
        and not ("Expect" in headers or "Content-Encoding" in headers)
    )


@lru_cache(maxsize=2)
def _http_date(second: int) -> str:
    return formatdate(second, usegmt=True)
