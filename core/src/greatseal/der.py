"""The little DER (X.690) that cryptography does not give: raw parts of a structure, and putting a certificate together."""

__all__ = ["bit_string", "children", "content", "element", "elements", "sequence", "signed"]

SEQUENCE = 0x30
BIT_STRING = 0x03


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
