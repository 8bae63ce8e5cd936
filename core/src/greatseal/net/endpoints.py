"""Servers that a configuration names by address."""

from ipaddress import ip_address

__all__ = ["parse_server"]


def parse_server(text: str) -> tuple[str, int | None]:
    """Address and port of ``address[:port]``; an IPv6 address with port stands in brackets. Raises ValueError."""
    address, colon, port = text, "", ""
    if text.startswith("["):
        address, closed, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        if not closed or colon not in ("", ":"):
            raise ValueError(f"{text!r} is not address[:port]")
    elif text.count(":") == 1:
        address, colon, port = text.partition(":")
    try:
        ip_address(address)
    except ValueError:
        raise ValueError(f"{text!r} is not the address of a server; write an IP address, with :port when it is not the usual one") from None
    if not colon:
        return address, None
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise ValueError(f"{text!r} has no port between 1 and 65535")
    return address, int(port)
