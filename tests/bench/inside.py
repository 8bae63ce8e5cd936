"""What the kernel costs inside one process: a registry call, transactions, reads, and what is refused."""

import asyncio
import itertools
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pluggy
import structlog
from bench.measure import Row, Sample, own_cpu_us, reference_us, repeated, row
from sqlalchemy import Column, MetaData, insert, select, update

from greatseal.api.acme import BadCsr, ChallengeValidator
from greatseal.api.store import Tx
from greatseal.clock import SystemClock
from greatseal.db.config import DatabaseConfig
from greatseal.db.database import open_database
from greatseal.db.tables import Id, Moment, State, Text, param, table
from greatseal.der import bit_string, element, sequence
from greatseal.jose.algorithms import BadJws
from greatseal.jose.compact import parse_flattened
from greatseal.jose.weak import is_fermat_factorable, weak_rsa_reason
from greatseal.kernel.metrics import Metrics
from greatseal.kernel.registry import Registry
from greatseal_ca.csr import read_csr
from greatseal_ca.identifiers import BUILT_IN

ROUNDS = 3
CONCURRENT = 64
SECONDS = 2.0

specification = pluggy.HookspecMarker("bench")
implementation = pluggy.HookimplMarker("bench")


class Specification:
    @specification
    def validator(self, type: str) -> object:
        """As if a request asked its plugins."""


class Implementation:
    @implementation
    def validator(self, type: str) -> object:
        return type


def registry_rows() -> list[Row]:
    """How a request finds a component, and what asking pluggy would cost instead."""
    components = Registry(Metrics()).of(ChallengeValidator)
    manager = pluggy.PluginManager("bench")
    manager.add_hookspecs(Specification)
    manager.register(Implementation())
    ask = manager.hook.validator
    lookups, calls = [], []
    for _ in range(ROUNDS):
        lookups.append(repeated(lambda: components.get("http-01")))
        calls.append(repeated(lambda: ask(type="http-01")))
    return [row("registry: a component by key", lookups), row("registry: a pluggy call instead", calls, "no request does this")]


HOSTILE = {
    "JSON that opens and never closes": b"[" * 65_536,
    "JSON of one text without end": b'"' + b"\\" * 65_535,
    "JSON of escapes": b'{"\\u0041":' * 6_000,
    "a JWS that is none": b'{"protected": "' + b"A" * 65_000 + b'", "payload": "", "signature": "!"}',
}
"""What anybody may send: 64 kB that are refused."""


def large_csr() -> bytes:
    """The signature is none: the key is looked at before."""
    modulus = element(2, b"\x00" + (1 << 16383 | 1).to_bytes(2048))
    key = sequence(sequence(bytes.fromhex("06092a864886f70d0101010500")), bit_string(sequence(modulus, element(2, b"\x01\x00\x01"))))
    body = sequence(element(2, b"\x00"), sequence(), key, element(0xA0, b""))
    return sequence(body, bytes.fromhex("300d06092a864886f70d01010b0500"), bit_string(bytes(2048)))


TYPES = {one.type: one for one in BUILT_IN}
HOSTILE_CSRS = {
    "a CSR of 30,000 levels": b"\x30\x80" * 30_000,
    "a CSR of noise": bytes(range(256)) * 256,
    "a CSR of an RSA key of 16,384 bits": large_csr(),
}


def hostile_rows() -> list[Row]:
    """What a stranger's largest input costs before it is refused."""
    modulus = secrets.randbits(8192) | 1 << 8191 | 1
    operations: dict[str, Callable[[], object]] = {name: partial(refused, parse_flattened, text) for name, text in HOSTILE.items()}
    operations |= {name: partial(refused, partial(read_csr, types=TYPES), data) for name, data in HOSTILE_CSRS.items()}
    operations["an RSA modulus of 8,192 bits"] = lambda: (weak_rsa_reason(modulus, 65537), is_fermat_factorable(modulus))
    rounds = [{name: repeated(call, at_once=1) for name, call in operations.items()} for _ in range(ROUNDS)]
    return [row(f"refused: {name}", [samples[name] for samples in rounds]) for name in operations]


def refused(read: Callable[[bytes], object], data: bytes) -> None:
    """Read what comes with a request of ACME."""
    try:
        read(data)
    except (BadJws, BadCsr):
        return
    raise AssertionError(data)


things = table("bench_thing", MetaData(), State.OWNED, Column("id", Id, primary_key=True), Column("text", Text), Column("used_at", Moment))
INSERT = insert(things).values(id=param("id"), text=param("text"))
CONSUME = update(things).where(things.c.id == param("id"), things.c.used_at.is_(None)).values(used_at=param("now"))
BY_KEY = select(things).where(things.c.id == param("id"))


def two_statements(tx: Tx, id: str) -> int:
    """An insert and a guarded update."""
    tx.run(INSERT, id=id, text="text of some length, as a row has it")
    return tx.count(CONSUME, id=id, now=tx.now)


def by_key(tx: Tx, id: str) -> str | None:
    """A row by its key."""
    found = tx.one(BY_KEY, id=id)
    return None if found is None else found.text


def store_rows() -> list[Row]:
    """Durable transactions of two statements by 64 callers at once, and reads by key, on SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE bench_thing (id TEXT PRIMARY KEY, text TEXT, used_at BIGINT)")
        connection.close()
        return asyncio.run(_store_rows(f"sqlite:///{path}"))


async def _store_rows(url: str) -> list[Row]:
    writes, reads = [], []
    async with open_database(
        DatabaseConfig(url=url), node_id="n1", clock=SystemClock(), log=structlog.get_logger(), on_changed=lambda _: None
    ) as database:

        async def write(number: int) -> None:
            assert await database.write(two_statements, f"thing-{number}") == 1

        async def read(number: int) -> None:
            assert await database.read(by_key, f"thing-{number % 1000}") is not None

        numbers = itertools.count()
        for _ in range(ROUNDS):
            writes.append(await load(write, numbers, CONCURRENT, SECONDS))
            reads.append(await load(read, itertools.count(), CONCURRENT, SECONDS))
    return [
        row("store: transaction of two statements, 64 at once", writes, "durable before the caller goes on"),
        row("store: read of a row by key, 64 at once", reads),
    ]


async def load(operation: Callable[[int], Awaitable[None]], numbers: Iterator[int], callers: int, seconds: float) -> Sample:
    """Keep ``callers`` at work for some time, in this process."""
    durations: list[float] = []
    reference = reference_us()

    async def caller() -> None:
        while (start := time.perf_counter()) < end:
            await operation(next(numbers))
            durations.append(time.perf_counter() - start)

    used, began = own_cpu_us(), time.perf_counter()
    end = began + seconds
    await asyncio.gather(*(caller() for _ in range(callers)))
    return Sample(
        cpu_us=own_cpu_us() - used,
        seconds=time.perf_counter() - began,
        operations=len(durations),
        durations=durations,
        reference_us=reference,
    )
