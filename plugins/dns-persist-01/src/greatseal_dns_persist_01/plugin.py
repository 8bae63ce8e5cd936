"""The dns-persist-01 challenge (draft-ietf-acme-dns-persist)."""

from collections.abc import Sequence

from greatseal import hookimpl
from greatseal.api.acme import ChallengeValidator
from greatseal.api.declarations import Owns
from greatseal.api.services import RESOLVER
from greatseal.host import Host
from greatseal_dns_persist_01.dns_persist_01 import DnsPersist01
from greatseal_dns_persist_01.settings import DnsPersistence


class Plugin:
    """Proves names, wildcards too, by a TXT record that stays; only where the CA has a name in such records."""

    requires = (RESOLVER,)

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("server", DnsPersistence)]

    @hookimpl
    def challenge_validators(self, host: Host) -> Sequence[ChallengeValidator]:
        settings = host.settings(DnsPersistence)
        if not settings.issuers():
            return []
        return [DnsPersist01(host.service(RESOLVER), host.clock, settings.issuers(), settings.dns_persist01_resolver_addr)]
