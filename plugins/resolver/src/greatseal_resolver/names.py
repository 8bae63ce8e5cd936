"""Host names as they are compared."""

import dns.exception
import dns.name

LOOPBACK = ("127.0.0.1", "::1")


def canonical(name: str) -> str:
    """Lower case, without the final dot."""
    return name.lower().removesuffix(".")


def parse_name(name: str) -> dns.name.Name:
    """The absolute name. Raises ValueError for what DNS cannot carry."""
    try:
        parsed = dns.name.from_text(name)
    except (dns.exception.DNSException, UnicodeError) as error:
        raise ValueError(f"{name!r} is not a domain name: {error}") from error
    return parsed


def is_localhost(name: str) -> bool:
    """Whether RFC 6761 s6.3 keeps ``name`` (canonical) on this machine."""
    return name == "localhost" or name.endswith(".localhost")
