"""Which addresses are hosts of the public internet: our own table, the same on every Python.

``ipaddress`` answers differently from patch release to patch release and calls multicast, 6to4, NAT64 of 127.0.0.1 and others global,
so only its arithmetic is used here. Whatever stands in a registry of special purposes is refused, even where its protocol is reachable
from everywhere: no subscriber's host lives there.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import msgspec

__all__ = ["PUBLIC", "AddressPolicy", "is_public", "source_of", "special_purpose"]

# IANA IPv4 Special-Purpose Address Registry, IPv4 multicast, and control addresses that look like hosts.
_IPV4 = tuple(
    (IPv4Network(network), meaning)
    for network, meaning in (
        ("0.0.0.0/8", "this network (RFC 791)"),
        ("10.0.0.0/8", "private (RFC 1918)"),
        ("100.64.0.0/10", "shared address space (RFC 6598)"),
        ("127.0.0.0/8", "loopback (RFC 1122)"),
        ("168.63.129.16/32", "a cloud platform's control address"),
        ("169.254.0.0/16", "link-local (RFC 3927)"),
        ("172.16.0.0/12", "private (RFC 1918)"),
        ("192.0.0.0/24", "IETF protocol assignments (RFC 6890)"),
        ("192.0.2.0/24", "documentation (RFC 5737)"),
        ("192.31.196.0/24", "AS112 (RFC 7535)"),
        ("192.52.193.0/24", "AMT (RFC 7450)"),
        ("192.88.99.0/24", "6to4 relay anycast (RFC 7526)"),
        ("192.168.0.0/16", "private (RFC 1918)"),
        ("192.175.48.0/24", "AS112 (RFC 7534)"),
        ("198.18.0.0/15", "benchmarking (RFC 2544)"),
        ("198.51.100.0/24", "documentation (RFC 5737)"),
        ("203.0.113.0/24", "documentation (RFC 5737)"),
        ("224.0.0.0/4", "multicast (RFC 1112)"),
        ("240.0.0.0/4", "reserved (RFC 1112)"),
    )
)

_MAPPED = IPv6Network("::ffff:0:0/96")  # RFC 4291 s2.5.5.2: the socket speaks IPv4
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: what DNS64 answers on a network without IPv4
_GLOBAL_UNICAST = IPv6Network("2000::/3")

# Ranges with a name of their own outside 2000::/3 (for the message), and IANA's special purposes inside it.
_IPV6 = tuple(
    (IPv6Network(network), meaning)
    for network, meaning in (
        ("::/128", "unspecified (RFC 4291)"),
        ("::1/128", "loopback (RFC 4291)"),
        ("::/96", "IPv4-compatible (RFC 4291)"),
        ("::ffff:0:0:0/96", "IPv4-translated (RFC 7915)"),
        ("64:ff9b:1::/48", "local-use NAT64 (RFC 8215)"),
        ("100::/64", "discard-only (RFC 6666)"),
        ("2001::/32", "Teredo (RFC 4380)"),
        ("2001::/23", "IETF protocol assignments (RFC 2928)"),
        ("2001:db8::/32", "documentation (RFC 3849)"),
        ("2002::/16", "6to4 (RFC 3056)"),
        ("2620:4f:8000::/48", "AS112 (RFC 7534)"),
        ("3fff::/20", "documentation (RFC 9637)"),
        ("5f00::/16", "segment routing SIDs (RFC 9602)"),
        ("fc00::/7", "unique-local (RFC 4193)"),
        ("fe80::/10", "link-local (RFC 4291)"),
        ("fec0::/10", "site-local (RFC 3879)"),
        ("ff00::/8", "multicast (RFC 4291)"),
    )
)


def special_purpose(address: str) -> str | None:
    """What ``address`` is reserved for, or None for a host of the public internet. Raises ValueError for what is no address literal.

    An IPv4 address inside an IPv4-mapped or NAT64 one decides alone; every other embedding is refused as such.
    """
    parsed = ip_address(address)
    if isinstance(parsed, IPv4Address):
        return _special_ipv4(parsed)
    if parsed.scope_id is not None:
        return "scoped to an interface (RFC 4007)"
    if parsed in _MAPPED or parsed in _NAT64:
        return _special_ipv4(IPv4Address(int(parsed) & 0xFFFFFFFF))
    return _special_ipv6(parsed)


def _special_ipv4(address: IPv4Address) -> str | None:
    return next((meaning for network, meaning in _IPV4 if address in network), None)


def _special_ipv6(address: IPv6Address) -> str | None:
    named = next((meaning for network, meaning in _IPV6 if address in network), None)
    if named is None and address not in _GLOBAL_UNICAST:
        return "outside global unicast (RFC 4291)"
    return named


def is_public(address: str) -> bool:
    """Whether ``address`` is the literal of a host of the public internet; False for anything that is no address literal."""
    try:
        return special_purpose(address) is None
    except ValueError:
        return False


class AddressPolicy(msgspec.Struct, frozen=True):
    """Which addresses may be connected to. ``allow_private`` lifts the whole table, for validation inside an organisation."""

    allow_private: bool = False

    def refusal(self, address: str) -> str | None:
        """Why ``address`` is refused, or None. What is no address literal is refused under every policy."""
        try:
            meaning = special_purpose(address)
        except ValueError:
            return "no address"
        return None if self.allow_private else meaning


PUBLIC = AddressPolicy()
"""Public hosts alone."""


def source_of(remote: str) -> str:
    """The key that stands for an address in limits: of IPv6 its /64, since one machine may have every address of that (RFC 8981)."""
    try:
        address = ip_address(remote)
    except ValueError:
        return remote
    if not isinstance(address, IPv6Address):
        return remote
    return str(address.ipv4_mapped or IPv6Network((int(address) >> 64 << 64, 64)))
