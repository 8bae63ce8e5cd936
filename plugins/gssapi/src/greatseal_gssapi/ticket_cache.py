"""The moment at which a KDC gave a ticket, from a credential cache of libkrb5 (file format version 4)."""

import struct

VERSION = b"\x05\x04"
CONFIGURATION = b"X-CACHECONF:"
"""The realm of entries that are no tickets."""


def authtime(content: bytes) -> int:
    """Seconds since 1970 by the clock of the KDC, of the first ticket. Raises ValueError for what is no cache with a ticket."""
    if content[:2] != VERSION:
        raise ValueError("no credential cache of version 4")
    try:
        (length,) = struct.unpack_from(">H", content, 2)
        _, at = _principal(content, 4 + length)
        while at < len(content):
            _, at = _principal(content, at)
            realm, at = _principal(content, at)
            _, at = _counted(content, at + 2)  # the key, after its type
            (moment,) = struct.unpack_from(">I", content, at)
            if realm != CONFIGURATION:
                return int(moment)
            at = _rest(content, at + 16 + 1 + 4)  # times, flag of user-to-user, flags of the ticket
    except struct.error:
        raise ValueError("the credential cache is cut off") from None
    raise ValueError("the credential cache has no ticket")


def _principal(content: bytes, at: int) -> tuple[bytes, int]:
    """Its realm, and where it ends."""
    (count,) = struct.unpack_from(">I", content, at + 4)
    realm, at = _counted(content, at + 8)
    for _ in range(min(count, len(content))):
        _, at = _counted(content, at)
    return realm, at


def _rest(content: bytes, at: int) -> int:
    """Where a credential ends, of which addresses, authorization data and two tickets are left."""
    for _ in range(2):
        (count,) = struct.unpack_from(">I", content, at)
        at += 4
        for _ in range(min(count, len(content))):
            _, at = _counted(content, at + 2)
    for _ in range(2):
        _, at = _counted(content, at)
    return at


def _counted(content: bytes, at: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">I", content, at)
    return content[at + 4 : at + 4 + size], at + 4 + size
