"""Whom a limit per address is for."""

from ipaddress import IPv6Address, IPv6Network, ip_address


def source_of(remote: str) -> str:
    """The key that stands for an address: of IPv6 its /64, since one machine may have every address of that (RFC 8981)."""
    try:
        address = ip_address(remote)
    except ValueError:
        return remote
    if not isinstance(address, IPv6Address):
        return remote
    return str(address.ipv4_mapped or IPv6Network((int(address) >> 64 << 64, 64)))
