"""A log in files: appends, proofs, its start and its memory, with a thousand entries and with a million."""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path

import structlog
from bench.inside import load
from bench.measure import Row, Sample, own_cpu_us, reference_us, row, rss_kb
from bench.process import verdict

from greatseal_mtc import merkle, sequencer
from greatseal_mtc.backends.files import FilesBackend
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.sequencer import Log
from greatseal_mtc.state import Batch, Made
from greatseal_mtc.tiles import TileCache
from greatseal_mtc.views import LogView

NAME = "default-1"
MADE = Made("sha256", "plants-05", 1, "32473.1")
WAITING = 256
ENTRY = 600
"""Bytes of an entry, about those of a certificate with a P-256 key."""
SECONDS = 3.0
ROUNDS = 3
APPENDS_PER_CORE = 25_000
FLOORS = 8
"""Of the CPU of hashing and writing the same bytes in a plain loop, what an append may cost."""
SMALL, LARGE = 1_000, 1_000_000
PROOFS = 2_000
CACHE, SMALL_CACHE = 96 << 20, 1 << 20
"""Bytes of a cache that holds every tile of the large log, and of one that holds those above the leaves and a few more."""
WARM_MS, COLD_MS, START_SECONDS, GROWTH_MB = 0.15, 0.5, 1.0, 5.0


def log_rows(folder: Path) -> Iterator[Row]:
    """All that needs no service."""
    yield asyncio.run(_append_row(folder))
    sizes = {SMALL: folder / "small", LARGE: folder / "large"}
    for size, place in sizes.items():
        asyncio.run(fill(place, size))
    yield from asyncio.run(_proof_rows(sizes[LARGE]))
    yield asyncio.run(_start_row(sizes[LARGE]))
    yield _memory_row(sizes)


@asynccontextmanager
async def _opened(folder: Path, cache: TileCache) -> AsyncIterator[Log]:
    async def record(_batch: Batch) -> None:
        """As fast as it can be: what the database costs is another matter."""

    async with Log.open(FilesBackend(folder), NAME, MADE, record=record, cache=cache, logger=structlog.get_logger()) as log:
        yield log


