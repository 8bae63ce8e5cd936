"""Running a kernel: schema, database, keys, lifespans, listeners, jobs; everything closes in reverse."""

import asyncio
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

from greatseal.api.http import AuthScheme, ListenerName
from greatseal.api.problems import StartProblem
from greatseal.db.database import open_database
from greatseal.db.migrate import ensure
from greatseal.http.dispatch import Dispatcher
from greatseal.http.listeners import Listeners, open_listeners
from greatseal.kernel.kernel import Kernel
from greatseal.keys.rotation import NodeKeys, first_cluster_key


class Running(msgspec.Struct, frozen=True):
    """A service that answers. ``addresses`` tells where, by listener."""

    kernel: Kernel
    addresses: Mapping[str, str]


def migrate(kernel: Kernel, *, mode: Literal["auto", "check"] | None = None) -> list[str]:
    """Bring the schema up to date, or check it; returns what was done."""
    return ensure(kernel.database.url, kernel.schemas, mode or kernel.database.mode)


@asynccontextmanager
async def running(kernel: Kernel) -> AsyncIterator[Running]:
    """Open everything, serve, and close everything in reverse, gracefully."""
    async with opened(kernel) as stack:
        listeners = await stack.enter_async_context(_listeners(kernel))
        kernel.health.serving = True
        kernel.jobs.start(kernel.all_jobs)
        try:
            yield Running(kernel, listeners.addresses)
        finally:
            kernel.health.serving = False
            await listeners.stop()
            await kernel.jobs.stop()


@asynccontextmanager
async def opened(kernel: Kernel) -> AsyncIterator[AsyncExitStack]:
    """Everything but listeners and jobs."""
    _make_state_dir(kernel.state_dir)
    await asyncio.to_thread(migrate, kernel)
    async with AsyncExitStack() as stack:
        stack.callback(kernel.blocking.close)
        kernel.store.opened = await stack.enter_async_context(
            open_database(kernel.database, node_id=kernel.node_id, clock=kernel.clock, log=kernel.log, on_changed=kernel.changes.notify)
        )
        kernel.keys = await _keys(kernel)
        for lifespan in kernel.lifespans:
            await stack.enter_async_context(lifespan.open())
        for document in {one.document for one in kernel.discovery}:
            kernel.discovery_members(document)
        yield stack


async def _keys(kernel: Kernel) -> NodeKeys:
    """The keys of this node, read and settled."""
    file = kernel.cluster.key_file or kernel.state_dir / "cluster.key"
    metadata = [schema.metadata for schema in kernel.schemas]
    async with first_cluster_key(kernel.store, file, metadata) as key:
        keys = NodeKeys(kernel.store, key, kernel.clock, kernel.log, blocking=kernel.blocking, file=file, metadata=metadata)
        keys.follow(kernel.changes)
        await keys.start()
    return keys


@asynccontextmanager
async def _listeners(kernel: Kernel) -> AsyncIterator[Listeners]:
    server = kernel.server
    schemes = {scheme.rule: scheme for scheme in kernel.registry.of(AuthScheme).values()}
    names: Sequence[ListenerName] = ("main", "admin")
    dispatchers = {
        name: Dispatcher(
            [route for route in kernel.routes if route.listener == name],
            schemes,
            base_url=kernel.base_url,
            max_body_bytes=server.max_body_bytes,
            trusted_proxies=server.trusted_proxies,
            log=kernel.log,
        )
        for name in names
    }
    async with open_listeners(kernel.listeners, dispatchers, log=kernel.log) as listeners:
        yield listeners


def _make_state_dir(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.stat().st_mode & stat.S_IWOTH:
            raise StartProblem(f"{path}: the state folder can be written by everybody; run chmod o-w {path}")
    except OSError as error:
        raise StartProblem(f"{path}: the state folder cannot be made: {error.strerror}") from None
