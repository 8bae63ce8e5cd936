"""A server with the routes of a test, on loopback, and clients that say exactly what a test wants."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import msgspec
import pytest
import structlog

from greatseal.api.http import AuthScheme, Route, Rule
from greatseal.http.dispatch import Dispatcher
from greatseal.http.listeners import HttpLimits, ListenerConfig, Listeners, open_listeners


class Answer(msgspec.Struct):
    """One parsed answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection that sends bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, *, head_only: bool = False) -> Answer:
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        assert len(headers) == len(lines), head
        length = 0 if head_only else int(headers.get("content-length", "0"))
        return Answer(int(first.split(" ")[1]), headers, await self.reader.readexactly(length))

    async def ask(self, method: str, target: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        fields = {"Host": "evil.example", **(headers or {})}
        if body is not None:
            fields.setdefault("Content-Type", "application/json")
            fields.setdefault("Content-Length", str(len(body)))
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        await self.send(f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() + (body or b""))
        return await self.answer(head_only=method == "HEAD")

    async def is_ended(self) -> bool:
        """Whether the server has ended the connection, cleanly and with nothing more to read."""
        return await asyncio.wait_for(self.reader.read(), 10) == b""

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


class Served:
    """A running server, its log, and clients of it."""

    def __init__(self, listeners: Listeners, log: list[dict[str, Any]], stack: AsyncExitStack) -> None:
        self.listeners = listeners
        self.log = log
        self._stack = stack
        self.host, _, port = listeners.addresses["main"].rpartition(":")
        self.port = int(port) if port.isdigit() else 0

    async def client(self) -> Client:
        if self.port:
            reader, writer = await asyncio.open_connection(self.host, self.port)
        else:
            path = self.listeners.addresses["main"].removeprefix("unix:")
            reader, writer = await asyncio.open_unix_connection(path)
        client = Client(reader, writer)
        self._stack.push_async_callback(client.close)
        return client

    async def ask(self, method: str, target: str, **more: Any) -> Answer:
        return await (await self.client()).ask(method, target, **more)

    async def say(self, data: bytes) -> tuple[Answer, bool]:
        """The first answer to raw bytes on a connection of their own, and whether the server then ended it."""
        client = await self.client()
        await client.send(data)
        answer = await client.answer()
        return answer, answer.headers.get("connection") == "close" and await client.is_ended()


ON_EVERY_LOOP = {"test_http_body", "test_http_eager", "test_http_limits", "test_http_listeners"}


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What depends on the transport is tested on the loop of the library and on the fast one that the bundles bring."""
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if item.path.stem in ON_EVERY_LOOP and "sigterm" not in item.name:
        with suppress(ImportError):
            import uvloop

            loops["uvloop"] = uvloop.new_event_loop
    return loops


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serve routes until the end of the test."""
    async with AsyncExitStack() as stack:

        async def start(
            routes: Sequence[Route],
            schemes: Mapping[type[Rule], AuthScheme] | None = None,
            *,
            address: str = "127.0.0.1:0",
            limits: HttpLimits | None = None,
            tls: Any = None,
            shutdown_timeout: float = 10.0,
            **settings: Any,
        ) -> Served:
            log: list[dict[str, Any]] = []
            logger = structlog.wrap_logger(None, processors=[_keep(log)], wrapper_class=structlog.stdlib.BoundLogger)
            chosen = {"base_url": "https://id.example.org", "max_body_bytes": 65536, "trusted_proxies": (), **settings}
            dispatcher = Dispatcher(routes, schemes or {}, log=logger, **chosen)
            config = ListenerConfig("main", address, tls)
            opening = open_listeners(
                [config],
                {"main": dispatcher},
                log=logger,
                limits=limits or HttpLimits(linger_seconds=0.2),
                shutdown_timeout=shutdown_timeout,
            )
            return Served(await stack.enter_async_context(opening), log, stack)

        yield start


def _keep(log: list[dict[str, Any]]) -> Any:
    def processor(_logger: object, method: str, event: dict[str, Any]) -> Any:
        log.append({"level": method, **event})
        raise structlog.DropEvent

    return processor
