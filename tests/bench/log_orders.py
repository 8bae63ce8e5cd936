"""Orders whose certificates are logged, and those that the log issues, beside ordinary ones: in turns, on SQLite, with the log in files."""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

from bench.acme import Responses, clients
from bench.measure import Row, Sample, row
from bench.orders import Target, one_round
from rig.server import Server

CLIENTS = 32
ROUNDS = 3
SECONDS = 3.0
LEAST = 0.9
"""Of the rate of ordinary orders, by the CPU that each takes."""
ORDINARY, LOGGED, ISSUED = "ACME order", "ACME order, logged", "ACME order, issue_as = mtc"
LOG = '\n[mtc]\ntrust_anchor_id = "32473.1"\n'
CONFIGURATIONS = {ORDINARY: "", LOGGED: LOG, ISSUED: f'{LOG}\n[profiles.default]\nissue_as = "mtc"\n'}


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
