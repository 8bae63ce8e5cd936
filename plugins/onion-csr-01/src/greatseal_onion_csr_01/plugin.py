"""The onion-csr-01 challenge (RFC 9799 s3.2)."""

from collections.abc import Sequence

from greatseal import hookimpl
from greatseal.api.acme import ChallengeValidator
from greatseal.api.declarations import Owns
from greatseal.api.issuance import FinalizeCheck
from greatseal.host import Host
from greatseal.net import TorAccess
from greatseal_onion_csr_01.onion_csr_01 import OnionCsr01, OnionKeyCheck
from greatseal_onion_csr_01.settings import OnionAddresses


class Plugin:
    """Proves onion names by a request that the key of the onion service signed. Nothing is connected to."""

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("acme", OnionAddresses), Owns("server", TorAccess)]

    @hookimpl
    def challenge_validators(self, host: Host) -> Sequence[ChallengeValidator]:
        return [OnionCsr01(host.settings(OnionAddresses))]

    @hookimpl
    def finalize_checks(self) -> Sequence[FinalizeCheck]:
        return [OnionKeyCheck()]
