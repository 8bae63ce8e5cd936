"""A PostgreSQL server that waits for the disk, as one in earnest does."""

import contextlib
from collections.abc import Iterator

from greatseal.testing.postgres import Cluster, find_binaries, running_cluster

SETTINGS = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "256MB", "max_wal_size": "4GB"}


@contextlib.contextmanager
def bench_cluster() -> Iterator[Cluster | None]:
    """From ready to stopped; None when PostgreSQL is not installed."""
    binaries = find_binaries()
    if binaries is None:
        yield None
        return
    with running_cluster(binaries, SETTINGS) as cluster:
        yield cluster
