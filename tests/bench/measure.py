"""Rows, references and what a process has used."""

import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One round: CPU of the measured process, wall seconds, the duration of each operation in seconds."""

    cpu_us: float
    seconds: float
    operations: int
    durations: Sequence[float] = ()
    reference_us: float
    paced_us: float | None = None
    """The reference at the pace of the round: made between its requests, on cores as warm as the server's."""


class Row(msgspec.Struct, kw_only=True):
    """A line of the table. What does not apply is None; ``ratio`` is ``cpu_us_per_op`` by ``reference_us``."""

    name: str
    cpu_us_per_op: float | None = None
    ops_per_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    reference_us: float | None = None
    ratio: float | None = None
    note: str = ""


def row(name: str, samples: Sequence[Sample], note: str = "") -> Row:
    """The medians of the rounds; the ratio is the median of each round's own ratio."""
    durations = [sorted(sample.durations) for sample in samples if sample.durations]
    return Row(
        name=name,
        cpu_us_per_op=statistics.median(sample.cpu_us / sample.operations for sample in samples),
        ops_per_s=statistics.median(sample.operations / sample.seconds for sample in samples),
        p50_ms=statistics.median(quantile(each, 0.50) for each in durations) * 1e3 if durations else None,
        p99_ms=statistics.median(quantile(each, 0.99) for each in durations) * 1e3 if durations else None,
        reference_us=statistics.median(sample.reference_us for sample in samples),
        ratio=statistics.median(sample.cpu_us / sample.operations / sample.reference_us for sample in samples),
        note=note,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the ordered values lie."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def reference_us(seconds: float = 0.15) -> float:
    """CPU of a P-256 signature made and verified on this machine in this minute, microseconds."""
    key = ec.generate_private_key(ec.SECP256R1())
    public, algorithm, count = key.public_key(), ec.ECDSA(hashes.SHA256()), 0
    start = time.process_time()
    while time.process_time() - start < seconds:
        public.verify(key.sign(b"reference", algorithm), b"reference", algorithm)
        count += 1
    return (time.process_time() - start) / count * 1e6


def repeated(operation: Callable[[], object], seconds: float = 0.3, *, at_once: int = 1000) -> Sample:
    """Call ``operation`` in this process for some time, ``at_once`` times between looks at the clock; the cost of the loop is taken off."""

    def per_call(call: Callable[[], object]) -> tuple[float, int]:
        count, start = 0, time.process_time()
        while time.process_time() - start < seconds:
            for _ in range(at_once):
                call()
            count += at_once
        return (time.process_time() - start) / count, count

    reference = reference_us()
    cost, count = per_call(operation)
    cost = max(cost - per_call(lambda: None)[0], 0.0)
    return Sample(cpu_us=cost * count * 1e6, seconds=max(cost * count, 1e-9), operations=count, reference_us=reference)


def cpu_us(pid: int) -> float:
    """User and system time that a process has used, all threads, microseconds (in clock ticks)."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) * TICK_US


def own_cpu_us() -> float:
    """The same of this process, exact."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1e6


def rss_kb(pid: int) -> int:
    """Resident memory, kB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
