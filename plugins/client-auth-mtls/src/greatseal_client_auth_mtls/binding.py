"""The member ``x5t#S256`` of ``cnf``: the thumbprint of the certificate that the client shows (RFC 8705 s3)."""

import msgspec

from greatseal.api.clients import Client, Proof, ProvenRequest
from greatseal.api.http import Call
from greatseal.api.identity import Headers
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.tokens import AccessToken, InvalidToken, TokenBinding
from greatseal.host import Host
from greatseal_client_auth_mtls.certificates import read


class CertificateFields(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a client."""

    tls_client_certificate_bound_access_tokens: bool = False
    """Whether the client gets bound tokens alone (RFC 8705 s3.4)."""


class CertificateBinding(TokenBinding):
    """Who registered for it gets bound tokens, whatever its authentication method is."""

    confirmation = "x5t#S256"
    fields = CertificateFields

    def __init__(self, host: Host) -> None:
        self._host = host

    def concerns(self, request: ProvenRequest) -> bool:
        return request.call.connection.certificate is not None and self.missing(request.client) is not None

    async def prove(self, request: ProvenRequest) -> Proof:
        try:
            thumbprint = await self._thumbprint(request.call.connection.certificate or b"")
        except ValueError as error:
            raise BadRequest(f"the certificate of the client cannot bind tokens: {error} (RFC 8705 s3)") from None
        # Others prove themselves at each refresh anyway, and may change the certificate (RFC 8705 s4, s7.1).
        public = request.client.token_endpoint_auth_method == "none"  # noqa: S105  # a method
        return Proof(confirmation=self.confirmation, value=thumbprint, refresh=public)

    def missing(self, client: Client) -> Problem | None:
        if client.more.get("tls_client_certificate_bound_access_tokens") is True:
            return BadRequest("this client gets tokens that are bound to its certificate alone; show it (RFC 8705 s3)")
        return None

    async def check(self, call: Call, text: str, token: AccessToken, value: str) -> Headers:  # noqa: ARG002  # the contract
        certificate = call.connection.certificate
        if certificate is None:
            raise InvalidToken("the access token is bound to a certificate, and none was shown (RFC 8705 s3)")
        try:
            thumbprint = await self._thumbprint(certificate)
        except ValueError as error:
            raise InvalidToken(f"the certificate of the client: {error} (RFC 8705 s3)") from None
        if thumbprint != value:
            raise InvalidToken("the access token is bound to another certificate (RFC 8705 s3)")
        return ()

    async def _thumbprint(self, certificate: bytes) -> str:
        """Raises ValueError for what is no certificate, and for one whose key others may have."""
        shown = read(certificate)
        if await self._host.blocked_keys.find(shown.key):
            raise ValueError("its key is blocked, since others may have it; make a new one")
        return shown.thumbprint
