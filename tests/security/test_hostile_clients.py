"""Row S145 against the whole service: thousands of clients that are slow or silent, while others get certificates."""

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from rig.acme import AcmeClient, Responder
from rig.server import Server

CLIENTS = 1_000
HEAD_SECONDS = 10
PATIENCE = 5.0
"""How much later than its limit a cut may come on a busy machine."""
MEMORY = 60_000_000
"""Bytes that three thousand such connections may cost."""

SLOW_HEAD = b"POST /acme/new-order HTTP/1.1\r\nHost: a\r\nX-Slow: "
SLOW_BODY = b"POST /acme/new-order HTTP/1.1\r\nHost: a\r\nContent-Type: application/jose+json\r\nContent-Length: 1000\r\n\r\n{"


@pytest.fixture
async def responder() -> AsyncIterator[Responder]:
    async with Responder().served() as responder:
        yield responder


@pytest.fixture
def server(tmp_path, responder) -> Iterator[tuple[Server, int]]:
    """A service in a process of its own, and its pid."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * CLIENTS
    if hard < wanted:
        pytest.skip(f"needs {wanted} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    server = Server(tmp_path, [])
    text = server.configuration.read_text()
    server.configuration.write_text(text.replace(f"= {server.validation_port}", f"= {responder.port}"))
    with server.running() as process:
        yield server, process.pid
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@asynccontextmanager
async def crowd(port: int, first: bytes, then: bytes) -> AsyncIterator[list[asyncio.Task[float]]]:
    """Clients that send ``first`` and then ``then`` once a second; each task gives the seconds until its connection was ended."""

    async def one() -> float:
        began = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first)
        try:
            while True:
                try:
                    await asyncio.wait_for(reader.read(), 1)
                    break
                except TimeoutError:
                    writer.write(then)
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
        return time.monotonic() - began

    tasks = [asyncio.create_task(one()) for _ in range(CLIENTS)]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.timeout(90)
async def test_s145_thousands_of_slow_clients_are_cut_and_others_get_certificates_meanwhile(server, responder):
    service, pid = server
    async with aiohttp.ClientSession() as session:
        client = await AcmeClient.connect(session, service.base_url)
        await client.register()
        await client.issue(responder, "warm.localhost")
        before = rss(pid)
        async with (
            crowd(service.port, SLOW_HEAD, b"a") as heads,
            crowd(service.port, SLOW_BODY, b"a") as bodies,
            crowd(service.port, b"", b"") as silent,
        ):
            waits = []
            while not all(task.done() for task in (*heads, *silent)):
                began = time.monotonic()
                async with session.get(f"{service.base_url}/acme/directory") as answer:
                    assert answer.status == 200
                waits.append(time.monotonic() - began)
                await asyncio.sleep(0.05)
                if len(waits) == 20:
                    assert len(await client.issue(responder, "among.localhost")) >= 2
                    assert not any(task.done() for task in bodies)  # it is a crowd
                    grown = rss(pid) - before
            ends = [task.result() for task in (*heads, *silent)]

    assert sorted(waits)[len(waits) * 9 // 10] < 1
    assert max(ends) < HEAD_SECONDS + PATIENCE
    assert min(ends) > HEAD_SECONDS / 2
    assert grown < MEMORY
