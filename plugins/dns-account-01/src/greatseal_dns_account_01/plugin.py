"""The dns-account-01 challenge (draft-ietf-acme-dns-account-label)."""

from collections.abc import Sequence

from greatseal import hookimpl
from greatseal.api.acme import ChallengeValidator
from greatseal.api.services import RESOLVER
from greatseal.host import Host
from greatseal_dns_account_01.dns_account_01 import DnsAccount01


class Plugin:
    """Proves names, wildcards too, by a TXT record whose name is the account's own."""

    requires = (RESOLVER,)

    @hookimpl
    def challenge_validators(self, host: Host) -> Sequence[ChallengeValidator]:
        return [DnsAccount01(host.service(RESOLVER))]
