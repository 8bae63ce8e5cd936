"""`make bench`: prints a table and writes var/bench.json. It takes about ten minutes and stops by itself.
`ARGS=--growth` measures PostgreSQL alone, on fresh tables and with a million rows in each, and writes var/bench-growth.json.

Figures are medians of interleaved rounds; a ratio is CPU by the P-256 sign + verify of the same minute, so that machines compare.
"""

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
from bench.inside import hostile_rows, registry_rows, store_rows
from bench.inventory import inventory_rows
from bench.log import log_rows
from bench.log_orders import log_order_rows, tile_rows
from bench.measure import Row
from bench.orders import order_rows
from bench.postgres import MILLION, postgres_rows
from bench.process import empty_plugin_rows, memory_rows, shipped_ca, start_row
from bench.proofs import proof_rows
from bench.sessions import session_rows
from bench.sign_in import sign_in_rows
from bench.status import lists_rows, ocsp_rows
from bench.tokens import token_rows
from bench.tree import tree_rows
from bench.wrk import installed
from rig.pebble import Pebble

RESULT = Path("var/bench.json")
GROWTH = Path("var/bench-growth.json")

COLUMNS = (("CPU us/op", 12), ("op/s", 12), ("p50 ms", 10), ("p99 ms", 10), ("ref us", 9), ("ratio", 10))


def server_rows(folder: Path) -> Iterator[Row]:
    """What needs a running server."""
    server = shipped_ca(folder)
    yield start_row(server)
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(server.running())
        yield from memory_rows(server, process.pid)
        beside = None
        if Pebble.installed():
            pebble = Pebble(folder)
            beside = pebble, stack.enter_context(pebble.running()).pid
        else:
            print("pebble is not installed (apt install pebble): no comparison", file=sys.stderr)
        yield from order_rows(server, process.pid, beside)


def provider_rows(folder: Path) -> Iterator[Row]:
    """What needs a running identity provider."""
    if installed():
        yield from token_rows(folder)
    else:
        print("wrk is not installed (apt install wrk): no rows of the identity provider", file=sys.stderr)


def revocation_rows(folder: Path) -> Iterator[Row]:
    """Revocation lists and OCSP."""
    if installed():
        yield from ocsp_rows(folder)
    yield from lists_rows(folder)


def log_rows_of_services(folder: Path) -> Iterator[Row]:
    """Orders with a log, and its tiles."""
    for name, measured in (("orders", log_order_rows), *([("tiles", tile_rows)] if installed() else [])):
        (folder / name).mkdir()
        yield from measured(folder / name)


def all_rows(folder: Path) -> Iterator[Row]:
    """Each as soon as it is known; rows whose rounds take turns are known together."""
    for name, measured in (
        ("server", server_rows),
        ("proofs", proof_rows),
        ("inventory", inventory_rows),
        ("plugins", empty_plugin_rows),
        ("sessions", session_rows),
        ("sign-in", sign_in_rows),
        ("provider", provider_rows),
        ("status", revocation_rows),
        ("log", log_rows),
        ("logs", log_rows_of_services),
        ("postgres", postgres_rows),
    ):
        (folder / name).mkdir()
        yield from measured(folder / name)
    yield from registry_rows()
    yield from store_rows()
    yield from hostile_rows()
    yield from tree_rows()


def growth_rows(folder: Path) -> Iterator[Row]:
    """PostgreSQL as it begins and as it has grown."""
    for copies in (0, MILLION):
        (folder / str(copies)).mkdir()
        yield from postgres_rows(folder / str(copies), copies)


def show(row: Row) -> None:
    """A line of the table."""

    def cell(value: float | None) -> str:
        return "" if value is None else f"{value:,.3f}" if abs(value) < 1 else f"{value:,.1f}"

    figures = (row.cpu_us_per_op, row.ops_per_s, row.p50_ms, row.p99_ms, row.reference_us, row.ratio)
    cells = (cell(value).rjust(width) for value, (_, width) in zip(figures, COLUMNS, strict=True))
    print(f"{row.name:<52}{''.join(cells)}  {row.note}", flush=True)


def main() -> None:
    """All rows, and the file of them."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--growth", action="store_true", help="PostgreSQL with a million rows in each table")
    measured, result = (growth_rows, GROWTH) if parser.parse_args().growth else (all_rows, RESULT)
    rows = []
    print(" " * 52 + "".join(title.rjust(width) for title, width in COLUMNS), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for row in measured(Path(folder)):
            show(row)
            rows.append(row)
    result.parent.mkdir(exist_ok=True)
    result.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
    print(f"\nwritten to {result}")


if __name__ == "__main__":
    main()
