"""The configuration keys of the resolver."""

from ipaddress import ip_address

import msgspec

from greatseal.net import parse_server
from greatseal_resolver.names import canonical, parse_name


class DnsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: whom to ask, and how."""

    validate_dnssec: bool = True
    """Ask the resolver to validate (bogus answers are errors); false asks it not to check."""
    dns_resolver_addr: str | None = None
    """address[:port] of the resolver; those of the system when left out."""
    dns_dot_server_name: str | None = None
    """The name in the resolver's certificate; setting it turns on DNS over TLS (port 853)."""

    def __post_init__(self) -> None:
        if self.dns_resolver_addr is not None:
            try:
                parse_server(self.dns_resolver_addr)
            except ValueError as error:
                raise ValueError(f"dns_resolver_addr: {error}") from None
        if self.dns_dot_server_name is not None:
            try:
                _check_name(self.dns_dot_server_name)
            except ValueError as error:
                raise ValueError(f"dns_dot_server_name: {error}") from None


class HostsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[resolver]: names that are not asked for."""

    hosts: dict[str, tuple[str, ...]] = {}
    """name = ["address"], answered before DNS."""

    def __post_init__(self) -> None:
        for name, addresses in self.hosts.items():
            try:
                _check_name(name)
                for address in addresses:
                    ip_address(address)
            except ValueError as error:
                raise ValueError(f"hosts: {name!r}: {error}") from None
            if not addresses:
                raise ValueError(f"hosts: {name!r}: at least one address is needed")

    def table(self) -> dict[str, tuple[str, ...]]:
        """The addresses by canonical name, IPv4 first."""
        return {canonical(name): tuple(sorted(addresses, key=_version)) for name, addresses in self.hosts.items()}


def _check_name(name: str) -> None:
    parse_name(name)
    if not canonical(name):
        raise ValueError("the name is empty")


def _version(address: str) -> int:
    return ip_address(address).version
