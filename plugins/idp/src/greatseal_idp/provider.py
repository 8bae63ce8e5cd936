"""The parts of the identity provider, made when the first hook needs them."""

from functools import cached_property

from greatseal.api.http import Route
from greatseal.host import Host
from greatseal_idp.clients.registry import Registry
from greatseal_idp.discovery import DiscoveryDocuments
from greatseal_idp.scopes import Scopes
from greatseal_idp.signing import Signing


class Provider:
    """What the hooks of one kernel share."""

    def __init__(self, host: Host) -> None:
        self.host = host

    @cached_property
    def clients(self) -> Registry:
        """The client registry (service CLIENTS)."""
        return Registry(self.host)

    @cached_property
    def scopes(self) -> Scopes:
        """Scope definitions."""
        return Scopes(self.host)

    @cached_property
    def signing(self) -> Signing:
        """The keys that sign tokens."""
        return Signing(self.host)

    @cached_property
    def discovery(self) -> DiscoveryDocuments:
        """Metadata and key set."""
        return DiscoveryDocuments(self.host, self.scopes, self.signing)

    def routes(self) -> list[Route]:
        """Every route."""
        return self.discovery.routes()
