"""The member ``jkt`` of ``cnf``: the thumbprint of the key that signs the proofs (RFC 9449 s6.1)."""

from hashlib import sha256

import msgspec

from greatseal.api.clients import Client, Clients, Proof, ProvenRequest
from greatseal.api.http import Call
from greatseal.api.identity import Headers
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.tokens import AccessToken, InvalidToken, TokenBinding
from greatseal.jose.compact import ALGORITHMS, b64url_encode
from greatseal_dpop.proofs import BadProof, NeedsNonce, Proofs

ALGS = f'algs="{" ".join(ALGORITHMS)}"'


class InvalidDpopProof(BadRequest):
    """The proof of a token request is missing or not good (RFC 9449 s5)."""

    error = "invalid_dpop_proof"


class UseDpopNonce(BadRequest):
    """The proof of a token request lacks the nonce that comes with the refusal (RFC 9449 s8)."""

    error = "use_dpop_nonce"


class UnprovenKey(InvalidToken):
    """The proof at a resource is missing or not good (RFC 9449 s7.1)."""

    error = "invalid_dpop_proof"

    def __init__(self, detail: str, headers: Headers = ()) -> None:
        super().__init__(detail, scheme="DPoP", headers=dict(headers))
        self.headers["WWW-Authenticate"] += f", {ALGS}"


class NonceUnproven(UnprovenKey):
    """The proof at a resource lacks the nonce that comes with the refusal (RFC 9449 s9)."""

    error = "use_dpop_nonce"


class DpopFields(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a client."""

    dpop_bound_access_tokens: bool = False
    """Whether the client gets bound tokens alone (RFC 9449 s5.2)."""


class Dpop(TokenBinding):
    """Every client may send proofs; what they bind is worth nothing without one from then on."""

    confirmation = "jkt"
    scheme = "DPoP"
    fields = DpopFields

    def __init__(self, proofs: Proofs, clients: Clients) -> None:
        self._proofs = proofs
        self._clients = clients

    def concerns(self, request: ProvenRequest) -> bool:
        return "DPoP" in request.call.headers

    async def prove(self, request: ProvenRequest) -> Proof:
        call = request.call
        try:
            jkt = await self._proofs.read(call, call.header_values("DPoP"), request.client)
        except BadProof as problem:
            refused = UseDpopNonce if isinstance(problem, NeedsNonce) else InvalidDpopProof
            raise refused(str(problem), headers=dict(await self._proofs.headers())) from None
        # Other clients prove themselves at each refresh anyway, and may change the key (RFC 9449 s5).
        public = request.client.token_endpoint_auth_method == "none"  # noqa: S105  # a method
        return Proof(confirmation="jkt", value=jkt, refresh=public, headers=await self._proofs.headers())

    def missing(self, client: Client) -> Problem | None:
        if client.more.get("dpop_bound_access_tokens") is True:
            return InvalidDpopProof("this client gets tokens that are bound to a key alone; send a DPoP proof (RFC 9449 s5.2)")
        return None

    async def check(self, call: Call, text: str, token: AccessToken, value: str) -> Headers:
        ath, client = b64url_encode(sha256(text.encode()).digest()), await self._clients.get(token.client_id)
        try:
            jkt = await self._proofs.read(call, call.header_values("DPoP"), client, ath=ath)
        except BadProof as problem:
            refused = NonceUnproven if isinstance(problem, NeedsNonce) else UnprovenKey
            raise refused(str(problem), await self._proofs.headers()) from None
        headers = await self._proofs.headers()
        if jkt != value:
            raise InvalidToken("the access token is bound to another key (RFC 9449 s7.1)", scheme=self.scheme, headers=dict(headers))
        return headers

    def challenge(self) -> str:
        return f"DPoP {ALGS}"