async def _append_row(folder: Path) -> Row:
    floors, samples = [], []
    body, numbers = os.urandom(ENTRY - 8), count()
    async with _opened(folder, TileCache(SMALL_CACHE)) as log:

        async def append(number: int) -> None:
            await log.append(f"{number:08x}-0000-8000-8000-000000000000", number.to_bytes(8) + body)

        for _ in range(ROUNDS):
            floors.append(_floor(folder / "plain", body))
            samples.append(await load(append, numbers, WAITING, SECONDS))
    found = row(f"log: durable append, {WAITING} waiting", samples)
    cost, floor = found.cpu_us_per_op or 0.0, sorted(floors)[ROUNDS // 2]
    per_core = 1e6 / cost
    found.note = (
        f"{per_core:,.0f}/s of one core, limit {APPENDS_PER_CORE:,}: {verdict(APPENDS_PER_CORE, per_core)}; hashing and writing alone "
        f"{floor:.1f} us, {cost / floor:.1f} of it, limit {FLOORS}: {verdict(cost, FLOORS * floor)}"
    )
    return found


def _floor(path: Path, body: bytes, entries: int = 50_000) -> float:
    """Microseconds of CPU for each entry: its leaf and its node are hashed, and it is written, in the plainest loop."""
    used = own_cpu_us()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    level = []
    for number in range(entries):
        entry = number.to_bytes(8) + body
        level.append(sha256(b"\x00" + entry).digest())
        os.write(file, entry)
    while len(level) > 1:
        level = [sha256(b"\x01" + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=False)]
    os.fdatasync(file)
    os.close(file)
    return (own_cpu_us() - used) / entries


async def fill(folder: Path, size: int) -> None:
    """A log of that size, in few commits."""
    chunk = 1 << 14
    group, waiting, sequencer.GROUP, sequencer.WAITING = sequencer.GROUP, sequencer.WAITING, chunk, chunk
    try:
        async with _opened(folder, TileCache(SMALL_CACHE)) as log:
            while log.size < size:
                numbers = range(log.size, min(size, log.size + chunk))
                await asyncio.gather(*(log.append(str(number), entry_of(number)) for number in numbers))
    finally:
        sequencer.GROUP, sequencer.WAITING = group, waiting


def entry_of(number: int) -> bytes:
    """Short ones: what is measured with them looks at hashes."""
    return b"\x00\x00\x00\x01" + number.to_bytes(8) * 4


async def _proof_rows(folder: Path) -> Sequence[Row]:
    """Inclusion proofs of entries here and there, with every tile in memory, and where that of the leaf has to be read."""
    rows = []
    for name, cache, limit in (("every tile in memory", CACHE, WARM_MS), ("one cold tile", SMALL_CACHE, COLD_MS)):
        view = LogView(NAME, FilesBackend(folder).reader(NAME), TileCache(cache))
        assert await view.refresh()
        chosen = random.Random(0)
        if cache == CACHE:
            for start in range(0, view.size, 256):
                await view.inclusion(start, 0, view.size)
        samples = []
        for _ in range(ROUNDS + 1):
            indices = [chosen.randrange(view.size) for _ in range(PROOFS)]
            samples.append(await _timed(view, indices))
        found = row(f"log: inclusion proof in {LARGE:,} entries, {name}", samples[1:])
        milliseconds = (found.cpu_us_per_op or 0.0) / 1e3
        found.note = f"{milliseconds:.3f} ms, limit {limit} ms: {verdict(milliseconds, limit)}"
        rows.append(found)
    return rows


async def _timed(view: LogView, indices: Sequence[int]) -> Sample:
    size, root = view.head
    proof = await view.inclusion(indices[0], 0, size)
    assert merkle.evaluate(SHA256, 0, size, indices[0], leaf=SHA256.leaf(entry_of(indices[0])), proof=proof) == root
    reference, durations = reference_us(), []
    used, began = own_cpu_us(), time.perf_counter()
    for index in indices:
        start = time.perf_counter()
        await view.inclusion(index, 0, size)
        durations.append(time.perf_counter() - start)
    return Sample(
        cpu_us=own_cpu_us() - used,
        seconds=time.perf_counter() - began,
        operations=len(indices),
        durations=durations,
        reference_us=reference,
    )


async def _start_row(folder: Path) -> Row:
    """The log held, checked and ready to be appended to."""
    walls, used = [], []
    for _ in range(5):
        cpu, began = own_cpu_us(), time.perf_counter()
        async with _opened(folder, TileCache(SMALL_CACHE)):
            walls.append(time.perf_counter() - began)
            used.append(own_cpu_us() - cpu)
    wall = sorted(walls)[2]
    return Row(
        name=f"log: start with {LARGE:,} entries",
        cpu_us_per_op=sorted(used)[2],
        p50_ms=wall * 1e3,
        note=f"limit {START_SECONDS} s: {verdict(wall, START_SECONDS)}",
    )


def _memory_row(sizes: dict[int, Path]) -> Row:
    """A process that has appended and proven, with each log."""
    small, large = (
        float(subprocess.run([sys.executable, "-m", "bench.log", str(place)], check=True, stdout=subprocess.PIPE).stdout)
        for place in sizes.values()
    )
    growth = large - small
    return Row(
        name=f"log: memory with {LARGE:,} entries",
        note=f"{large:.1f} MB, {small:.1f} MB with {SMALL:,}; {growth:+.1f} MB, limit {GROWTH_MB} MB: {verdict(growth, GROWTH_MB)}",
    )


async def _resident(folder: Path) -> float:
    """MB of this process after some work."""
    async with _opened(folder, TileCache(SMALL_CACHE)) as log:
        chosen = random.Random(0)
        for number in range(8):
            await asyncio.gather(*(log.append(f"{number}-{each}", bytes(ENTRY)) for each in range(WAITING)))
            for _ in range(PROOFS // 8):
                await log.inclusion(chosen.randrange(log.size), 0, log.size)
        return rss_kb(os.getpid()) / 1024


if __name__ == "__main__":
    print(asyncio.run(_resident(Path(sys.argv[1]))))
