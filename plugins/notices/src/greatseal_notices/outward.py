"""How servers are reached that the administrator names: they may be of the inside network."""

from greatseal.api.services import RESOLVER
from greatseal.host import Host
from greatseal.net import AddressPolicy, NameResolver, SystemResolver

ANYWHERE = AddressPolicy(allow_private=True)


def resolver_of(host: Host) -> NameResolver:
    """Who finds their addresses."""
    return host.optional_service(RESOLVER) or SystemResolver()
