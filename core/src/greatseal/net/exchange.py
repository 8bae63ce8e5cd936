"""One HTTP request over one connection (RFC 9112), with aiohttp's parser under it.

A client session would resolve, redirect, decompress, and keep cookies and connections; whoever asks strangers wants none of it, and a
session made for one request costs more than the request.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

import msgspec
from aiohttp.client_proto import ResponseHandler
from aiohttp.streams import StreamReader
from multidict import CIMultiDictProxy
from yarl import URL

__all__ = ["Answer", "Content", "Exchange", "request"]


class Answer(msgspec.Struct, frozen=True):
    """The head of a response, and its body as it comes."""

    status: int
    headers: CIMultiDictProxy[str]
    content: StreamReader


class Exchange:
    """A connection for one request. It is always cut off: nothing of the peer's is waited for once the answer was read."""

    def __init__(self, protocol: ResponseHandler) -> None:
        self._protocol = protocol

    @classmethod
    async def begun(cls, place: str | socket.socket, url: URL, tls: ssl.SSLContext | bool) -> "Exchange":
        """Connected to a literal address or over a connection, by TLS under the host of ``url`` when that is https. Raises OSError."""
        loop = asyncio.get_running_loop()
        where: dict[str, Any] = {"host": place, "port": url.port} if isinstance(place, str) else {"sock": place}
        if url.scheme == "https":
            where |= {"ssl": _context(tls), "server_hostname": (url.raw_host or "").rstrip(".")}
        try:
            _, protocol = await loop.create_connection(lambda: ResponseHandler(loop), **where)
        except ValueError as error:  # a host that TLS cannot send
            raise error if isinstance(error, OSError) else ssl.SSLError(str(error)) from error
        return cls(protocol)

    async def ask(self, request: bytes) -> Answer:
        """The final answer; interim ones (RFC 9110 s15.2) are passed over. Raises aiohttp's errors for what is no HTTP."""
        self._protocol.set_response_params(read_until_eof=True, auto_decompress=False)
        if self._protocol.transport is not None:  # else it is closed already, which read() tells
            self._protocol.transport.write(request)
        while True:
            head, content = await self._protocol.read()
            if not 100 <= head.code < 200 or head.code == 101:
                return Answer(head.code, head.headers, content)

    def end(self) -> None:
        self._protocol.abort()


class Content(msgspec.Struct, frozen=True):
    """What is POSTed."""

    media_type: str
    body: bytes

    @classmethod
    def of(
        cls, form: Mapping[str, str] | None, json: Mapping[str, object] | None, content: "tuple[str, bytes] | None" = None
    ) -> "Content | None":
        """One of the three, ``content`` with its media type; None for none."""
        if content is not None:
            return cls(*content)
        if json is not None:
            return cls("application/json", msgspec.json.encode(json))
        return None if form is None else cls("application/x-www-form-urlencoded", urlencode(form).encode())


def request(url: URL, headers: Mapping[str, str], content: Content | None) -> bytes:
    """GET ``url``, or POST ``content`` to it, as it goes over the wire."""
    body = b"" if content is None else content.body
    fields = {"Host": url.host_port_subcomponent or "", "Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close", **headers}
    if content is not None:
        fields |= {"Content-Type": content.media_type, "Content-Length": str(len(body))}
    lines = [f"{'GET' if content is None else 'POST'} {url.raw_path_qs} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    if not all(line.isprintable() for line in lines):
        raise ValueError("a header of the request has control characters")
    return "\r\n".join((*lines, "", "")).encode() + body


def _context(tls: ssl.SSLContext | bool) -> ssl.SSLContext:
    return tls if isinstance(tls, ssl.SSLContext) else _default_context(verified=tls)


@cache
def _default_context(*, verified: bool) -> ssl.SSLContext:
    context = ssl.create_default_context() if verified else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context
