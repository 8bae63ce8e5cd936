"""Connections to addresses that somebody else chose: guarded, bounded, and telling what happened.

A name is resolved by the resolver that the caller gives, every address that came back must be allowed, and the connection goes to a
checked address: nothing is resolved twice, so a name that changes its mind (DNS rebinding) has nothing to gain. No proxy environment,
no cookies, no decompression, no kept connections.

Failures are ready for the person who has to mend the target: :class:`Blocked` and :class:`~greatseal.api.problems.IncorrectResponse` for
what the policy refuses, :class:`~greatseal.api.problems.Unreachable` for TCP, HTTP and time, :class:`~greatseal.api.problems.TlsFailure`
for a handshake, and whatever the resolver raises.
"""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from types import MappingProxyType
from typing import Protocol, TypeVar

import aiohttp
import msgspec
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from greatseal import __version__
from greatseal.api.problems import DnsFailure, IncorrectResponse, TlsFailure, Unreachable
from greatseal.net.addresses import PUBLIC, AddressPolicy
from greatseal.net.exchange import Answer, Content, Exchange, request
from greatseal.net.onion import is_onion, onion_key
from greatseal.net.text import excerpt
from greatseal.net.tor import Tor, connected_to

__all__ = ["Blocked", "Fetched", "NameResolver", "Peer", "connect", "fetch", "open_connection"]

T = TypeVar("T")

SECONDS = 10.0
MAX_REDIRECTS = 10
MAX_BODY_BYTES = 1024 * 1024
TRIED_ADDRESSES = 8  # a name with thousands of addresses must not make a port scanner of us
CLOSE_SECONDS = 1.0
HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")  # a name, or what stood in brackets
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_SAID: Mapping[type[Exception], str] = MappingProxyType(
    {
        TimeoutError: "no answer in time",
        aiohttp.ServerDisconnectedError: "Server disconnected",  # its text may be what it made of a part of a head
        aiohttp.ClientPayloadError: "the body ended early",
    }
)


class NameResolver(Protocol):
    """The part of :class:`~greatseal.api.services.Resolver` that is used here."""

    async def addresses(self, name: str) -> Sequence[str]: ...


