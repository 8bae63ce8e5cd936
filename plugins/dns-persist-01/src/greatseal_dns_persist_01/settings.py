"""The configuration keys of dns-persist-01."""

import re

import msgspec

from greatseal.net import parse_server

MOST = 10
"""Names that a challenge object may list, says the draft."""
_DOMAIN = re.compile(r"[a-z0-9](?:-*[a-z0-9])*+(?:\.[a-z0-9](?:-*[a-z0-9])*+)*+")


class DnsPersistence(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: the names of this CA in persistent records, and who is asked for them."""

    dns_persist_issuer_domains: str | tuple[str, ...] | None = None
    """One or up to ten domain names by which records name this CA; left out, the challenge is not offered."""
    dns_persist01_resolver_addr: str | None = None
    """address[:port] of the resolver that is asked for these records; `dns_resolver_addr` when left out."""

    def __post_init__(self) -> None:
        for name in self.issuers():
            if len(name) > 253 or not _DOMAIN.fullmatch(name):
                raise ValueError(
                    f"dns_persist_issuer_domains: {name!r} is no domain name; write one like ca.example.org, as the records have it"
                )
        if self.dns_persist_issuer_domains is not None and not 0 < len(self.issuers()) <= MOST:
            raise ValueError(f"dns_persist_issuer_domains: {len(self.issuers())} names; expected 1 to {MOST}, or leave it out")
        if self.dns_persist01_resolver_addr is not None:
            try:
                parse_server(self.dns_persist01_resolver_addr)
            except ValueError as error:
                raise ValueError(f"dns_persist01_resolver_addr: {error}") from None

    def issuers(self) -> tuple[str, ...]:
        """The names in canonical form, in their order."""
        given = self.dns_persist_issuer_domains
        names = (given,) if isinstance(given, str) else given or ()
        return tuple(dict.fromkeys(canonical(name) for name in names))


def canonical(domain: str) -> str:
    """Lower case, without the final dot."""
    return domain.lower().removesuffix(".")
