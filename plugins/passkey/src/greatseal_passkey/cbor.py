"""The form of CBOR that authenticators write (CTAP2 s8, canonical CBOR), checked before anything decodes it.

A decoder of all of RFC 8949 makes regular expressions, mails and fractions of what a stranger sends. Here are integers, byte and text
strings, arrays, maps and simple values, of definite length, at most four deep (CTAP2 s8), with few members.
"""

DEPTH = 4
MEMBERS = 64
"""Of an array or a map; certificate chains of attestations are shorter."""
_LONG = {24: 1, 25: 2, 26: 4, 27: 8}
_BYTES, _TEXT, _ARRAY, _MAP, _TAG = 2, 3, 4, 5, 6


class NotCanonical(ValueError):
    """Not what an authenticator writes."""


def end_of(encoded: bytes, offset: int = 0, *, depth: int = DEPTH) -> int:
    """Where the item that begins at ``offset`` ends. Raises NotCanonical."""
    if depth < 0:
        raise NotCanonical("it is too deep")
    kind, size, offset = _head(encoded, offset)
    if kind == _TAG:
        raise NotCanonical("it has a tag")
    if kind in {_BYTES, _TEXT}:
        if offset + size > len(encoded):
            raise NotCanonical("it ends too early")
        return offset + size
    if kind in {_ARRAY, _MAP}:
        if size > MEMBERS:
            raise NotCanonical("it has too many members")
        for _ in range(size * 2 if kind == _MAP else size):
            offset = end_of(encoded, offset, depth=depth - 1)
    return offset


def members_of(encoded: bytes) -> dict[str, bytes]:
    """The members of a map with text keys, each value as it is encoded; the map is all there is. Raises NotCanonical."""
    kind, size, offset = _head(encoded, 0)
    if kind != _MAP or size > MEMBERS:
        raise NotCanonical("it is no map")
    found: dict[str, bytes] = {}
    for _ in range(size):
        begin, offset = offset, end_of(encoded, offset, depth=DEPTH - 1)
        name = text_of(encoded[begin:offset], _TEXT).decode("utf-8", "replace")
        begin, offset = offset, end_of(encoded, offset, depth=DEPTH - 1)
        if name in found:
            raise NotCanonical("a member is there twice")
        found[name] = encoded[begin:offset]
    if offset != len(encoded):
        raise NotCanonical("something follows it")
    return found


def text_of(encoded: bytes, wanted: int = _BYTES) -> bytes:
    """What is in a byte string, or in a string of another kind. Raises NotCanonical."""
    kind, _, offset = _head(encoded, 0)
    if kind != wanted:
        raise NotCanonical("it is of another type")
    return encoded[offset:]


def _head(encoded: bytes, offset: int) -> tuple[int, int, int]:
    """Type, argument, and where the content begins."""
    if offset >= len(encoded):
        raise NotCanonical("it ends too early")
    kind, short = divmod(encoded[offset], 32)
    offset += 1
    if short < 24:  # RFC 8949 s3
        return kind, short, offset
    length = _LONG.get(short)
    if length is None:
        raise NotCanonical("its length is not definite")
    if offset + length > len(encoded):
        raise NotCanonical("it ends too early")
    return kind, int.from_bytes(encoded[offset : offset + length]), offset + length
