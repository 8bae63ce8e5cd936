"""The way to onion services: a Tor client on a host of the operator's, asked by SOCKS 5 (RFC 1928; Tor's socks-extensions)."""

import asyncio
import socket
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from greatseal.net.endpoints import parse_server

__all__ = ["TOR_SECONDS", "Tor", "TorAccess", "connected_to"]

SOCKS_PORT = 9050
"""Tor's own default (`SocksPort`)."""
TOR_SECONDS = 25.0
"""That one question to an onion service may take: Tor builds a way to it first, which takes many seconds on a bad day."""
_VERSION, _NO_LOGIN, _CONNECT, _NAME = 5, 0, 1, 3
_BOUND_BYTES: Mapping[int, int] = MappingProxyType({1: 4, 4: 16})
_SAID: Mapping[int, str] = MappingProxyType(
    {
        0x03: "no way to it",
        0x04: "the service is not reachable",
        0x05: "the service refused the connection",
        0x06: "no answer in time",
        0xF0: "the descriptor of the service was not found",
        0xF1: "the descriptor of the service is not valid",
        0xF2: "the introduction to the service failed",
        0xF3: "the rendezvous with the service failed",
        0xF4: "the service asks its clients for a key",
        0xF5: "the service asks its clients for another key",
        0xF6: "the address is no onion address",
        0xF7: "the introduction to the service timed out",
    }
)


class Tor(msgspec.Struct, frozen=True):
    """The SOCKS listener of a Tor client."""

    host: str
    port: int

    async def connected(self, name: str, port: int) -> socket.socket:
        """A connection to an onion service. Raises OSError in words for strangers, who learn nothing of where the Tor client is."""
        try:
            proxy = await connected_to(self.host, self.port)
        except OSError as error:
            raise ConnectionError("the Tor client of this server does not answer") from error
        try:
            await self._ask(proxy, name, port)
        except BaseException:
            proxy.close()
            raise
        return proxy

    async def _ask(self, proxy: socket.socket, name: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(proxy, bytes((_VERSION, 1, _NO_LOGIN)))
        if await _read(proxy, 2) != bytes((_VERSION, _NO_LOGIN)):
            raise ConnectionError("the Tor client of this server asks for a login, or speaks no SOCKS 5")
        host = name.encode("ascii")
        await loop.sock_sendall(proxy, bytes((_VERSION, _CONNECT, 0, _NAME, len(host))) + host + port.to_bytes(2))
        version, code, _, kind = await _read(proxy, 4)
        if version != _VERSION or code:
            raise ConnectionError(f"Tor says: {_SAID.get(code, f'failure {code}')}")
        await _read(proxy, 2 + (_BOUND_BYTES.get(kind) or (await _read(proxy, 1))[0]))


class TorAccess(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: how onion services are reached."""

    tor_connectivity_enabled: bool = False
    """Whether onion services are connected to, through the Tor client at `tor_socks_addr`: http-01 and tls-alpn-01 are then offered for
    their names too."""
    tor_socks_addr: str = f"127.0.0.1:{SOCKS_PORT}"
    """Address and port of the SOCKS listener of a Tor client."""

    def __post_init__(self) -> None:
        try:
            parse_server(self.tor_socks_addr)
        except ValueError as error:
            raise ValueError(f"tor_socks_addr: {error}") from None

    @property
    def tor(self) -> Tor | None:
        """The way, None where there is none."""
        host, port = parse_server(self.tor_socks_addr)
        return Tor(host, port or SOCKS_PORT) if self.tor_connectivity_enabled else None


async def connected_to(address: str, port: int) -> socket.socket:
    """A connection to the literal ``address``. Raises OSError."""
    connected = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    connected.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connected, (address, port))
    except BaseException:
        connected.close()
        raise
    return connected


async def _read(proxy: socket.socket, length: int) -> bytes:
    """Exactly so many bytes: what comes after them belongs to the service."""
    found = bytearray()
    while len(found) < length:
        if not (chunk := await asyncio.get_running_loop().sock_recv(proxy, length - len(found))):
            raise ConnectionError("the Tor client of this server closed the connection")
        found += chunk
    return bytes(found)
