"""Running a kernel: schema, database, keys, lifespans, listeners, jobs; everything closes in reverse."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Literal

import msgspec

from greatseal.api.declarations import Placement
from greatseal.api.http import AuthScheme, ClientTrust, ListenerName
from greatseal.api.keys import KeyStore
from greatseal.api.problems import Problem, StartProblem
from greatseal.db.database import Rehearsing, open_database
from greatseal.db.migrate import ensure
from greatseal.db.sole import Hold, sole
from greatseal.http.dispatch import Dispatcher
from greatseal.http.listeners import Listeners, open_listeners
from greatseal.http.owners import Owners
from greatseal.http.runs import Runs
from greatseal.http.tls import Tls, client_roots
from greatseal.kernel.folders import make_state_folder
from greatseal.kernel.kernel import Kernel
from greatseal.kernel.report import PluginFailed
from greatseal.keys.rotation import NodeKeys, first_cluster_key

STOP_SECONDS = 10.0
"""How long the calls that other nodes passed on may take at the stop."""


class Running(msgspec.Struct, frozen=True):
    """A service that answers. ``addresses`` tells where, by listener. ``lost`` fails when it must end, because it is not alone."""

    kernel: Kernel
    addresses: Mapping[str, str]
    lost: asyncio.Task[None]


def migrate(kernel: Kernel, *, mode: Literal["auto", "check"] | None = None) -> list[str]:
    """Bring the schema up to date, or check it; returns what was done."""
    return ensure(kernel.database.url, kernel.schemas, mode or kernel.database.mode)


def reload(kernel: Kernel) -> None:
    """What a hang-up signal asks for: connections to come get the TLS files as they are now, or those of before where they are wrong."""
    for listener in kernel.listeners:
        if listener.tls is None:
            kernel.log.info("there are no TLS files to read again", listener=listener.name)
            continue
        try:
            listener.tls.read_again(kernel.clock.now())
        except StartProblem as problem:
            reason = "; ".join(problem.messages)
            kernel.log.warning("the TLS files are wrong; those of before stay in use", listener=listener.name, reason=reason)
        else:
            kernel.log.info("the TLS files were read again", listener=listener.name)


@asynccontextmanager
async def running(kernel: Kernel) -> AsyncIterator[Running]:
    """Open everything, serve, and close everything in reverse, gracefully."""
    async with AsyncExitStack() as stack:
        hold = await asyncio.to_thread(stack.enter_context, sole(kernel.database.url))
        await stack.enter_async_context(opened(kernel))
        await asyncio.to_thread(hold.mark)  # the first start has the tables only now
        lost = await stack.enter_async_context(_kept(kernel, hold))
        listeners = await stack.enter_async_context(_listeners(kernel))
        kernel.health.serving = True
        kernel.jobs.start(kernel.all_jobs)
        try:
            yield Running(kernel, listeners.addresses, lost)
        finally:
            kernel.health.serving = False
            await listeners.stop()
            await kernel.jobs.stop()


@asynccontextmanager
async def opened(kernel: Kernel, *, beside: bool = False) -> AsyncIterator[None]:
    """Everything but listeners and jobs, for whoever is :func:`greatseal.db.sole.sole`; or, ``beside`` that process, without a change."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(prepared(kernel, beside=beside))
        for feature, lifespan in kernel.lifespans:
            if beside and lifespan.placement is not Placement.WORKER:
                continue  # the process that serves has it
            try:
                await stack.enter_async_context(lifespan.open())
            except (Problem, StartProblem):
                raise
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                raise StartProblem(f"{kernel.who(feature)}: the lifespan {lifespan.name!r} cannot be opened: {why}") from error
        for document, ca_id in {(one.document, one.ca_id) for _, one in kernel.discovery}:
            try:
                kernel.discovery_members(document, ca_id)
            except PluginFailed as failed:
                raise StartProblem(str(failed)) from failed
        yield


@asynccontextmanager
async def prepared(kernel: Kernel, *, beside: bool = False) -> AsyncIterator[None]:
    """Database and keys, and no lifespan: what commands of plugins work with."""
    make_state_folder(kernel.state_dir)
    async with AsyncExitStack() as stack:
        stack.callback(kernel.blocking.close)
        await stack.enter_async_context(with_store(kernel, beside=beside))
        await kernel.blocked_keys.load()
        kernel.keys = await _keys(kernel, beside=beside)
        yield


