"""Listening sockets: made so that a port in use is found, and closed so that no connection that was made is lost."""

import ctypes
import errno
import ipaddress
import os
import select
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from greatseal.api.http import ListenerName
from greatseal.api.problems import StartProblem
from greatseal.http.hosts import is_host

if TYPE_CHECKING:
    from greatseal.http.tls import Tls

BACKLOG = 1024
UNIX_PATH_BYTES = 107
_SO_ATTACH_FILTER = 26

# A classic BPF program over the TCP header: drop what has SYN and not ACK, that is every new connection, and nothing else.
_DROP_NEW_CONNECTIONS = b"".join(
    struct.pack("=HBBI", *instruction)
    for instruction in (
        (0x30, 0, 0, 13),  # load the byte of the flags
        (0x54, 0, 0, 0x12),  # keep SYN and ACK
        (0x15, 0, 1, 0x02),  # SYN alone?
        (0x06, 0, 0, 0),  # drop
        (0x06, 0, 0, 0xFFFFFFFF),  # pass
    )
)


class ListenProblem(StartProblem):
    """A listener cannot be opened."""


class ListenerConfig(msgspec.Struct, frozen=True):
    """Where to listen: ``host:port`` (port 0: any free one) or ``unix:/path``; ``mode`` is that of the Unix socket."""

    name: ListenerName
    address: str
    tls: "Tls | None" = None
    mode: int = 0o660


class BoundSocket(msgspec.Struct, frozen=True):
    """A listening socket; a Unix one with its path and the inode that it made there."""

    sock: socket.socket
    path: Path | None = None
    inode: int = 0

    @property
    def name(self) -> str:
        """``127.0.0.1:8080``, ``[::1]:8080`` or ``unix:/path``."""
        if self.path is not None:
            return f"unix:{self.path}"
        host, port, *_ = self.sock.getsockname()
        return f"[{host}]:{port}" if self.sock.family == socket.AF_INET6 else f"{host}:{port}"

    def refuse_new(self) -> None:
        """From now on no connection joins those that wait to be accepted; clients try again and find our successor or nobody.

        Connections whose handshake is under way are completed. Where the kernel has no such filter nothing happens: then a
        connection made between the last accept and the close is reset.
        """
        if self.path is not None:
            self.remove_path()
            return
        size = len(_DROP_NEW_CONNECTIONS)
        program = ctypes.create_string_buffer(_DROP_NEW_CONNECTIONS, size)
        with suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", size // 8, ctypes.addressof(program)))

    def has_waiting(self) -> bool:
        """Whether a connection waits to be accepted."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))

    def remove_path(self) -> None:
        """Remove the path of a Unix socket, unless another server has put its own there."""
        with suppress(FileNotFoundError):
            if self.path is not None and self.path.lstat().st_ino == self.inode:
                self.path.unlink()


def bind(config: ListenerConfig) -> list[BoundSocket]:
    """Listening sockets for every address that the name means. Raises ListenProblem with one clear line."""
    if config.address.startswith("unix:"):
        return [_bind_unix(config, _unix_path(config))]
    host, port = _host_and_port(config)
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        raise ListenProblem(f"{_where(config)}: the host name has no address; write an IP address") from None
    bound: list[BoundSocket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            # Port 0: the other addresses take the port that the first one got.
            chosen = bound[0].sock.getsockname()[1] if bound and not port else port
            bound.append(BoundSocket(_bind_tcp(config, family, (address[0], chosen, *address[2:]))))
    except ListenProblem:
        for one in bound:
            one.sock.close()
        raise
    return bound


def check_address(config: ListenerConfig) -> None:
    """Raises ListenProblem for an address that cannot be read."""
    if config.address.startswith("unix:"):
        _unix_path(config)
    else:
        _host_and_port(config)


def is_private(address: str) -> bool:
    """Whether only this machine reaches what listens there: loopback or a Unix socket."""
    host = address.rpartition(":")[0].strip("[]")
    with suppress(ValueError):
        return address.startswith("unix:") or ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _bind_tcp(config: ListenerConfig, family: int, address: tuple[str | int, ...]) -> socket.socket:
    # No SO_REUSEPORT: with it a second server would share the port silently.
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setblocking(False)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ListenProblem(f"{_where(config)}: {_reason(error)}") from None
    return sock


def _bind_unix(config: ListenerConfig, path: Path) -> BoundSocket:
    _remove_stale(config, path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.bind(str(path))
        # Nobody can connect before listen(), so no moment has a wider mode.
        path.chmod(config.mode)
        sock.listen(BACKLOG)
        return BoundSocket(sock, path, path.lstat().st_ino)
    except OSError as error:
        sock.close()
        raise ListenProblem(f"{_where(config)}: {_reason(error)}") from None


def _remove_stale(config: ListenerConfig, path: Path) -> None:
    """Remove the socket of a server that is gone; refuse one that answers, and what is no socket."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ListenProblem(f"{_where(config)}: there is a file that is no socket; remove it or choose another path")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            probe.connect(str(path))
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
        return
    except OSError as error:
        raise ListenProblem(f"{_where(config)}: {_reason(error)}") from None
    raise ListenProblem(f"{_where(config)}: another process listens there; stop it or choose another path")


def _unix_path(config: ListenerConfig) -> Path:
    path = Path(config.address.removeprefix("unix:"))
    if len(os.fsencode(path)) > UNIX_PATH_BYTES or not path.is_absolute() or "\0" in config.address:
        raise ListenProblem(f"{_where(config)}: expected an absolute path of at most {UNIX_PATH_BYTES} bytes")
    return path


def _host_and_port(config: ListenerConfig) -> tuple[str, int]:
    """Host and port; no host means every address."""
    host, colon, port = config.address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535 or (host and not is_host(host)):
        raise ListenProblem(f"{_where(config)}: expected host:port, [IPv6 address]:port or unix:/path")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "the address is in use; stop the other process or choose another port"
        case errno.EACCES | errno.EPERM:
            return "permission denied; choose a port above 1023 or a folder of the service, or grant CAP_NET_BIND_SERVICE"
        case errno.EADDRNOTAVAIL:
            return "no interface of this machine has the address; choose another, for example 127.0.0.1"
        case errno.ENOENT:
            return "the folder does not exist; make it"
        case _:
            return error.strerror or str(error)


def _where(config: ListenerConfig) -> str:
    section = "server" if config.name == "main" else config.name
    return f"[{section}] listen = {config.address!r}"
