"""A PostgreSQL server that waits for the disk, as one in earnest does."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from greatseal.testing.postgres import Cluster, find_binaries

SETTINGS = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "256MB", "max_wal_size": "4GB"}


@contextlib.contextmanager
def bench_cluster() -> Iterator[Cluster | None]:
    """From ready to stopped; None when PostgreSQL is not installed."""
    binaries = find_binaries()
    if binaries is None:
        yield None
        return
    # A short path: a Unix socket's has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="gs-pg-", dir="/tmp") as folder:
        cluster = Cluster(binaries, Path(folder), SETTINGS)
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
