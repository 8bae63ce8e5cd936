"""The entries of a keytab, without their keys: the file format of MIT and Heimdal, version 2."""

import struct
from pathlib import Path

import msgspec

VERSION = b"\x05\x02"
LARGEST = 1024 * 1024
"""Bytes of a keytab: one with a thousand entries has a tenth of it."""
ENCTYPES = {
    1: "des-cbc-crc", 3: "des-cbc-md5", 16: "des3-cbc-sha1", 17: "aes128-cts-hmac-sha1-96", 18: "aes256-cts-hmac-sha1-96",
    19: "aes128-cts-hmac-sha256-128", 20: "aes256-cts-hmac-sha384-192", 23: "arcfour-hmac", 25: "camellia128-cts-cmac",
    26: "camellia256-cts-cmac",
}  # fmt: skip
"""Names of the registry of RFC 3961, as Kerberos programs write them."""
WEAK = frozenset({1, 3, 16, 23})
"""What RFC 6649 and RFC 8429 deprecate."""


class Entry(msgspec.Struct, frozen=True):
    """One key: whose it is, its version at the KDC, and the number of its type."""

    principal: str
    kvno: int
    enctype: int

    @property
    def type(self) -> str:
        """The type by its name."""
        return ENCTYPES.get(self.enctype, f"enctype {self.enctype}")


def read(path: Path) -> list[Entry]:
    """Every entry of the file. Raises OSError, and ValueError with the reason for what is no keytab."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"more than {LARGEST} bytes")
    return parse(content)


def parse(content: bytes) -> list[Entry]:
    """See :func:`read`."""
    if content[:2] != VERSION:
        raise ValueError(f"it begins with {content[:2].hex() or 'nothing'}; expected 0502")
    entries, at = [], 2
    try:
        while at < len(content):
            (size,) = struct.unpack_from(">i", content, at)
            at += 4
            if size > 0:
                if at + size > len(content):
                    raise ValueError("the last entry is cut off")
                entries.append(_entry(content[at : at + size]))
            at += abs(size)  # a negative one is what a deleted entry left
    except struct.error:
        raise ValueError("an entry is cut off") from None
    return entries


def _entry(record: bytes) -> Entry:
    (count,) = struct.unpack_from(">H", record)
    at, parts = 2, []
    for _ in range(count + 1):
        part, at = _counted(record, at)
        parts.append(part.decode("utf-8", "replace"))
    kvno, enctype = struct.unpack_from(">BH", record, at + 8)  # after the type of the name and the time
    _, at = _counted(record, at + 11)
    if at + 4 <= len(record):
        kvno = struct.unpack_from(">I", record, at)[0] or kvno
    realm, *components = parts
    return Entry("/".join(map(_escaped, components)) + "@" + realm, kvno, enctype)


def _counted(record: bytes, at: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">H", record, at)
    if at + 2 + size > len(record):
        raise ValueError("an entry is cut off")
    return record[at + 2 : at + 2 + size], at + 2 + size


def _escaped(component: str) -> str:
    return component.replace("\\", "\\\\").replace("/", "\\/").replace("@", "\\@")
