"""Answers that are refused before dnspython takes them apart: what a zone may hold would keep us busy for a second, and everybody waits."""

import socket
import struct
from typing import Any, Self

import dns.asyncbackend
import dns.exception

MAX_RECORDS = 200
MAX_BYTES = 16 * 1024
_BESIDE = 16
"""Records beside those that were asked for: aliases, signatures, EDNS."""
_LENGTH, _COUNTS = struct.Struct("!H"), struct.Struct("!6x3H")
_HEAD = _LENGTH.size + _COUNTS.size


class TooLarge(dns.exception.FormError):  # a server that says it is not asked again
    """The answer is longer, or has more records, than is read."""

    def __init__(self, what: str) -> None:
        super().__init__(what)  # type: ignore[no-untyped-call]  # dnspython's exceptions are not typed


class BoundedBackend:
    """What dnspython asks for sockets. An answer in a datagram has the size that EDNS asks for, and is not looked at here."""

    async def make_socket(self, family: int, kind: int, *given: Any) -> Any:
        theirs: Any = dns.asyncbackend.get_default_backend()
        made = await theirs.make_socket(family, kind, *given)
        return BoundedStream(made) if kind == socket.SOCK_STREAM else made

    def __getattr__(self, name: str) -> Any:
        return getattr(dns.asyncbackend.get_default_backend(), name)


class BoundedStream:
    """dnspython's stream, of which one answer is read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._head = b""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def recv(self, size: int, timeout: float | None) -> bytes:
        """Raises TooLarge as soon as what has come says so."""
        data: bytes = await self._stream.recv(size, timeout)
        if len(self._head) < _HEAD:
            self._head += data[: _HEAD - len(self._head)]
            _check(self._head)
        return data


def _check(head: bytes) -> None:
    """``head`` is what has come of the length (RFC 1035 s4.2.2) and the header (s4.1.1)."""
    if len(head) >= _LENGTH.size and (size := _LENGTH.unpack_from(head)[0]) > MAX_BYTES:
        raise TooLarge(f"{size} bytes; at most {MAX_BYTES} are read")
    if len(head) == _HEAD and (count := sum(_COUNTS.unpack_from(head, _LENGTH.size))) > MAX_RECORDS + _BESIDE:
        raise TooLarge(f"{count} records; at most {MAX_RECORDS} are read")
