"""Listeners: from addresses to running servers, and their graceful end."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec
import structlog

from greatseal.api.http import ListenerName
from greatseal.http.dispatch import Dispatcher
from greatseal.http.limits import HttpLimits
from greatseal.http.server import HttpServer
from greatseal.http.sockets import BACKLOG, BoundSocket, ListenerConfig, ListenProblem, bind

__all__ = ["HttpLimits", "ListenProblem", "ListenerConfig", "Listeners", "open_listeners"]

HANDSHAKE_GRACE = 0.05
"""Seconds for the last packet of a TCP handshake that was under way when the stop began."""
IDLE_GRACE = 0.25
"""Seconds in which an idle connection's request, already on its way when the stop began, is still answered."""
FRESH_GRACE = 2.0
"""The same for a connection that was just made: its client opened it for a request."""
_SWEEP = 0.02


class _Open(msgspec.Struct, frozen=True):
    """One socket, its accepting server, and its connections."""

    bound: BoundSocket
    accepting: asyncio.AbstractServer
    server: HttpServer


class Listeners:
    """What is open. ``addresses`` tells where, by listener: ``127.0.0.1:43211`` or ``unix:/path``."""

    def __init__(self, log: structlog.stdlib.BoundLogger, shutdown_timeout: float) -> None:
        self.addresses: dict[str, str] = {}
        self._log = log
        self._timeout = shutdown_timeout
        self._open: list[_Open] = []
        self._stopped: asyncio.Future[None] | None = None

    async def open(self, config: ListenerConfig, dispatcher: Dispatcher, limits: HttpLimits) -> None:
        """Open one more. Raises ListenProblem."""
        server = HttpServer(dispatcher, limits, self._log)
        bound = bind(config)
        self.addresses[config.name] = bound[0].name
        for one in bound:
            accepting = await _serve(one, server, config.tls.context if config.tls else None, limits)
            self._open.append(_Open(one, accepting, server))
            self._log.info("listening", listener=config.name, address=one.name, tls=config.tls is not None)

    async def stop(self) -> None:
        """End every listener; returns when the last connection is closed, at most ``shutdown_timeout`` seconds and a little later.

        Connections that clients made are served, requests that came are answered, each with ``Connection: close``, and idle
        connections are ended so that their clients see a clean end before any answer. A second call waits for the first.
        """
        if self._stopped is not None:
            await asyncio.shield(self._stopped)
            return
        self._stopped = asyncio.get_running_loop().create_future()
        try:
            await self._stop()
        finally:
            self._stopped.set_result(None)

    async def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        servers = {id(one.server): one.server for one in self._open}.values()
        for one in self._open:
            one.server.stopping = True
            one.bound.refuse_new()
        accepting = True
        while (waited := loop.time() - began) < self._timeout:
            if accepting and waited >= HANDSHAKE_GRACE and not any(one.bound.has_waiting() for one in self._open):
                self._close_accepting()
                accepting = False
            for server in servers:
                _retire_idle(server, waited)
            if not accepting and not any(server.connections or (server.handshaking and waited < FRESH_GRACE) for server in servers):
                break
            await asyncio.sleep(_SWEEP)
        if accepting:
            self._close_accepting()
        for server in servers:
            if server.connections:
                self._log.warning("connections cut at the stop", count=len(server.connections))
            await server.shutdown(_SWEEP)

    def _close_accepting(self) -> None:
        for one in self._open:
            one.accepting.close()


def _retire_idle(server: HttpServer, waited: float) -> None:
    for protocol in server.protocols():
        if protocol.idle and waited >= (FRESH_GRACE if protocol.fresh else IDLE_GRACE):
            protocol.retire()


async def _serve(bound: BoundSocket, server: HttpServer, context: ssl.SSLContext | None, limits: HttpLimits) -> asyncio.AbstractServer:
    loop = asyncio.get_running_loop()
    handshake, shutdown = (limits.head_seconds, limits.linger_seconds) if context else (None, None)
    if bound.path is not None:
        return await loop.create_unix_server(
            server, sock=bound.sock, backlog=BACKLOG, ssl=context, ssl_handshake_timeout=handshake, ssl_shutdown_timeout=shutdown
        )
    return await loop.create_server(
        server, sock=bound.sock, backlog=BACKLOG, ssl=context, ssl_handshake_timeout=handshake, ssl_shutdown_timeout=shutdown
    )


@asynccontextmanager
async def open_listeners(
    configs: Sequence[ListenerConfig],
    dispatchers: Mapping[ListenerName, Dispatcher],
    *,
    log: structlog.stdlib.BoundLogger,
    shutdown_timeout: float = 10.0,
    limits: HttpLimits | None = None,
) -> AsyncIterator[Listeners]:
    """Serve ``dispatchers`` where ``configs`` say; stops at the end. Raises ListenProblem, and then nothing is open."""
    listeners = Listeners(log, shutdown_timeout)
    try:
        for config in configs:
            await listeners.open(config, dispatchers[config.name], limits or HttpLimits())
        yield listeners
    finally:
        await listeners.stop()
