"""`make bench`: prints a table and writes var/bench.json. It takes about four minutes and stops by itself.

Figures are medians of interleaved rounds; a ratio is CPU by the P-256 sign + verify of the same minute, so that machines compare.
"""

import contextlib
import sys
import tempfile
from pathlib import Path

import msgspec
from bench.inside import registry_rows, store_rows
from bench.measure import Row
from bench.orders import order_rows
from bench.process import memory_rows, start_row
from bench.tokens import token_rows
from bench.wrk import installed
from rig.pebble import Pebble
from rig.server import Server

RESULT = Path("var/bench.json")


def server_rows(folder: Path) -> list[Row]:
    """What needs a running server."""
    server = Server(folder, [])
    rows = [start_row(server)]
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(server.running())
        rows += memory_rows(server, process.pid)
        beside = None
        if Pebble.installed():
            pebble = Pebble(folder)
            beside = pebble, stack.enter_context(pebble.running()).pid
        else:
            print("pebble is not installed (apt install pebble): no comparison", file=sys.stderr)
        return rows + order_rows(server, process.pid, beside)


def provider_rows() -> list[Row]:
    """What needs a running identity provider."""
    if not installed():
        print("wrk is not installed (apt install wrk): no rows of the identity provider", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as folder:
        return token_rows(Path(folder))


def show(rows: list[Row]) -> None:
    """The table."""

    def cell(value: float | None) -> str:
        return "" if value is None else f"{value:,.3f}" if abs(value) < 1 else f"{value:,.1f}"

    columns = (("CPU us/op", 12), ("op/s", 12), ("p50 ms", 10), ("p99 ms", 10), ("ref us", 9), ("ratio", 10))
    print(" " * 52 + "".join(title.rjust(width) for title, width in columns))
    for row in rows:
        figures = (row.cpu_us_per_op, row.ops_per_s, row.p50_ms, row.p99_ms, row.reference_us, row.ratio)
        cells = (cell(value).rjust(width) for value, (_, width) in zip(figures, columns, strict=True))
        print(f"{row.name:<52}{''.join(cells)}  {row.note}")


def main() -> None:
    """All rows."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [*server_rows(Path(folder)), *provider_rows(), *registry_rows(), *store_rows()]
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
    show(rows)
    print(f"\nwritten to {RESULT}")


if __name__ == "__main__":
    main()
