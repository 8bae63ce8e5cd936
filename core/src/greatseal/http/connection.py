"""What lives as long as a connection, and whose word about the client's address counts."""

import asyncio
import binascii
import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NoReturn

from multidict import CIMultiDictProxy

from greatseal.api.problems import BadRequest

UNIX = "unix"
"""In ``trusted_proxies``: whoever can connect to the Unix socket of the listener is a trusted proxy."""

_PAIR = re.compile(r"""[ \t]*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*+)"|([^;,\s"]+)))?[ \t]*([;,]|\Z)""", re.ASCII)
"""A pair of Forwarded with what ends it (RFC 7239 s4); unquoted values may hold what belongs into quotes."""
_BRACKETED = re.compile(r"\[([^\]]*)\](?::[0-9]*)?", re.ASCII)
_HOPS = 32
_LONGEST = 4096
"""Characters of a Forwarded header that is read."""
_BYTES = re.compile(r":([A-Za-z0-9+/=]+):", re.ASCII)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ConnectionState:
    """A place for half-open authentication, keyed by its owner (:class:`greatseal.api.http.Connection`)."""

    __slots__ = ("certificate", "server_certificate", "state", "trusted_proxy")

    def __init__(self, *, trusted_proxy: bool, certificate: bytes | None = None, server_certificate: bytes | None = None) -> None:
        self.certificate = certificate
        self.server_certificate = server_certificate
        self.state: dict[str, Any] = {}
        self.trusted_proxy = trusted_proxy


class TrustedProxies:
    """The networks whose X-Forwarded-For and Forwarded are believed. Raises ValueError for what is no CIDR and not ``unix``."""

    def __init__(self, entries: Sequence[str]) -> None:
        self._unix = UNIX in entries
        self._networks: list[Network] = [ipaddress.ip_network(entry) for entry in entries if entry != UNIX]

    def __contains__(self, peer: str) -> bool:
        """Whether the peer (an address, or ``unix``) is a trusted proxy."""
        if peer == UNIX:
            return self._unix
        if not self._networks:
            return False
        address = _address(peer)
        return address is not None and any(address in network for network in self._networks)

    def behind(self, peer: str, headers: "CIMultiDictProxy[str]") -> str | None:
        """The client behind ``peer`` where that is a trusted proxy, else None: the nearest hop that is none.

        Each proxy appends the address that it saw, so the list is read from its end. When X-Forwarded-For and Forwarded are both
        there and disagree, one of them passed through a proxy that does not know it and is the client's invention: then it is ``peer``.
        """
        if peer not in self:
            return None
        lists = (headers.getall("X-Forwarded-For", ()), headers.getall("Forwarded", ()))
        hops = [",".join(lists[0]).split(","), [hop for line in lists[1] for hop in _hops(line)]]
        found = {self._nearest(peer, hops[number]) for number in (0, 1) if lists[number]}
        return found.pop() if len(found) == 1 else peer

    def _nearest(self, peer: str, hops: list[str]) -> str:
        nearest = peer
        for hop in reversed(hops[-_HOPS:]):
            address = _address(_without_port(hop.strip()))
            if address is None:
                break
            nearest = str(address)
            if nearest not in self:
                break
        return nearest


def _hops(line: str) -> list[str]:
    """What the elements of one Forwarded header say after ``for=``, "" where one says nothing; [""] for a header that cannot be read.

    A quotation that a client leaves open would swallow the element that the proxy appends, and a quoted value may look like a pair.
    """
    hops: list[str] = []
    named: list[str] = []
    at, end = 0, ","
    while end:
        found = _PAIR.match(line, at) if len(line) <= _LONGEST else None
        if found is None:
            return [""]
        name, quoted, plain, end = found.groups()
        if name is not None and name.lower() == "for":
            named.append(plain if quoted is None else quoted)
        if end != ";":
            hops.append(named[0] if len(named) == 1 else "")
            named = []
        at = found.end()
    return hops


def certificate_of(transport: asyncio.BaseTransport | None) -> bytes | None:
    """The DER that the client of a TLS connection showed, and that was found to be good."""
    connection = None if transport is None else transport.get_extra_info("ssl_object")
    return connection.getpeercert(binary_form=True) if connection else None


def server_certificate_of(transport: asyncio.BaseTransport | None) -> bytes | None:
    """The DER that this side of a TLS connection showed."""
    connection = None if transport is None else transport.get_extra_info("ssl_object")
    return getattr(connection.context, "certificate", None) if connection else None


def forwarded_certificate(headers: "CIMultiDictProxy[str]") -> bytes | None:
    """The DER in Client-Cert, a byte sequence (RFC 9440 s2.2, RFC 8941 s3.3.5), of a trusted proxy. Raises BadRequest for anything else."""
    fields = headers.getall("Client-Cert", ())
    if not fields:
        return None
    found = _BYTES.fullmatch(fields[0].strip()) if len(fields) == 1 else None
    try:
        return binascii.a2b_base64(found[1], strict_mode=True) if found else _no_certificate()
    except binascii.Error:
        return _no_certificate()


def _no_certificate() -> NoReturn:
    raise BadRequest("Client-Cert: expected one certificate as :base64: (RFC 9440); the proxy has to replace what clients send")


def peer_of(peername: object) -> str:
    """The address in what the transport calls the peer: an IP address without scope, or ``unix``."""
    if isinstance(peername, tuple) and peername and isinstance(peername[0], str):
        return _canonical(peername[0])
    return UNIX


@lru_cache(4096)
def _canonical(text: str) -> str:
    address = _address(text)
    return text if address is None else str(address)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _without_port(hop: str) -> str:
    if hop.startswith("["):
        found = _BRACKETED.fullmatch(hop)
        return found[1] if found else ""
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
