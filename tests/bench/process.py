"""What the server process costs: its start, its memory after work, its idle connections."""

import asyncio
import contextlib
import http.client
import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.measure import Row, cpu_us, reference_us, rss_kb
from bench.orders import make_orders
from rig.server import Server

from greatseal.testing.distributions import install

STARTS = 5
ORDERS = 1000
CONNECTIONS = 500
START_LIMIT_SECONDS = 1.0
RSS_LIMIT_MB = 90
CONNECTION_LIMIT_KB = 20
EMPTY = 30
LATER_LIMIT_SECONDS = 0.1
REQUESTS = 2000


class Shipped(Server):
    """A shipped configuration as it stands, with other paths and another port. ``changes`` are further texts and what replaces them."""

    def __init__(self, folder: Path, path: Path, changes: Mapping[str, str]) -> None:
        super().__init__(folder, [])
        text = path.read_text()
        moved = {
            'listen = "127.0.0.1:8080"': f'listen = "127.0.0.1:{self.port}"',
            "sqlite:////var/lib/greatseal/greatseal.db": f"sqlite:///{folder}/greatseal.db",
        }
        for theirs, ours in {**moved, **changes}.items():
            assert text.count(theirs) == 1, f"{path} has not: {theirs}"
            text = text.replace(theirs, ours.format(server=self))
        self.configuration.write_text(f'{text}\n[cluster]\nkey_file = "{folder}/cluster.key"\n')


def shipped_ca(folder: Path) -> Shipped:
    """``config/ca.toml``, with probes to where the bench answers them."""
    base_url = 'base_url = "{server.base_url}"\nhttp_validation_port = {server.validation_port}\nhttp_validation_allow_private_ips = true'
    return Shipped(folder, Path("config/ca.toml"), {'base_url = "https://ca.example.org"': base_url})


def verdict(value: float, limit: float) -> str:
    return "kept" if value < limit else "MISSED"


def start_row(server: Server) -> Row:
    """From the command to ready, with state that is there: the first start, which makes keys, does not count."""
    with server.running():
        pass
    walls, used, reference = [], [], reference_us()
    for _ in range(STARTS):
        began = time.perf_counter()
        with server.running() as process:
            walls.append(time.perf_counter() - began)
            used.append(cpu_us(process.pid))
    wall, cpu = statistics.median(walls), statistics.median(used)
    return Row(
        name="start until ready",
        cpu_us_per_op=cpu,
        p50_ms=wall * 1e3,
        p99_ms=max(walls) * 1e3,
        reference_us=reference,
        ratio=cpu / reference,
        note=f"limit {START_LIMIT_SECONDS} s: {verdict(wall, START_LIMIT_SECONDS)}",
    )


def empty_plugin_rows(folder: Path) -> Iterator[Row]:
    """What thirty plugins without a hook add to a start, and to a request. With them and without, in turns."""
    site = folder / "site"
    site.mkdir()
    enabled = [install(site, f"greatseal-empty-{number}", "class Plugin:\n    pass\n") for number in range(EMPTY)]
    servers = []
    for name in ("plain", "full"):
        (folder / name).mkdir()
        servers.append(Server(folder / name, []))
    full = servers[1]
    text = full.configuration.read_text()
    full.configuration.write_text(text.replace('sets = ["ca"]', f'sets = ["ca"]\nenabled = {enabled}'))
    for server in servers:
        with server.running({"PYTHONPATH": str(site)}):
            """The first start makes keys."""
    rounds = [[_start_and_request(server, site) for server in servers] for _ in range(STARTS)]
    (start, request), (full_start, full_request) = (
        [statistics.median(each) for each in zip(*turns, strict=True)] for turns in zip(*rounds, strict=True)
    )
    seconds = (full_start - start) / 1e6
    yield Row(
        name=f"start with {EMPTY} empty plugins",
        cpu_us_per_op=full_start,
        note=f"{seconds:+.3f} s of CPU, limit {LATER_LIMIT_SECONDS} s: {verdict(seconds, LATER_LIMIT_SECONDS)}",
    )
    yield Row(name=f"GET /acme/directory with {EMPTY} empty plugins", cpu_us_per_op=full_request, note=f"{request:.0f} us without them")


def _start_and_request(server: Server, site: Path) -> tuple[float, float]:
    """Microseconds of CPU until it is ready, which other load does not make more, and for a request."""
    with server.running({"PYTHONPATH": str(site)}) as process:
        start = cpu_us(process.pid)
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
            used = 0.0
            for _ in ("warm", "measured"):
                used = cpu_us(process.pid)
                for _ in range(REQUESTS):
                    connection.request("GET", "/acme/directory")
                    assert connection.getresponse().read()
            return start, (cpu_us(process.pid) - used) / REQUESTS


def memory_rows(server: Server, pid: int) -> Iterator[Row]:
    """Resident memory after a thousand orders, and what an idle connection adds."""
    asyncio.run(make_orders(server, ORDERS))
    megabytes = rss_kb(pid) / 1024
    yield Row(name=f"memory after {ORDERS} orders", note=f"{megabytes:.1f} MB, limit {RSS_LIMIT_MB} MB: {verdict(megabytes, RSS_LIMIT_MB)}")
    each = asyncio.run(_idle_connection_kb(server.port, pid))
    yield Row(
        name="memory of an idle connection",
        note=f"{each:.1f} kB of {CONNECTIONS}, limit {CONNECTION_LIMIT_KB} kB: {verdict(each, CONNECTION_LIMIT_KB)}",
    )


async def _idle_connection_kb(port: int, pid: int) -> float:
    """Connections that made a request and stay: the growth of resident memory for each."""
    opened: list[asyncio.StreamWriter] = []

    async def connect() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.append(writer)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head

    before = rss_kb(pid)
    try:
        for _ in range(CONNECTIONS):
            await connect()
        return (rss_kb(pid) - before) / CONNECTIONS
    finally:
        for writer in opened:
            writer.close()
