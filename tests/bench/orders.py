"""Whole ACME orders over loopback, against this server and Pebble in turn."""

import asyncio
import itertools
import statistics
import time
from collections.abc import Iterator, Mapping

import msgspec
from bench.acme import Client, Responses, clients
from bench.measure import Row, Sample, cpu_us, reference_us, row
from rig.pebble import Pebble
from rig.server import Server

ROUNDS = 3
SECONDS = 3.0
CLIENTS = (1, 8, 32)
# Pebble 2.4.0 locks up for good with more clients, and now and then with eight.
PEBBLE_CLIENTS = 8
LIMIT = 58.0


class Target(msgspec.Struct):
    """A running ACME server, its process, and a registered account for each client."""

    name: str
    pid: int
    clients: list[Client]
    numbers: Iterator[int]
    most: int = max(CLIENTS)
    """Measured with up to so many clients."""


async def one_round(target: Target, count: int, seconds: float) -> Sample:
    """``count`` clients at work for some time; the server's CPU over exactly the orders that were finished."""
    durations: list[float] = []
    serials: set[int] = set()
    reference = reference_us()
    working = target.clients[:count]
    for client in working:
        client.reference_ns.clear()

    async def caller(client: Client) -> None:
        while (start := time.perf_counter()) < end:
            serials.add(await client.certificate(f"order-{next(target.numbers)}.localhost"))
            durations.append(time.perf_counter() - start)

    used, began = cpu_us(target.pid), time.perf_counter()
    end = began + seconds
    await asyncio.gather(*(caller(client) for client in working))
    assert len(serials) == len(durations), "two orders got one serial number"
    return Sample(
        cpu_us=cpu_us(target.pid) - used,
        seconds=time.perf_counter() - began,
        operations=len(durations),
        durations=durations,
        reference_us=reference,
        paced_us=statistics.fmean(each for client in working for each in client.reference_ns) / 1e3,
    )


async def _rounds(targets: list[Target]) -> Mapping[tuple[int, str], list[Sample]]:
    measured = [(count, target) for count, target in itertools.product(CLIENTS, targets) if count <= target.most]
    found: dict[tuple[int, str], list[Sample]] = {(count, target.name): [] for count, target in measured}
    for _ in range(ROUNDS):
        for count, target in measured:
            try:
                if count <= target.most:
                    found[count, target.name].append(await one_round(target, count, SECONDS))
            except TimeoutError:
                if target is targets[0]:
                    raise
                target.most = 0
    return {key: samples for key, samples in found.items() if samples}


async def _order_rows(server: Server, pid: int, pebble: tuple[Pebble, int] | None) -> list[Row]:
    responses = Responses()
    async with responses.served(server.validation_port), clients(server.directory, max(CLIENTS), responses) as ours:
        targets = [Target("ACME order", pid, ours, itertools.count())]
        await one_round(targets[0], 8, 1.0)
        if pebble is None:
            return _table(await _rounds(targets))
        other, other_pid = pebble
        async with (
            responses.served(other.validation_port),
            clients(other.directory, PEBBLE_CLIENTS, responses, other.ssl_context()) as theirs,
        ):
            targets.append(Target("ACME order at pebble", other_pid, theirs, itertools.count(), PEBBLE_CLIENTS))
            await one_round(targets[1], 1, 1.0)
            return _table(await _rounds(targets))


def _table(found: Mapping[tuple[int, str], list[Sample]]) -> list[Row]:
    rows = []
    for (count, name), samples in found.items():
        made = row(f"{name}, {count} client{'s' if count > 1 else ''}", samples)
        if "pebble" in name:
            made.note = "in memory, https, no lint, no audit; "
        else:
            assert made.ratio is not None
            made.note = f"limit {LIMIT:.0f} x (sign + verify): {'kept' if made.ratio <= LIMIT else 'MISSED'}; "
        paced = statistics.median(sample.cpu_us / sample.operations / (sample.paced_us or sample.reference_us) for sample in samples)
        made.note += f"{paced:.0f} x the reference made between its requests"
        rows.append(made)
    return rows


def order_rows(server: Server, pid: int, pebble: tuple[Pebble, int] | None) -> list[Row]:
    """New certificate key each, real probe, lint, audit, durable SQLite."""
    return asyncio.run(_order_rows(server, pid, pebble))


async def make_orders(server: Server, count: int) -> None:
    """``count`` orders by eight clients."""
    responses, numbers = Responses(), itertools.count()
    async with responses.served(server.validation_port), clients(server.directory, 8, responses) as ready:

        async def caller(client: Client) -> None:
            for number in itertools.takewhile(lambda number: number < count, numbers):
                await client.certificate(f"warm-{number}.localhost")

        await asyncio.gather(*(caller(client) for client in ready))
