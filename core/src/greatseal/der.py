"""The little DER (X.690) that cryptography does not give: raw parts of a structure, and putting certificates, CRLs and answers together."""

from datetime import date
from functools import lru_cache

from greatseal.api.moments import SECOND

__all__ = [
    "bit_string", "children", "content", "element", "elements", "enumerated", "explicit", "generalized_time", "integer",
    "object_identifier", "octet_string", "sequence", "signed", "subidentifiers", "time",
]  # fmt: skip

INTEGER = 0x02
BIT_STRING = 0x03
OCTET_STRING = 0x04
OBJECT_IDENTIFIER = 0x06
ENUMERATED = 0x0A
SEQUENCE = 0x30
EXPLICIT = 0xA0
_EPOCH = date(1970, 1, 1).toordinal()
_GENERALIZED = (date(2050, 1, 1).toordinal() - _EPOCH) * 86_400 * SECOND
"""From 2050 on a Time is a GeneralizedTime."""


def children(element: bytes) -> list[bytes]:
    """The elements inside a constructed element, tag and length included. Raises ValueError for what is not definite-length DER."""
    start, end = _content(element, 0)
    if end != len(element):
        raise ValueError("bytes follow the element")
    return elements(element[start:])


def elements(data: bytes) -> list[bytes]:
    """The elements that stand one after the other. Raises ValueError as :func:`children` does."""
    found = []
    at = 0
    while at < len(data):
        _, stop = _content(data, at)
        found.append(data[at:stop])
        at = stop
    return found


def content(element: bytes) -> bytes:
    """What is inside an element, without tag and length."""
    return element[_content(element, 0)[0] :]


def sequence(*parts: bytes) -> bytes:
    """A SEQUENCE of encoded elements."""
    return element(SEQUENCE, b"".join(parts))


def explicit(number: int, *parts: bytes) -> bytes:
    """What is tagged ``[number] EXPLICIT``, or a constructed value that is tagged so IMPLICIT."""
    return element(EXPLICIT | number, b"".join(parts))


def integer(number: int) -> bytes:
    """An INTEGER that is not negative."""
    return element(INTEGER, number.to_bytes(number.bit_length() // 8 + 1))


def enumerated(number: int) -> bytes:
    """An ENUMERATED below 128."""
    return element(ENUMERATED, bytes((number,)))


def object_identifier(dotted: str) -> bytes:
    """An OBJECT IDENTIFIER, such as ``2.5.29.17``."""
    first, second, *rest = map(int, dotted.split("."))
    return element(OBJECT_IDENTIFIER, subidentifiers(first * 40 + second, *rest))


def subidentifiers(*numbers: int) -> bytes:
    """Numbers in groups of seven bits, as an OBJECT IDENTIFIER or RELATIVE-OID holds them (X.690 s8.19, s8.20)."""
    octets = bytearray()
    for number in numbers:
        width = max(1, (number.bit_length() + 6) // 7)
        octets += bytes(number >> 7 * at & 0x7F | (0x80 if at else 0) for at in reversed(range(width)))
    return bytes(octets)


def octet_string(content: bytes) -> bytes:
    """An OCTET STRING."""
    return element(OCTET_STRING, content)


def time(moment: int) -> bytes:
    """A Time of a certificate or CRL (RFC 5280 s4.1.2.5): UTCTime through 2049, then GeneralizedTime. ``moment`` is in microseconds."""
    if moment >= _GENERALIZED:
        return generalized_time(moment)
    day, second = divmod(moment // SECOND, 86_400)
    return b"\x17\x0d%b%02d%02d%02dZ" % (_date(day)[2:], second // 3600, second // 60 % 60, second % 60)


def generalized_time(moment: int) -> bytes:
    """A GeneralizedTime of whole seconds. ``moment`` is in microseconds."""
    day, second = divmod(moment // SECOND, 86_400)
    return b"\x18\x0f%b%02d%02d%02dZ" % (_date(day), second // 3600, second // 60 % 60, second % 60)


@lru_cache(1024)
def _date(day: int) -> bytes:
    """``YYYYMMDD`` of a day since 1970."""
    return f"{date.fromordinal(_EPOCH + day):%Y%m%d}".encode()


def bit_string(content: bytes) -> bytes:
    """A BIT STRING of whole octets."""
    return element(BIT_STRING, b"\x00" + content)


def signed(body: bytes, algorithm: bytes, signature: bytes) -> bytes:
    """What was signed, its AlgorithmIdentifier and the signature: a certificate or CRL (RFC 5280 s4.1.1, s5.1.1)."""
    return sequence(body, algorithm, bit_string(signature))


def element(tag: int, content: bytes) -> bytes:
    """An element of any tag of one byte."""
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content


def _content(data: bytes, at: int) -> tuple[int, int]:
    """Where the content of the element at ``at`` starts and ends."""
    if at + 2 > len(data):
        raise ValueError("an element is cut short")
    size = data[at + 1]
    start = at + 2
    if size >= 0x80:
        octets = size & 0x7F
        if octets not in range(1, 5) or start + octets > len(data):
            raise ValueError("a length is not definite, or is cut short")
        size = int.from_bytes(data[start : start + octets])
        start += octets
    if start + size > len(data):
        raise ValueError("an element is cut short")
    return start, start + size
