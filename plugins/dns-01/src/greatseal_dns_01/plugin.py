"""The dns-01 challenge (RFC 8555 s8.4)."""

from collections.abc import Sequence

from greatseal import hookimpl
from greatseal.api.acme import ChallengeValidator
from greatseal.api.services import RESOLVER
from greatseal.host import Host
from greatseal_dns_01.dns_01 import Dns01


class Plugin:
    """Proves names, wildcards too, by a TXT record in their zone."""

    requires = (RESOLVER,)

    @hookimpl
    def challenge_validators(self, host: Host) -> Sequence[ChallengeValidator]:
        return [Dns01(host.service(RESOLVER))]
