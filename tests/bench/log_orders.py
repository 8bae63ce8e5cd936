"""A log in a service, on SQLite and in files: orders whose certificates are logged, and those that it issues, beside ordinary ones; and
what its tiles cost beside discovery of an identity provider. All in turns."""

import asyncio
import contextlib
import itertools
import statistics
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from bench import wrk
from bench.acme import Responses, clients
from bench.log import fill
from bench.measure import Row, Sample, row
from bench.orders import Target, one_round
from rig.provider import Provider
from rig.server import Server

CLIENTS = 32
ROUNDS = 3
SECONDS = 3.0
LEAST = 0.9
"""Of the rate of ordinary orders, by the CPU that each takes."""
ORDINARY, LOGGED, ISSUED = "ACME order", "ACME order, logged", "ACME order, issue_as = mtc"
LOG = '\n[mtc]\ntrust_anchor_id = "32473.1"\n'
CONFIGURATIONS = {ORDINARY: "", LOGGED: LOG, ISSUED: f'{LOG}\n[profiles.default]\nissue_as = "mtc"\n'}

SIZE = 1_000
"""Entries of the log whose tiles are asked for: three full tiles, and a partial one, which is in memory."""
TILE_SECONDS = 2
LIMITS = {"log: a tile, from memory": 1.5, "log: a full tile, from a file": 3.0}
"""Of the CPU of discovery."""
PATHS = dict(zip(LIMITS, ("/acme/mtc/tlog/tile/0/003.p/200", "/acme/mtc/tlog/tile/0/001"), strict=True))


def log_order_rows(folder: Path) -> Iterator[Row]:
    """The same orders in three manners."""
    servers = [_configured(folder / str(number), more) for number, more in enumerate(CONFIGURATIONS.values())]
    with contextlib.ExitStack() as stack:
        pids = [stack.enter_context(server.running()).pid for server in servers]
        found = asyncio.run(_rounds(servers, pids))
    rows = [row(f"{name}, {CLIENTS} clients", samples) for name, samples in zip(CONFIGURATIONS, found, strict=True)]
    ordinary = rows[0].cpu_us_per_op or 0.0
    for one in rows[1:]:
        rate = ordinary / (one.cpu_us_per_op or 1.0)
        one.note = f"{rate:.2f} of the rate of ordinary ones, limit {LEAST}: {'kept' if rate >= LEAST else 'MISSED'}"
    rows[1].note = rows[1].note.partition(", limit")[0]
    yield from rows


def tile_rows(folder: Path) -> Iterator[Row]:
    """Tiles of a published checkpoint."""
    (folder / "idp").mkdir()
    place = folder / "logs"
    server = _configured(folder / "ca", f'{LOG}checkpoint_interval_secs = 1\nlog_path = "{place}"\n')
    asyncio.run(fill(place, SIZE))
    provider = Provider(folder / "idp", features="idp")
    with provider.running() as first, server.running() as second:
        _await_checkpoint(f"{server.base_url}/acme/mtc/tlog/checkpoint")
        document = wrk.Workload(path="/.well-known/openid-configuration", expected="issuer")
        asked = {"discovery, beside a log": (wrk.Target(provider.base_url, first.pid), document)}
        asked |= {name: (wrk.Target(server.base_url, second.pid), wrk.Workload(path=path, expected="")) for name, path in PATHS.items()}
        found: dict[str, list[tuple[Sample, wrk.Measured]]] = {name: [] for name in asked}
        for number in range(-1, ROUNDS):
            for name, (target, workload) in asked.items():
                measured = wrk.run(target, workload, 1 if number < 0 else TILE_SECONDS, folder)
                if number >= 0:
                    found[name].append(measured)
    rows = [row(name, [sample for sample, _ in measured]) for name, measured in found.items()]
    discovery = rows[0].cpu_us_per_op or 0.0
    for one in rows:
        one.p50_ms = statistics.median(each.p50_ms for _, each in found[one.name])
        one.p99_ms = statistics.median(each.p99_ms for _, each in found[one.name])
        if limit := LIMITS.get(one.name):
            share = (one.cpu_us_per_op or 0.0) / discovery
            one.note = f"{share:.2f} of discovery, limit {limit}: {'kept' if share <= limit else 'MISSED'}"
    yield from rows


def _await_checkpoint(url: str) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url) as answer:
                assert f"\n{SIZE}\n" in answer.read().decode()
                return
        except urllib.error.HTTPError:
            assert time.monotonic() < end
            time.sleep(0.1)


def _configured(folder: Path, more: str) -> Server:
    folder.mkdir()
    server = Server(folder)
    server.configuration.write_text(server.configuration.read_text() + more)
    return server


async def _rounds(servers: list[Server], pids: list[int]) -> list[list[Sample]]:
    async with contextlib.AsyncExitStack() as stack:
        targets = []
        for server, pid in zip(servers, pids, strict=True):
            responses = Responses()
            await stack.enter_async_context(responses.served(server.validation_port))
            ready = await stack.enter_async_context(clients(server.directory, CLIENTS, responses))
            targets.append(Target(server.base_url, pid, ready, itertools.count()))
        found: list[list[Sample]] = [[] for _ in targets]
        for number in range(-1, ROUNDS):
            for samples, target in zip(found, targets, strict=True):
                sample = await one_round(target, CLIENTS, 1.0 if number < 0 else SECONDS)
                if number >= 0:
                    samples.append(sample)
        return found
