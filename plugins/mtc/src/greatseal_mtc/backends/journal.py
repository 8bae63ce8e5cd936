"""The journal of a log in files: what it holds is on the disk with one fdatasync, and is done again after a crash.

Two segments take turns, each written from its beginning over what is not needed any more. A record is a header (checksum, number,
length) and a body; the numbers go on from one segment to the other, so that what is left of an older turn is told from what came now.
"""

import os
import zlib
from collections.abc import Iterator, Mapping
from struct import Struct

import msgspec

from greatseal.api.log import LogHead

__all__ = ["Committed", "Discarded", "Record", "Segment"]

HEADER = Struct(">IQI")
"""Its fields: CRC-32 of the rest of the record, number, length of the body."""
CHECKED = Struct(">QI")
"""What the checksum begins with."""


ZEROS = bytes(1 << 18)
"""No record: its checksum is another."""


class Committed(msgspec.Struct, frozen=True, tag="commit", array_like=True):
    """A commit: its objects, all of them new, and the head after it."""

    head: LogHead
    objects: Mapping[str, bytes]


class Discarded(msgspec.Struct, frozen=True, tag="discard", array_like=True):
    """Objects that are gone."""

    names: tuple[str, ...]


Record = Committed | Discarded
_decoder = msgspec.msgpack.Decoder(Record)


def _checksum(number: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(CHECKED.pack(number, len(body))))


class Segment:
    """One file of the journal, written at its ``end``. Raises OSError as the disk does."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size
        self.end = 0

    def first(self) -> int | None:
        """The number that the first record has, when there is one that is whole."""
        return next((number for number, _ in self.records()), None)

    def records(self) -> Iterator[tuple[int, Record]]:
        """Number and record, from the beginning on, as far as they are whole and follow each other."""
        place, expected = 0, None
        while len(header := os.pread(self._file, HEADER.size, place)) == HEADER.size:
            checksum, number, length = HEADER.unpack(header)
            if expected not in {None, number} or length > self._size:
                return
            body = os.pread(self._file, length, place + HEADER.size)
            if len(body) < length or checksum != _checksum(number, body):
                return
            yield number, _decoder.decode(body)
            place, expected = place + HEADER.size + length, number + 1

    def append(self, number: int, record: Record) -> None:
        """Write it behind the last one; :meth:`sync` makes it last. What could not be written is no record."""
        body = msgspec.msgpack.encode(record)
        content = HEADER.pack(_checksum(number, body), number, len(body)) + body
        self._make_room(len(content))
        written = 0
        while written < len(content):
            written += os.pwrite(self._file, memoryview(content)[written:], self.end + written)
        self.end += len(content)

    def _make_room(self, length: int) -> None:
        """Make the file longer for many records at once: to write over what is there takes a quarter of the time."""
        while self.end + length > self._size:
            self._size += os.pwrite(self._file, ZEROS, self._size)

    def sync(self) -> None:
        """Return when all of it is on the disk."""
        os.fdatasync(self._file)

    def take_back(self, end: int) -> None:
        """Make what begins at ``end`` no record, for good."""
        self.end = end
        if self._size > end:
            os.pwrite(self._file, b"\xff" * HEADER.size, end)
            os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
