"""DNS for every validator."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.declarations import Check, Owns
from greatseal.api.services import RESOLVER, ServiceKey
from greatseal.host import Host
from greatseal_resolver.checks import resolver_checks
from greatseal_resolver.resolver import DnsResolver
from greatseal_resolver.settings import DnsSettings, HostsSettings


class Plugin:
    """The resolver service: configured hosts first, then DNS, over UDP, TCP or TLS."""

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("server", DnsSettings), Owns("resolver", HostsSettings)]

    @hookimpl
    def services(self, host: Host) -> Mapping[ServiceKey[Any], Callable[[], object]]:
        return {RESOLVER: lambda: DnsResolver(host.settings(DnsSettings), host.settings(HostsSettings))}

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        return resolver_checks(host.settings(DnsSettings))
