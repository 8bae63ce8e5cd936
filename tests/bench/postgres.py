"""The same work on PostgreSQL: whole orders, refreshes and code flows, with what was repeated; also with a million rows in every table."""

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from bench.acme import Responses, clients
from bench.measure import Row, Sample, cpu_us, reference_us, row
from bench.orders import Target, one_round
from bench.tokens import Ours
from bench.wrk import installed, run
from rig.postgres import bench_cluster
from rig.provider import Person, Provider
from rig.server import Server

from greatseal.testing.postgres import Cluster

ROUNDS = 3
SECONDS = 3.0
CLIENTS = (8, 32)
PEOPLE = 8
MILLION = 1_000_000
RETRIES = 0.3
"""Repetitions of an order at most."""
STATISTICS_SECONDS = 1.2
"""A server process tells what it counted within a second."""
# Every row is a copy of one that the server wrote, with other keys; what is long is left out.
COPIES: Mapping[str, Mapping[str, str]] = {
    "acme_order": {"id": "copy-%s"},
    "acme_authorization": {"id": "copy-%s"},
    "acme_order_authorization": {"order_id": "copy-%s", "authorization_id": "copy-%s"},
    "acme_challenge": {"id": "copy-%s", "authorization_id": "copy-%s", "token": "copy-%s"},
    "ca_certificate": {"id": "copy-%s", "serial": "copy-%s", "order_id": "copy-%s", "tbs": "", "der": ""},
    "idp_family": {"id": "copy-%s", "subject": "copy-%s", "session_id": "copy-%s"},
}


class Repetitions:
    """How many transactions were rolled back, which a repetition is."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._before = self._rolled_back()

    def since(self) -> int:
        before, self._before = self._before, self._rolled_back()
        return self._before - before

    def _rolled_back(self) -> int:
        time.sleep(STATISTICS_SECONDS)
        with psycopg.connect(self._url, autocommit=True) as connection:
            found = connection.execute("SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()").fetchone()
        assert found is not None
        return int(found[0])


def postgres_rows(folder: Path, copies: int = 0) -> Iterator[Row]:
    """All rows, on fresh tables or with ``copies`` of a row in each."""
    with bench_cluster() as cluster:
        if cluster is None:
            return
        for name, measured in (("orders", order_rows), ("families", provider_rows)):
            (folder / name).mkdir()
            yield from measured(folder / name, cluster, copies)


def order_rows(folder: Path, cluster: Cluster, copies: int) -> Iterator[Row]:
    """Orders at the numbers of clients that make a group commit worth its while."""
    url = cluster.make()
    server = Server(folder, [], database=url)
    with server.running() as process:
        yield from asyncio.run(_order_rows(server, process.pid, url, copies))


async def _order_rows(server: Server, pid: int, url: str, copies: int) -> list[Row]:
    responses = Responses()
    async with responses.served(server.validation_port), clients(server.directory, max(CLIENTS), responses) as ours:
        target = Target("ACME order", pid, ours, itertools.count())
        await one_round(target, 8, 1.0)
        await asyncio.to_thread(copy, url, copies)
        found: dict[int, list[Sample]] = {count: [] for count in CLIENTS}
        repeated = dict.fromkeys(CLIENTS, 0)
        repetitions = await asyncio.to_thread(Repetitions, url)
        for _, count in itertools.product(range(ROUNDS), CLIENTS):
            found[count].append(await one_round(target, count, SECONDS))
            repeated[count] += await asyncio.to_thread(repetitions.since)
    return [_row(f"ACME order, {count} clients", found[count], repeated[count], copies) for count in CLIENTS]


def _row(name: str, samples: list[Sample], repeated: int, copies: int) -> Row:
    each = repeated / sum(sample.operations for sample in samples)
    note = f"repetitions: {each:.2f} each, limit {RETRIES}: {'kept' if each <= RETRIES else 'MISSED'}"
    return row(f"{name}, PostgreSQL{f', {copies:,} rows' if copies else ''}", samples, note)


def provider_rows(folder: Path, cluster: Cluster, copies: int) -> Iterator[Row]:
    """Refreshes of many connections, and people who fetch tokens."""
    url = cluster.make()
    with served(folder, url) as (provider, pid):
        ours = Ours(provider, pid, folder)
        people = [Person(provider.issuer) for _ in range(PEOPLE)]
        flows(ours, people, pid, 1.0)
        copy(url, copies)
        repetitions = Repetitions(url)
        if installed():
            refreshes = [run(ours.target, ours.refreshes(), int(SECONDS), folder)[0] for _ in range(ROUNDS)]
            yield _row("refresh with ID token", refreshes, repetitions.since(), copies)
        found = [flows(ours, people, pid, SECONDS) for _ in range(ROUNDS)]
        yield _row("code flow", found, repetitions.since(), copies)


@contextmanager
def served(folder: Path, url: str) -> Iterator[tuple[Provider, int]]:
    """A provider on PostgreSQL and its process."""
    provider = Provider(folder, database=url, features="idp")
    with provider.running() as process:
        yield provider, process.pid


def flows(ours: Ours, people: list[Person], pid: int, seconds: float) -> Sample:
    """Everybody fetches a code by their session and redeems it, one after another."""
    durations: list[float] = []
    login = ours.logins["ES256"]

    def caller(person: Person) -> None:
        while (start := time.perf_counter()) < end:
            ours.signed_in(login, person)
            durations.append(time.perf_counter() - start)

    reference, used, began = reference_us(), cpu_us(pid), time.perf_counter()
    end = began + seconds
    threads = [threading.Thread(target=caller, args=(person,)) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Sample(
        cpu_us=cpu_us(pid) - used,
        seconds=time.perf_counter() - began,
        operations=len(durations),
        durations=durations,
        reference_us=reference,
    )


def copy(url: str, copies: int) -> None:
    """Fill the tables that have a row."""
    if not copies:
        return
    with psycopg.connect(url, autocommit=True) as connection:
        for table, keys in COPIES.items():
            if connection.execute("SELECT to_regclass(%s)", [table]).fetchone() == (None,):
                continue
            values = {column: f"replace('{text}', '%s', n::text)" if text else "'x'" for column, text in keys.items()}
            changed = ", ".join(f"'{column}', {value}" for column, value in values.items())
            connection.execute(
                f"INSERT INTO {table} SELECT made.* "
                f"FROM (SELECT one FROM {table} AS one LIMIT 1) AS first, generate_series(1, {copies}) AS n, "
                f"LATERAL jsonb_populate_record(first.one, jsonb_build_object({changed})) AS made"
            )
        connection.execute("VACUUM ANALYZE")
