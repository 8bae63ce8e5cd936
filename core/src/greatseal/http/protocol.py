"""One connection: aiohttp's protocol with limits in size and time on what a client may send, and clean endings.

aiohttp has no time limit for a request head, a body or a silent connection, none for the whole of a head, and closes an idle
connection so that a request already on its way is answered with a reset. This subclass adds that, and answers a request that came
alone and whole at once, where aiohttp makes a task of it. It relies on internals of aiohttp: without one of :data:`INTERNALS`, or of
what is imported here, :class:`greatseal.http.server.HttpServer` leaves connections to aiohttp.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.http import HttpProcessingError, RawRequestMessage, StreamWriter
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import MAX_MSG_QUEUE_SIZE, RequestHandler, RequestPayloadError, _ErrInfo

from greatseal.api.problems import Problem, RequestTimeout
from greatseal.http.body import BodyTimeout
from greatseal.http.connection import ConnectionState, peer_of
from greatseal.http.eager import begin
from greatseal.http.heads import HeadRefused, fault_of, head_size, problem_of, too_large
from greatseal.http.limits import HttpLimits
from greatseal.http.render import render
from greatseal.http.wire import WireResponse, head_of

if TYPE_CHECKING:
    from greatseal.http.server import HttpServer

INTERNALS = (
    "_current_request", "_handler_waiter", "_keepalive_handle", "_loop", "_manager", "_messages", "_next_keepalive_close_time", "_parser",
    "_process_keepalive", "_request_count", "_request_factory", "_request_handler", "_request_in_progress", "_task_handler", "_waiter",
)  # fmt: skip
"""The names of aiohttp's RequestHandler that are used here and are not its public ones."""


