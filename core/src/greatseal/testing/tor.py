"""A Tor client for tests: its SOCKS listener leads every onion service to loopback."""

import asyncio
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

BOUND = bytes.fromhex("05000001000000000000")


class FakeTor:
    """Leads to ``127.0.0.1``, at the port that was asked for or the one of ``ports``. ``answer`` is sent instead of a connection."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.ports: dict[int, int] = {}
        self.greeting = b"\x05\x00"
        self.bound = BOUND
        self.answer: bytes | None = None
        self.port = 0

    @asynccontextmanager
    async def served(self) -> AsyncIterator["FakeTor"]:
        """Listening on a free port."""
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield self

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            assert await reader.readexactly(3) == b"\x05\x01\x00"
            writer.write(self.greeting)
            head = await reader.readexactly(5)
            assert head[:4] == b"\x05\x01\x00\x03"
            name, port = (await reader.readexactly(head[4])).decode(), int.from_bytes(await reader.readexactly(2))
            self.asked.append((name, port))
            if self.answer is None:
                await self._lead(reader, writer, self.ports.get(port, port))
            else:
                writer.write(self.answer)
        except (IncompleteReadError, ConnectionError):
            pass  # the other side went away
        finally:
            writer.close()

    async def _lead(self, reader: StreamReader, writer: StreamWriter, port: int) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        writer.write(self.bound)
        try:
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        finally:
            back.close()


async def _pump(source: StreamReader, sink: StreamWriter) -> None:
    while chunk := await source.read(65536):
        sink.write(chunk)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()
