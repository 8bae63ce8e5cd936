"""The connections of one listener, and the requests that come out of them."""

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, cast

import aiohttp
import structlog
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from greatseal.http.dispatch import Dispatcher
from greatseal.http.limits import HttpLimits

if TYPE_CHECKING:
    from greatseal.http.protocol import HttpProtocol


def own_protocol() -> "tuple[type[HttpProtocol] | None, str]":
    """The protocol of ours, or None and the internals of aiohttp (or asyncio) that it lacks in this version."""
    try:
        from greatseal.http.protocol import INTERNALS, HttpProtocol
    except ImportError as error:
        return None, str(error)
    absent = [name for name in INTERNALS if not hasattr(RequestHandler, name)]
    return (None, f"no {', '.join(absent)}") if absent else (HttpProtocol, "")


class HttpServer(web.Server):
    """Makes a protocol for every connection and a web.Request for every request.

    No web.Application is in the way of a request. ``handshaking`` holds the accepted connections that cannot carry a request yet; once
    ``stopping`` is set every answer is the last of its connection.
    """

    def __init__(self, dispatcher: Dispatcher, limits: HttpLimits, log: structlog.stdlib.BoundLogger) -> None:
        self.answer = dispatcher.handle
        handler = cast("Any", dispatcher.handle)  # aiohttp types it for BaseRequest; ours are Requests
        super().__init__(handler, request_factory=self.request_of)
        self.log = log
        self.stopping = False
        self._outbox: list[tuple[asyncio.Transport, bytes]] = []
        self.handshaking: weakref.WeakSet[RequestHandler] = weakref.WeakSet()
        self._protocol, absent = own_protocol()
        if self._protocol is None:
            told = "aiohttp serves by itself, without our limits in time: this version has not the internals that ours needs"
            log.warning(told, aiohttp=aiohttp.__version__, reason=absent)
        self._limits = limits
        self._max_body_bytes = dispatcher.max_body_bytes

    def __call__(self) -> RequestHandler:
        if self._protocol is None:
            return super().__call__()
        protocol = self._protocol(self, self._limits, asyncio.get_running_loop())
        self.handshaking.add(protocol)
        return protocol

    def protocols(self) -> "list[HttpProtocol]":
        """Of the open connections, as far as they are of ours."""
        return [] if self._protocol is None else cast("list[HttpProtocol]", self.connections)

    def send(self, transport: asyncio.Transport, answer: bytes) -> None:
        """Write at the end of this turn of the event loop: answers that go out together wake their readers once, not one by one."""
        if not self._outbox:
            self._loop.call_soon(self.flush)
        self._outbox.append((transport, answer))

    def flush(self) -> None:
        """Write what waits."""
        outbox, self._outbox = self._outbox, []
        for transport, answer in outbox:
            if not transport.is_closing():
                transport.write(answer)

    def request_of(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: RequestHandler,
        writer: AbstractStreamWriter,
        task: "asyncio.Task[None]",
    ) -> web.Request:
        """As aiohttp's request factory."""
        return web.Request(message, payload, protocol, writer, task, self._loop, client_max_size=self._max_body_bytes)
