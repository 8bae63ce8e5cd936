"""Hosts as a configuration writes them."""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*", re.ASCII)
_NAME_BYTES = 253


def is_host(text: str) -> bool:
    """Whether it is an IPv6 address in brackets, an IPv4 address, or a DNS name (RFC 1123 s2.1, and underscores).

    What ends in a number is an address or nothing: resolvers and browsers read it as one (WHATWG URL s3.5).
    """
    try:
        if text.startswith("["):
            return text.endswith("]") and bool(IPv6Address(text[1:-1]))
        labels = text.split(".")
        if _NUMBER.fullmatch(labels[-1]):
            return bool(IPv4Address(text))
    except AddressValueError:
        return False
    return len(text) <= _NAME_BYTES and all(map(_LABEL.fullmatch, labels))
