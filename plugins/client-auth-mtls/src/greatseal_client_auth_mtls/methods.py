"""The two methods of RFC 8705 s2: a certificate that a CA issued, and one that the client made itself.

Of a client only the thumbprint of its certificate is kept, so both compare thumbprints (s2.1.2 and s2.2 leave that to the server). A
client with a ``spiffe_id`` is recognised by the X.509-SVIDs of its workload too.
"""

import msgspec

from greatseal.api.clients import Client, ClientAuthMethod, ClientMatch, ClientRequest, InvalidClient, InvalidClientMetadata, Registration
from greatseal.api.workload import TrustBundle, trust_domain_of
from greatseal.host import Host
from greatseal_client_auth_mtls.certificates import Authorities, Shown, read, read_pem


class Presented(msgspec.Struct, frozen=True, kw_only=True):
    """The DER that came with the request, and the client that it is said to be of."""

    client_id: str
    certificate: bytes


class ByCertificate(ClientAuthMethod[Presented]):
    """What both share. A certificate may be there for other reasons, so it counts only where nothing else was sent."""

    ambient = True
    open_registration = False  # the certificate says whom the client is trusted to be: an administrator gives it
    fields = frozenset({"tls_client_certificate", "jwks_uri", "jwks"})  # such a client may sign its requests

    def __init__(self, host: Host) -> None:
        self._host = host

    def check(self, registration: Registration) -> Client:
        pem, client = registration.tls_client_certificate, registration.client
        if pem is None:
            if client.tls_client_certificate_sha256 is None:
                raise InvalidClientMetadata(f"tls_client_certificate: must be given for {self.method} (RFC 8705 s2)")
            return client
        try:
            shown = read_pem(pem)
        except ValueError as error:
            raise InvalidClientMetadata(f"tls_client_certificate: {error} (RFC 8705 s2)") from None
        if reason := self._unfit(shown):
            raise InvalidClientMetadata(f"tls_client_certificate: {reason} (RFC 8705 s2)")
        return msgspec.structs.replace(client, tls_client_certificate_sha256=shown.thumbprint)

    def credentials(self, request: ClientRequest) -> Presented | None:
        certificate = request.call.connection.certificate
        if certificate is None or "client_id" not in request.form:  # mandatory: RFC 8705 s2
            return None
        return Presented(client_id=request.form["client_id"], certificate=certificate)

    def client_id(self, credentials: Presented) -> str | None:
        return credentials.client_id

    async def verify(self, credentials: Presented, client: Client) -> ClientMatch:
        try:
            shown = read(credentials.certificate)
        except ValueError as error:
            raise _refused(f"the certificate of the client: {error}") from None
        registered = shown.thumbprint == client.tls_client_certificate_sha256
        if not registered and not await self._is_svid(credentials.certificate, client):
            raise _refused("the certificate is neither the registered one nor an SVID of the client's spiffe_id")
        if reason := self._unfit(shown) if registered else _untimely(shown, self._host):
            raise _refused(f"the certificate of the client: {reason}")
        if blocked := await self._host.blocked_keys.find(shown.key):
            raise _refused(f"the key of the client is blocked ({blocked.reason})")
        return ClientMatch(subject=client.client_id)

    def _unfit(self, shown: Shown) -> str | None:
        """Why the registered certificate is not good now, None where it is."""
        return _untimely(shown, self._host)

    async def _is_svid(self, certificate: bytes, client: Client) -> bool:
        """Whether a workload with the SPIFFE ID of the client showed it: its own trust domain vouches for that, no CA of clients."""
        if client.spiffe_id is None:
            return False
        bundle = self._host.components(TrustBundle).get(trust_domain_of(client.spiffe_id))
        return bundle is not None and await bundle.vouches(certificate, client.spiffe_id)


class TlsClientAuth(ByCertificate):
    """``tls_client_auth``, with certificates that a CA of ``client_ca_file`` issued."""

    method = "tls_client_auth"

    def __init__(self, host: Host, authorities: Authorities) -> None:
        super().__init__(host)
        self._authorities = authorities

    def _unfit(self, shown: Shown) -> str | None:
        if reason := super()._unfit(shown):
            return reason
        if not self._authorities.issued(shown, self._host.clock.now()):
            return "no certificate of [oauth] client_ca_file issued it for clients of TLS; an intermediate belongs there too"
        return None


class SelfSignedTlsClientAuth(ByCertificate):
    """``self_signed_tls_client_auth``: who issued the certificate does not matter."""

    method = "self_signed_tls_client_auth"


def _untimely(shown: Shown, host: Host) -> str | None:
    now = host.clock.now()
    if not shown.begins <= now <= shown.ends:
        return "it has expired, or is not valid yet"
    return None


def _refused(cause: str) -> InvalidClient:
    """One public sentence for every reason; the reason is for the log."""
    return InvalidClient("the client or its credentials are not known", cause=cause)
