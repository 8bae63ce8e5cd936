"""The http-01 challenge (RFC 8555 s8.3)."""

from collections.abc import Sequence

from greatseal import hookimpl
from greatseal.api.acme import ChallengeValidator
from greatseal.api.declarations import Owns, Reads
from greatseal.api.services import RESOLVER
from greatseal.host import Host
from greatseal.net import TorAccess
from greatseal_http_01.http_01 import Http01
from greatseal_http_01.settings import HttpValidation


class Plugin:
    """Proves names and addresses by a file that their web server gives."""

    requires = (RESOLVER,)

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("server", HttpValidation), Reads("server", TorAccess)]

    @hookimpl
    def challenge_validators(self, host: Host) -> Sequence[ChallengeValidator]:
        return [Http01(host.service(RESOLVER), host.settings(HttpValidation), host.settings(TorAccess))]
