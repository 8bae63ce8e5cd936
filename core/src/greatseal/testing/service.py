"""Running a whole service inside a test: the real kernel, database and listeners on loopback."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from greatseal.host import Clock, Host
from greatseal.kernel.kernel import Kernel
from greatseal.kernel.running import running
from greatseal.testing.template import migrated

__all__ = ["Kernel", "Service", "document", "free_port", "serve"]


class Service(msgspec.Struct, frozen=True):
    """A running service. ``url`` is its base URL, ``addresses`` its listeners; ``stop`` ends it before its block does."""

    kernel: Kernel
    url: str
    addresses: Mapping[str, str]
    stop: Callable[[], Awaitable[None]]

    def host(self, feature: str) -> Host:
        """The kernel as that plugin sees it."""
        return self.kernel.hosts[feature]


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody has now, and that the system gives nobody else for a minute.

    A connection that was ended on it keeps it from being handed out; a server may still listen there, since servers set SO_REUSEADDR.
    """
    with socket.socket() as server, socket.socket() as client:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        client.connect(server.getsockname())
        accepted, _ = server.accept()
        accepted.close()
        client.recv(1)
        port: int = server.getsockname()[1]
        return port


def document(folder: Path, enabled: Sequence[str], **sections: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration document on a free port with SQLite under ``folder``; ``sections`` are merged into it key by key."""
    port = free_port()
    whole: dict[str, Any] = {
        "plugins": {"enabled": list(enabled)},
        "server": {"base_url": f"http://localhost:{port}", "listen": f"127.0.0.1:{port}"},
        "database": {"url": f"sqlite:///{folder}/greatseal.db", "migrate": "auto"},
        "cluster": {"key_file": str(folder / "cluster.key")},
    }
    for name, values in sections.items():
        whole[name] = {**whole.get(name, {}), **values} if isinstance(values, Mapping) else values
    return whole


@asynccontextmanager
async def serve(config: Mapping[str, Any], *, clock: Clock | None = None) -> AsyncIterator[Service]:
    """Run the service of a configuration document until the block ends."""
    kernel = Kernel(config, clock=clock)
    if kernel.database.mode == "auto" and kernel.state_dir.is_dir():
        migrated(kernel.database.url, kernel.schemas)
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(kernel))
        yield Service(kernel, kernel.base_url, service.addresses, stack.aclose)