@asynccontextmanager
async def with_store(kernel: Kernel, *, beside: bool = False) -> AsyncIterator[None]:
    """The database alone, its schema up to date: for whoever is :func:`greatseal.db.sole.sole`; or, ``beside`` that one, unchanged."""
    await asyncio.to_thread(migrate, kernel, mode="check" if beside else None)
    async with open_database(
        kernel.database, node_id=kernel.node_id, clock=kernel.clock, log=kernel.log, on_changed=kernel.changes.notify
    ) as database:
        database.forwarder = kernel.peers
        kernel.store.opened = Rehearsing(database) if beside else database
        yield


@asynccontextmanager
async def _kept(kernel: Kernel, hold: Hold) -> AsyncIterator[asyncio.Task[None]]:
    assert kernel.store.opened is not None
    keeping = asyncio.create_task(hold.keep(kernel.store.opened, kernel.log))
    try:
        yield keeping
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})


async def _keys(kernel: Kernel, *, beside: bool) -> NodeKeys:
    """The keys of this node, read and settled."""
    file = kernel.cluster.key_file or kernel.state_dir / "cluster.key"
    metadata = [schema.metadata for schema in kernel.schemas]
    async with first_cluster_key(kernel.store, file, metadata) as key:
        keys = NodeKeys(
            kernel.store,
            key,
            kernel.clock,
            kernel.log,
            blocking=kernel.blocking,
            file=file,
            metadata=metadata,
            stores=kernel.registry.of(KeyStore),
        )
        keys.follow(kernel.changes)
        await keys.start(settle=not beside)
    return keys


@asynccontextmanager
async def _listeners(kernel: Kernel) -> AsyncIterator[Listeners]:
    server = kernel.server
    schemes = {scheme.rule: scheme for scheme in kernel.registry.of(AuthScheme).values()}
    names: Sequence[ListenerName] = ("main", "admin")
    owners = _owners(kernel)
    requests = kernel.metrics.histogram("greatseal_request_seconds", "Requests that were answered.", ("method", "route", "status"))
    dispatchers = {
        name: Dispatcher(
            [route for route in kernel.routes if route.listener == name],
            schemes,
            base_url=kernel.base_url,
            max_body_bytes=server.max_body_bytes,
            trusted_proxies=server.trusted_proxies,
            log=kernel.log,
            owners=owners,
            observer=requests.of,
            refusal=kernel.refusal,
            languages=kernel.languages,
            who=kernel.who_brought,
            believes_client_cert=name != "admin",  # any program of the machine may ask from there
        )
        for name in names
    }
    _ask_clients(kernel)
    opening = open_listeners(kernel.listeners, dispatchers, log=kernel.log)
    async with _heard(kernel, dispatchers["main"]), opening as listeners:
        yield listeners


def _owners(kernel: Kernel) -> Owners | None:
    """Who is asked for what other nodes keep; nobody where there are none, and where all keep everything in one database."""
    if kernel.peers is None or kernel.store.dialect != "sqlite":
        return None
    return Owners(kernel.peers, kernel.handles.new_id)


@asynccontextmanager
async def _heard(kernel: Kernel, dispatcher: Dispatcher) -> AsyncIterator[None]:
    """Answers what other nodes ask for."""
    if kernel.peers is None:
        yield
        return
    boot = secrets.token_hex(8)
    runs = Runs(boot, kernel.peers, dispatcher.handle_forwarded, sender_of=kernel.handles.owner_of_id, log=kernel.log)
    kernel.peers.serve(boot, runs.answer, kernel.operations)
    try:
        yield
    finally:
        await runs.stop(STOP_SECONDS)


def _ask_clients(kernel: Kernel) -> None:
    """Have the listeners that somebody trusts clients of ask for certificates."""
    trusting = kernel.registry.of(ClientTrust).values()
    for listener in kernel.listeners:
        roots = [one.roots for one in trusting if one.listener == listener.name]
        if listener.name == "admin" and (admin := kernel.admin()) and admin.client_ca_file:
            roots.append(partial(client_roots, admin.client_ca_file))
        if listener.tls is None or not roots:
            continue
        tls, name = listener.tls, listener.name
        tls.ask_clients(lambda roots=roots: [root for some in roots for root in some()])  # type: ignore[misc]

        def changed(_id: str, tls: Tls = tls, name: str = name) -> None:
            try:
                tls.trust_again()
            except StartProblem as problem:
                kernel.log.warning(
                    "the roots of client certificates are wrong; those of before stay in use",
                    listener=name,
                    reason="; ".join(problem.messages),
                )

        kernel.changes.subscribe("client_trust", changed)
