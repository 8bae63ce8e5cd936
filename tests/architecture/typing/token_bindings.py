"""Keys that tokens are bound to: DPoP (RFC 9449), the certificate of the connection (RFC 8705), the key of a client attestation.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256

import msgspec

from greatseal.api.clients import Client, Proof, ProvenRequest
from greatseal.api.http import Call
from greatseal.api.identity import Headers
from greatseal.api.problems import BadRequest, Problem, Unauthenticated
from greatseal.api.tokens import AccessToken, InvalidToken, TokenBinding


class InvalidDpopProof(BadRequest):
    """The proof at the token endpoint is not good (RFC 9449 s5)."""

    error = "invalid_dpop_proof"


class UseDpopNonce(BadRequest):
    """The proof needs the nonce that comes with this answer (RFC 9449 s8)."""

    error = "use_dpop_nonce"


class UnprovenKey(Unauthenticated):
    """The proof at a resource is not good (RFC 9449 s7.1)."""

    error = "invalid_dpop_proof"


class DpopFields(msgspec.Struct, frozen=True, kw_only=True):
    dpop_bound_access_tokens: bool = False


class Dpop(TokenBinding):
    """``read`` gives the thumbprint of the key of the proof and its nonce."""

    confirmation = "jkt"
    scheme = "DPoP"
    fields = DpopFields

    def __init__(self, read: Callable[[Call, str, str | None], tuple[str, str | None]], nonce: Callable[[], str]) -> None:
        self.read = read
        self.nonce = nonce

    async def prove(self, request: ProvenRequest) -> Proof | None:
        sent = request.call.header_values("DPoP")
        if not sent:
            return None
        if len(sent) > 1:
            raise InvalidDpopProof("DPoP was sent twice")
        jkt, nonce = self.read(request.call, sent[0], None)
        if nonce != self.nonce():
            raise UseDpopNonce("the proof needs the nonce of this answer", headers={"DPoP-Nonce": self.nonce()})
        public = request.client.token_endpoint_auth_method == "none"
        return Proof(confirmation="jkt", value=jkt, refresh=public, headers=(("DPoP-Nonce", self.nonce()),))

    def missing(self, client: Client) -> Problem | None:
        if client.more.get("dpop_bound_access_tokens") is True:
            return InvalidDpopProof("this client must send a DPoP proof")
        return None

    async def check(self, call: Call, text: str, token: AccessToken, value: str) -> Headers:
        sent = call.header_values("DPoP")
        if len(sent) != 1:
            raise UnprovenKey("one DPoP proof is needed", headers={"WWW-Authenticate": 'DPoP error="invalid_dpop_proof"'})
        ath = urlsafe_b64encode(sha256(text.encode()).digest()).rstrip(b"=").decode()
        jkt, _ = self.read(call, sent[0], ath)
        if jkt != value:
            raise InvalidToken("the access token is bound to another key", scheme=self.scheme)
        return (("DPoP-Nonce", self.nonce()),)

    def challenge(self) -> str:
        return 'DPoP algs="ES256"'


class AttestedInstance(TokenBinding):
    """The key of a client instance: the method verified it, refresh tokens are bound to it, access tokens are not."""

    confirmation = "attest_jkt"

    async def prove(self, request: ProvenRequest) -> Proof | None:
        value = request.match.proven.get(self.confirmation)
        return None if value is None else Proof(confirmation=self.confirmation, value=value, access=False, refresh=True)

    async def check(self, call: Call, text: str, token: AccessToken, value: str) -> Headers:
        raise InvalidToken("no access token is bound to a client instance")