class Blocked(IncorrectResponse):
    """An address that the policy forbids; nothing was connected to."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """The final answer: the URL that gave it, the address that answered, and at most ``max_body`` bytes as they came."""

    url: str
    address: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    redirects: int


class Peer:
    """The other end of a connection: the address that took it, and its streams."""

    def __init__(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.address = address
        self.reader = reader
        self.writer = writer

    async def ask(self, question: bytes, *, limit: int) -> bytes:
        """Send ``question`` and take all that comes until the peer closes. Raises IncorrectResponse over ``limit`` bytes."""
        self.writer.write(question)
        answer = bytearray()
        while chunk := await self.reader.read(limit + 1 - len(answer)):
            answer += chunk
            if len(answer) > limit:
                raise IncorrectResponse(f"{self.address} answered with over {limit} bytes: {excerpt(bytes(answer))}")
        return bytes(answer)


async def fetch(
    url: str,
    *,
    resolver: NameResolver,
    policy: AddressPolicy = PUBLIC,
    ports: Collection[int] | None = None,
    redirects: int = MAX_REDIRECTS,
    seconds: float = SECONDS,
    max_body: int = MAX_BODY_BYTES,
    tls: ssl.SSLContext | bool = True,
    headers: Mapping[str, str] = _NO_HEADERS,
    form: Mapping[str, str] | None = None,
    json: Mapping[str, object] | None = None,
    content: tuple[str, bytes] | None = None,
    tor: Tor | None = None,
) -> Fetched:
    """GET ``url`` and follow at most ``redirects`` redirects, all within ``seconds``. ``form``, ``json`` or ``content`` is
    POSTed, without redirects. ``ports`` are those that any hop may use, None for all; ``tls`` False accepts every certificate.

    Any final status is returned; no request header but ``headers`` tells who asks. ``tor`` is the way to onion services.
    """
    trail = _Trail(url, seconds, tor)
    sent, posted = {"User-Agent": f"greatseal/{__version__}", **headers}, Content.of(form, json, content)
    try:
        async with asyncio.timeout(seconds) as limit:
            target = _target(url, trail)
            for followed in range(redirects + 1):
                _check_hop(target, ports, trail)
                addresses = await _checked_addresses(target.raw_host or "", resolver, policy, trail)
                exchange = await _begun(target, addresses, tls, trail)
                try:
                    answer = await exchange.ask(request(target, sent, posted))
                    location = answer.headers.get("Location") if answer.status in REDIRECT_STATUSES else None
                    if location is None or posted is not None:
                        body = await _read(answer, max_body, trail)
                        return _fetched(target, answer, body, trail, followed)
                finally:
                    exchange.end()
                target = _follow(target, location, trail)
    except TimeoutError as error:
        raise (trail.timed_out() if limit.expired() else trail.broken(error)) from error
    except (aiohttp.ClientError, HttpProcessingError, OSError) as error:
        raise trail.broken(error) from error
    raise IncorrectResponse(f"{url}: more than {redirects} redirects; {trail.what}")


@asynccontextmanager
async def open_connection(
    host: str,
    port: int,
    *,
    resolver: NameResolver,
    policy: AddressPolicy = PUBLIC,
    seconds: float = SECONDS,
    tls: ssl.SSLContext | None = None,
    server_hostname: str | None = None,
    tor: Tor | None = None,
) -> AsyncIterator[Peer]:
    """A TCP (or TLS) connection to ``host``, closed at the end of the block. ``seconds`` bound the whole block; ``tor`` is the way to onion
    services.

    What the network does inside the block (reset, end of file, silence) becomes a Connection problem too.
    """
    trail = _Trail(f"{host} port {port}", seconds, tor)
    try:
        async with asyncio.timeout(seconds) as limit:
            addresses = await _checked_addresses(host, resolver, policy, trail)
            use = partial(_streams, tls=tls, server_hostname=server_hostname or host)
            reader, writer = await _connect(addresses, port, use, trail)
            try:
                yield Peer(trail.address, reader, writer)
            finally:
                await _close(writer)
    except TimeoutError as error:
        raise (trail.timed_out() if limit.expired() else trail.broken(error)) from error
    except ssl.SSLError as error:
        raise TlsFailure(f"{trail}: {_reason(error)}") from error
    except EOFError as error:
        raise Unreachable(f"{trail}: closed before the answer was complete") from error
    except OSError as error:
        raise trail.broken(error) from error


async def connect(
    host: str, port: int, *, resolver: NameResolver, policy: AddressPolicy = PUBLIC, seconds: float = SECONDS
) -> socket.socket:
    """A TCP connection to ``host``, for a library that speaks over it and closes it. Raises as :func:`open_connection`."""
    trail = _Trail(f"{host} port {port}", seconds)
    try:
        async with asyncio.timeout(seconds) as limit:
            return await _connect(await _checked_addresses(host, resolver, policy, trail), port, _itself, trail)
    except TimeoutError as error:
        raise (trail.timed_out() if limit.expired() else trail.broken(error)) from error


class _Trail:
    """What is being asked, of whom, over which way, and how long it may take: the first words of every message."""

    def __init__(self, what: str, seconds: float, tor: Tor | None = None) -> None:
        self.what = what
        self.seconds = seconds
        self.tor = tor
        self.resolving = ""
        self.address = ""

    def __str__(self) -> str:
        return f"{self.what} at {self.address}" if self.address else self.what

    def broken(self, error: Exception) -> Unreachable:
        return Unreachable(f"{self}: {_reason(error)}")

    def timed_out(self) -> DnsFailure | Unreachable:
        if self.resolving:
            return DnsFailure(f"{self.what}: no answer for the addresses of {self.resolving} within {self.seconds:g} s")
        return Unreachable(f"{self}: not finished within {self.seconds:g} s")

    def shares(self, addresses: Sequence[str]) -> Iterator[tuple[str, float | None]]:
        """Each address with the seconds that its connect may take, so that a silent one does not eat the time of the others."""
        share = None if len(addresses) == 1 else self.seconds / len(addresses)
        for self.address in addresses:
            yield self.address, share
        self.address = ""


def _target(url: str, trail: _Trail) -> URL:
    try:
        return URL(url)
    except ValueError as error:
        raise IncorrectResponse(f"{trail}: {_reason(error)}") from error


def _check_hop(url: URL, ports: Collection[int] | None, trail: _Trail) -> None:
    """Refuse a scheme, port or form of URL that no hop may have."""
    try:
        host, port = url.raw_host, url.port  # parsed only now
    except ValueError as error:
        raise IncorrectResponse(f"{trail}: {_reason(error)}") from error
    if url.scheme not in ("http", "https") or not host:
        raise IncorrectResponse(f"{trail}: only http and https URLs with a host are fetched")
    if "@" in url.raw_authority:
        raise IncorrectResponse(f"{trail}: a URL with user information is not fetched")
    if not HOST.fullmatch(host):
        raise IncorrectResponse(f"{trail}: {excerpt(host)} is no host name")
    if not port or (ports is not None and port not in ports):
        allowed = "" if ports is None else f", only {', '.join(str(port) for port in sorted(ports))}"
        raise IncorrectResponse(f"{trail}: port {port} is not allowed{allowed}")


def _follow(origin: URL, location: str, trail: _Trail) -> URL:
    """Where a Location leads (RFC 9110 s10.2.2). Only what a URI may hold is read: two parsers must not see two targets."""
    trail.what, trail.address = f"{trail} redirects to {excerpt(location)}", ""
    if not all("!" <= character <= "~" and character != "\\" for character in location):
        raise IncorrectResponse(f"{trail}: a URI has no such characters")
    try:
        reference = URL(location, encoded=True)
        nowhere = not reference.raw_host and (reference.scheme or location.startswith("//"))
        target = origin.join(reference).with_fragment(None)
    except ValueError as error:
        raise IncorrectResponse(f"{trail}: {_reason(error)}") from error
    if nowhere:
        raise IncorrectResponse(f"{trail}: only http and https URLs with a host are fetched")
    trail.what = f"{origin} redirects to {target}"
    return target


async def _checked_addresses(host: str, resolver: NameResolver, policy: AddressPolicy, trail: _Trail) -> Sequence[str]:
    """The addresses of ``host``, each of them allowed; an onion service is its own address, and never asked for in DNS (RFC 7686 s2)."""
    if trail.tor is not None and is_onion(name := host.lower().removesuffix(".")):
        try:
            onion_key(name, verify_checksum=False)
        except ValueError as error:
            raise Blocked(f"{trail}: {error}") from None
        return [name]
    if _is_literal(host):
        addresses: Sequence[str] = [host]
    elif _ends_in_number(host):
        raise Blocked(f"{trail}: {excerpt(host)} is neither a host name nor an IP address in its usual spelling")
    else:
        trail.resolving = host
        addresses = await resolver.addresses(host)
        trail.resolving = ""
    for address in addresses:
        reason = policy.refusal(address)
        if reason is not None:
            raise Blocked(f"{trail}: {host} has the address {address}, which is not public: {reason}")
    if not addresses:
        raise DnsFailure(f"{trail}: {host} has no address")
    return addresses[:TRIED_ADDRESSES]


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _ends_in_number(host: str) -> bool:
    """Whether old resolver functions would read an IPv4 address (2130706433, 0x7f.1, 127.1)."""
    last = host.rstrip(".").rpartition(".")[2].lower()
    return last.isdigit() or (last.startswith("0x") and all(character in "0123456789abcdef" for character in last[2:]))


async def _begun(target: URL, addresses: Sequence[str], tls: ssl.SSLContext | bool, trail: _Trail) -> Exchange:
    """A connection to the first address that takes it."""
    assert target.port
    failed: list[str] = []
    for address, seconds in trail.shares(addresses):
        try:
            async with asyncio.timeout(seconds):
                if trail.tor is None or not is_onion(address):
                    return await Exchange.begun(address, target, tls)
                connected = await trail.tor.connected(address, target.port)
                return await _closing(connected, Exchange.begun(connected, target, tls))
        except OSError as error:
            failed.append(f"{address}: {_reason(error)}")
    raise Unreachable(f"{trail}: {'; '.join(failed)}")


async def _closing(connected: socket.socket, use: Awaitable[T]) -> T:
    """What comes of ``use``, which takes over the connection; closed when it fails."""
    try:
        return await use
    except BaseException:
        connected.close()
        raise


def _fetched(url: URL, answer: Answer, body: bytes, trail: _Trail, redirects: int) -> Fetched:
    return Fetched(url=str(url), address=trail.address, status=answer.status, headers=answer.headers, body=body, redirects=redirects)


async def _read(answer: Answer, max_body: int, trail: _Trail) -> bytes:
    """The body, refused as soon as it is known to be over ``max_body`` bytes."""
    body = bytearray()
    if int(answer.headers.get("Content-Length", 0)) <= max_body:
        async for chunk in answer.content.iter_any():
            body += chunk
            if len(body) > max_body:
                break
        else:
            return bytes(body)
    raise IncorrectResponse(f"{trail}: status {answer.status}, and a body of over {max_body} bytes")


async def _connect(addresses: Sequence[str], port: int, use: Callable[[socket.socket], Awaitable[T]], trail: _Trail) -> T:
    """What comes of ``use`` over the first address that takes the connection."""
    failed: list[str] = []
    for address, seconds in trail.shares(addresses):
        try:
            async with asyncio.timeout(seconds):
                by_tor = trail.tor if is_onion(address) else None
                connected = await (by_tor.connected(address, port) if by_tor is not None else connected_to(address, port))
            return await _closing(connected, use(connected))
        except ssl.SSLError:
            raise
        except OSError as error:
            failed.append(f"{address}: {_reason(error)}")
    raise Unreachable(f"{trail}: {'; '.join(failed)}")


async def _itself(connected: socket.socket) -> socket.socket:
    return connected


async def _streams(
    connected: socket.socket, tls: ssl.SSLContext | None, server_hostname: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if tls is None:
        return await asyncio.open_connection(sock=connected)
    try:
        return await asyncio.open_connection(sock=connected, ssl=tls, server_hostname=server_hostname, ssl_shutdown_timeout=CLOSE_SECONDS)
    except (OSError, ValueError) as error:  # ValueError: a server_hostname that TLS cannot send
        raise error if isinstance(error, ssl.SSLError) else ssl.SSLError(0, _reason(error)) from error


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await writer.wait_closed()
    except OSError:  # a TimeoutError is one
        writer.transport.abort()


def _reason(error: BaseException) -> str:
    """What the network said, without the library's decoration."""
    for kind, words in _SAID.items():
        if isinstance(error, kind):
            return words
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    if isinstance(error, ConnectionResetError):  # asyncio's word for an end of file within a handshake
        return "closed before the handshake ended"
    if isinstance(error, HttpProcessingError):
        return f"not HTTP: {excerpt(error.message)}"
    return excerpt(str(error) or type(error).__name__).strip('"')