class HttpProtocol(RequestHandler):
    """A connection of :class:`~greatseal.http.server.HttpServer`."""

    __slots__ = (
        "__weakref__",
        "_body",
        "_deaf",
        "_gone",
        "_head_bytes",
        "_held",
        "_limits",
        "_raw_bytes",
        "_server",
        "_serving",
        "_timer",
        "connection",
    )

    def __init__(self, server: "HttpServer", limits: HttpLimits, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=limits.idle_seconds,
            access_log=None,  # type: ignore[arg-type]  # aiohttp's way to switch it off
            max_line_size=limits.line_bytes,
            max_field_size=limits.head_bytes,
            max_headers=limits.header_count,
            lingering_time=limits.linger_seconds,
        )
        self._server = server
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._body: StreamReader | None = None
        self._gone: asyncio.Future[None] | None = None
        self._head_bytes = self._raw_bytes = 0
        self._deaf = False
        self._held = False
        """The parser may have stopped at a full queue, by its own count, and keep requests back."""
        self._serving = False
        """A request is answered outside of aiohttp's own loop over requests, which waits meanwhile."""
        self.connection: ConnectionState | None = None

    @property
    def closing(self) -> bool:
        """Whether the answer to the current request is the last."""
        return self._server.stopping or (self._deaf and not self._messages)

    @property
    def fresh(self) -> bool:
        """Whether no request came yet."""
        return self._request_count == 0

    @property
    def idle(self) -> bool:
        """Whether it waits for the first byte of a request."""
        return (
            self._is_waiting()
            and not self._serving
            and not self._messages
            and not self._head_bytes
            and self._body is None
            and not self._deaf
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.handshaking.discard(self)
        self._arm(self._limits.head_seconds)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._disarm()
        if self._body is not None:
            # aiohttp tells a handler, but not itself while it drains a body that nobody wanted.
            self._body.set_exception(ConnectionResetError("Connection lost"))
            self._body = None
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        before = self._request_count
        waiter, self._waiter = self._waiter, None  # or aiohttp would wake its loop
        try:
            super().data_received(data)
        finally:
            self._waiter = waiter
        if self._request_count != before:
            self._heads_received(self._request_count - before, len(data))
        elif self._body is not None:
            self._body_received(self._body, len(data))
        elif data and not self._upgraded:
            self._head_received(len(data))
        if self._messages and self._is_waiting() and not self._serving:
            self._next_request()

    def resume_reading(self, resume_parser: bool = True) -> None:  # the parameters are aiohttp's
        # A body that is read calls this each time, and aiohttp's parser then looks for bytes that only a pause leaves behind.
        if self._reading_paused:
            super().resume_reading(resume_parser)

    async def send(self, answer: bytes) -> None:
        """Send an answer; first wait until the client has read enough of those before. Raises ConnectionError.

        That of aiohttp's loop over requests goes out now: the loop may answer the next request, or close, within the same turn.
        """
        if self._paused:
            await self._drain_helper()
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("Connection lost")
        if self._serving:
            self._server.send(self.transport, answer)
        else:
            self.transport.write(answer)

    def retire(self) -> None:
        """End an idle connection: say that nothing follows, and ignore what was on its way. No answer means that nothing was done."""
        self._server.flush()
        transport = self.transport
        self._deaf = True
        if transport is None or transport.is_closing() or not transport.can_write_eof():
            self.force_close()
            return
        transport.write_eof()
        self._disarm()
        self._timer = self._loop.call_later(self._limits.linger_seconds, self.force_close)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        resp, reset = await super().finish_response(request, resp, start_time)
        if not (reset or resp.keep_alive) and (self._deaf or not request.content.is_eof()):
            await self._linger()
        elif self._held and not self._messages:
            self._held = False
            self.data_received(b"")
        return resp, reset

    def handle_error(  # the parameters are aiohttp's
        self,
        request: web.BaseRequest,  # noqa: ARG002
        status: int = 500,  # noqa: ARG002
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        """The answer to what is no request. The sender's bytes, which are in ``exc`` and ``message``, go nowhere."""
        problem = problem_of(exc, self._limits)
        peer = peer_of(self.peername)
        self._server.log.info("bad request", status=problem.status, reason=type(exc).__name__, detail=problem.detail, peer=peer)
        reply = render(problem, "api")
        response = WireResponse(reply.status, head_of(reply, "api"), reply.body)
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:  # noqa: ARG002  # aiohttp's text quotes the sender
        error = kw.get("exc_info")
        expected = isinstance(error, HttpProcessingError | RequestPayloadError | BodyTimeout | ConnectionError)
        known = {} if expected else {"exc_info": error}
        self._server.log.info("connection ended by an error", reason=type(error).__name__, peer=peer_of(self.peername), **known)

    def _is_waiting(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    def _wake(self) -> None:
        """Let aiohttp's loop take what is in ``_messages``."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _next_request(self) -> None:
        """Answer at once what came alone and whole, while nothing waits to be written; leave the rest to aiohttp's loop."""
        message, payload = self._messages[0]
        if (
            len(self._messages) > 1
            or not isinstance(message, RawRequestMessage)
            or self._upgraded
            or not payload.is_eof()
            or payload.exception() is not None
            or self._paused
            or self._buffer_paused
            or self._parser is None
            or self._task_handler is None
            or self.closing
        ):
            self._wake()
            return
        self._messages.popleft()
        self._parser.message_consumed()
        self._server.requests_count += 1
        request = self._server.request_of(message, payload, self, StreamWriter(self, self._loop), self._task_handler)
        self._serving = True
        loop_over_requests = self._task_handler
        task = begin(self._loop, self._serve(request))
        if task is not None:
            # Whoever ends the connection cancels what it is busy with.
            self._task_handler = task
            task.add_done_callback(lambda _: self._give_back(task, loop_over_requests))

    def _give_back(self, task: "asyncio.Task[None]", loop_over_requests: "asyncio.Task[None]") -> None:
        if self._task_handler is task:
            self._task_handler = loop_over_requests

    async def _serve(self, request: web.Request) -> None:
        """What aiohttp's ``start`` does with one request; our handler raises nothing."""
        alive = False
        self._request_in_progress, self._current_request = True, request
        try:
            response = await self._server.answer(request)
            await self.send(response.encoded(request))
            alive = bool(response.keep_alive)
        except ConnectionError:
            alive = False
        finally:
            self._request_in_progress, self._current_request = False, None
            self._serving = False
            self._keepalive = alive
            if self._handler_waiter is not None and not self._handler_waiter.done():
                self._handler_waiter.set_result(None)
            if not alive or self._close:
                self._server.flush()
                self.force_close()
        if self._force_close:
            return
        self._next_keepalive_close_time = self._loop.time() + self._limits.idle_seconds
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(self._next_keepalive_close_time, self._process_keepalive)
        if self._messages:
            self._wake()

    def _head_received(self, size: int) -> None:
        """A part of a head."""
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes + self._limits.line_bytes:
            self._refuse(too_large(self._limits))
        elif self._timer is None:
            self._arm(self._limits.head_seconds)

    def _heads_received(self, count: int, size: int) -> None:
        """The rest of one head or of several that came in one piece."""
        self._disarm()
        size, self._head_bytes = self._head_bytes + size, 0
        large = size > self._limits.head_bytes
        for behind in range(count, 0, -1):
            message = self._messages[-behind][0]
            if isinstance(message, _ErrInfo):
                continue
            fault = too_large(self._limits) if large and head_size(message) > self._limits.head_bytes else fault_of(message)
            if fault is not None:
                self._drop(behind)
                self._refuse(fault)
                return
        # Where a body comes behind its head, aiohttp's parser counts one message too many, and stops before the queue is full.
        self._held = len(self._messages) >= MAX_MSG_QUEUE_SIZE - 1
        message, payload = self._messages[-1]
        if isinstance(message, _ErrInfo):
            # After bytes that nobody understood there are no messages any more, and the body that they broke has no end.
            self._deaf = True
            if self._body is not None:
                self._body.set_exception(RequestPayloadError("broken framing"))
            self._body = None
        elif payload is EMPTY_PAYLOAD or payload.is_eof():
            self._body = None
        else:
            self._body, self._raw_bytes = payload, 0
            self._timer = self._loop.call_later(self._limits.body_seconds, self._body_expired)

    def _drop(self, count: int) -> None:
        """Forget the newest messages."""
        for _ in range(count):
            self._messages.pop()
        self._request_count -= count

    def _body_received(self, body: StreamReader, size: int) -> None:
        self._raw_bytes += size
        if body.is_eof() or body.exception() is not None:
            self._disarm()
            self._body = None
        elif self._raw_bytes > self._limits.framing_bytes + 8 * body.total_bytes:
            self._end_body(body, RequestPayloadError("more framing than body"))

    def _body_expired(self) -> None:
        self._timer = None
        if self._body is not None and not self._body.is_eof():
            self._end_body(self._body, BodyTimeout())

    def _end_body(self, body: StreamReader, error: Exception) -> None:
        self._disarm()
        self._deaf = True
        self._body = None
        body.set_exception(error)

    def _refuse(self, problem: Problem) -> None:
        """Answer ``problem`` after the requests that came before, then end the connection."""
        self._disarm()
        self._deaf = True
        self._request_count += 1
        self._messages.append((_ErrInfo(status=problem.status, exc=HeadRefused(problem), message=""), EMPTY_PAYLOAD))
        if not self._serving:
            self._wake()

    async def _linger(self) -> None:
        """Let the client read the last answer: closing at once, with its bytes unread, would send a reset that overtakes it."""
        transport = self.transport
        self._deaf = True
        if transport is not None and not transport.is_closing() and transport.can_write_eof():
            transport.write_eof()
            transport.resume_reading()  # flow control of the unread body may hold it, and then the client's end is not seen
            self._gone = self._loop.create_future()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.linger_seconds):
                    await self._gone
        self.force_close()

    def _process_keepalive(self) -> None:
        if self._loop.time() < self._next_keepalive_close_time:
            super()._process_keepalive()
            return
        # Within a request its own time limits count; the end of the request starts the next idle time.
        self._keepalive_handle = None
        if self.idle:
            self.retire()

    def _arm(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._head_expired)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _head_expired(self) -> None:
        self._timer = None
        if self._head_bytes:
            self._refuse(RequestTimeout("the request head did not arrive in time"))
        else:
            self.retire()
