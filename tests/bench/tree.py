"""The bytes of a log: the entry of a certificate, and its standalone certificate, whose signature is made once for a batch."""

from collections.abc import Iterator

from bench.measure import Row, repeated, row
from rig.plants import Plant

from greatseal_mtc.dialects import PLANTS_05
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.wire import certificate_of, entry_of_tbs, parse_certificate, serial_of

ROUNDS = 3
ENTRIES_GOAL = 100_000
"""Entries a second of one core."""


def tree_rows() -> Iterator[Row]:
    """Without a log."""
    plant = Plant(256)
    tbs = plant.tbs(255)
    entry = row("log: entry of a certificate", [repeated(lambda: entry_of_tbs(PLANTS_05, plant.ca, SHA256, tbs)) for _ in range(ROUNDS)])
    reached = "held" if (entry.ops_per_s or 0) >= ENTRIES_GOAL else "MISSED"
    entry.note = f"goal {ENTRIES_GOAL:,}/s of one core: {reached}"
    yield entry
    proof = parse_certificate(PLANTS_05, SHA256, plant.certificate(255)).proof
    serial = serial_of(1, 255)
    yield row(
        "log: standalone certificate of an entry",
        [repeated(lambda: certificate_of(PLANTS_05, plant.ca, tbs, serial, proof)) for _ in range(ROUNDS)],
        "with a proof and a signature that are there",
    )
