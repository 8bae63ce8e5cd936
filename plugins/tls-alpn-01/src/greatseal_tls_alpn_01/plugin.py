"""The tls-alpn-01 challenge (RFC 8737, RFC 8738)."""

from collections.abc import Sequence

from greatseal import hookimpl
from greatseal.api.acme import ChallengeValidator
from greatseal.api.declarations import Owns, Reads
from greatseal.api.services import RESOLVER
from greatseal.host import Host
from greatseal.net import TorAccess
from greatseal_tls_alpn_01.settings import Guard, TlsAlpnValidation
from greatseal_tls_alpn_01.tls_alpn_01 import TlsAlpn01


class Plugin:
    """Proves names and addresses by the certificate that their TLS server shows."""

    requires = (RESOLVER,)

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("server", TlsAlpnValidation), Reads("server", Guard), Reads("server", TorAccess)]

    @hookimpl
    def challenge_validators(self, host: Host) -> Sequence[ChallengeValidator]:
        settings = host.settings(TlsAlpnValidation), host.settings(Guard), host.settings(TorAccess)
        return [TlsAlpn01(host.service(RESOLVER), *settings)]
