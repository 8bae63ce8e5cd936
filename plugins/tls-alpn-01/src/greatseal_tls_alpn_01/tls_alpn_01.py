"""tls-alpn-01 (RFC 8737, RFC 8738): the identifier's TLS server shows a certificate with the digest of the key authorization."""

import ssl
from hashlib import sha256
from ipaddress import ip_address

from greatseal.api.acme import VALID, Attempt, ChallengeValidator, Identifier, Verdict
from greatseal.api.problems import IncorrectResponse, TlsFailure
from greatseal.net import SECONDS, TOR_SECONDS, AddressPolicy, NameResolver, Peer, TorAccess, is_onion, open_connection
from greatseal_tls_alpn_01.certificate import check
from greatseal_tls_alpn_01.settings import Guard, TlsAlpnValidation

PROTOCOL = "acme-tls/1"


class TlsAlpn01(ChallengeValidator):
    """Makes a handshake for ``acme-tls/1`` alone and looks at the certificate in it, which nobody needs to have signed."""

    type = "tls-alpn-01"
    identifier_types = frozenset({"dns", "ip"})

    def __init__(self, resolver: NameResolver, settings: TlsAlpnValidation, guard: Guard, access: TorAccess) -> None:
        self.resolver = resolver
        self.tor = access.tor
        self.port = settings.tls_alpn_validation_port
        self.policy = AddressPolicy(allow_private=guard.http_validation_allow_private_ips)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self.tls.check_hostname = False
        self.tls.verify_mode = ssl.CERT_NONE
        self.tls.set_alpn_protocols([PROTOCOL])

    def offers(self, identifier: Identifier) -> bool:
        """For onion names only by Tor: DNS must never be asked for them (RFC 7686 s2)."""
        return self.tor is not None or not is_onion(identifier.value)

    async def validate(self, attempt: Attempt) -> Verdict:
        name = server_name(attempt.identifier)
        async with open_connection(
            attempt.identifier.value,
            self.port,
            resolver=self.resolver,
            policy=self.policy,
            seconds=TOR_SECONDS if is_onion(attempt.identifier.value) else SECONDS,
            tls=self.tls,
            server_hostname=name,
            tor=self.tor,
        ) as peer:
            protocol, shown = handshake(peer)
        asked = f"{attempt.identifier.value} port {self.port} at {peer.address}"
        if protocol != PROTOCOL:
            raise TlsFailure(f"{asked} takes connections without the protocol {PROTOCOL}, which was the only one offered to it")
        try:
            check(shown, attempt.identifier, sha256(attempt.key_authorization.encode()).digest())
        except ValueError as error:
            raise IncorrectResponse(f"{asked}, asked for {name}, showed a certificate {error}") from None
        return VALID


def server_name(identifier: Identifier) -> str:
    """What SNI says: the name, or the reverse name of an address (RFC 8738 s6)."""
    return identifier.value if identifier.type == "dns" else ip_address(identifier.value).reverse_pointer


def handshake(peer: Peer) -> tuple[str | None, bytes]:
    """The protocol that the server chose, and its own certificate."""
    session: ssl.SSLObject = peer.writer.get_extra_info("ssl_object")
    return session.selected_alpn_protocol(), session.getpeercert(binary_form=True) or b""
