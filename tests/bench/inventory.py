"""An order with a thousand certificates in the inventory and with a million, in turns, on SQLite."""

import asyncio
import contextlib
import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from bench.acme import Responses, clients
from bench.measure import Row, Sample, row
from bench.orders import Target, make_orders, one_round
from rig.server import Server

COUNTS = (1_000, 1_000_000)
LIMIT = 1.2
ROUNDS = 5
SECONDS = 3.0
CLIENTS = 8
MADE = {
    "id": "printf('%08x-0000-8000-8000-%012x', 1500000000 + n / 8, n)",
    "serial": "'00' || lower(hex(randomblob(15)))",
    "spki_sha256": "randomblob(32)",
    "account_id": "printf('%08x-0000-8000-8000-000000000000', n % 1000)",
    "not_after": "not_after - n * 1000000",
    "created_at": "created_at - n * 1000000",
    "crl_shard": "1 + n / 5000",
}
"""What certificates differ in; the rest is that of one that was ordered."""


def inventory_rows(folder: Path) -> Iterator[Row]:
    """The same orders against both."""
    servers = [_filled(folder / str(count), count) for count in COUNTS]
    with contextlib.ExitStack() as stack:
        pids = [stack.enter_context(server.running()).pid for server in servers]
        found = asyncio.run(_rounds(servers, pids))
    rows = [row(f"ACME order, {count:,} certificates", samples) for count, samples in zip(COUNTS, found, strict=True)]
    small, large = (one.cpu_us_per_op or 0.0 for one in rows)
    rows[1].note = f"{large / small:.2f} of {COUNTS[0]:,}, limit {LIMIT}: {'kept' if large <= LIMIT * small else 'MISSED'}"
    yield from rows


def _filled(folder: Path, count: int) -> Server:
    folder.mkdir()
    server = Server(folder, [])
    with server.running():
        asyncio.run(make_orders(server, 1))
    fill(folder / "greatseal.db", count)
    return server


def fill(database: Path, count: int) -> None:
    """Add ``count`` certificates like the one that is there."""
    numbers = f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})"
    with sqlite3.connect(database) as store:
        columns = [name for _, name, *_ in store.execute("PRAGMA table_info(ca_certificate)")]
        chosen = ", ".join(MADE.get(name, name) for name in columns)
        store.execute(f"INSERT INTO ca_certificate {numbers} SELECT {chosen} FROM numbers, (SELECT * FROM ca_certificate LIMIT 1)")
        name = f"'host-' || n || '.bench.example', {MADE['id']}"
        store.execute(f"INSERT INTO ca_name {numbers} SELECT {name} FROM numbers")
    store.close()


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
