"""How this service proves itself at a provider (RFC 6749 s2.3.1, RFC 7523 s2.2)."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from urllib.parse import quote_plus
from uuid import uuid4

import msgspec

from greatseal.api.keys import Signer
from greatseal.api.moments import SECOND
from greatseal.host import Host
from greatseal.jose.compact import b64url_encode
from greatseal.jose.jwk import algorithms_of, jwk_of
from greatseal_federation.metadata import Metadata
from greatseal_federation.settings import ClientAuth
from greatseal_federation.upstreams import Upstream

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
SECONDS = 60
"""The life of an assertion."""
PURPOSE = "federation"


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Further parameters of a form, and headers."""

    form: Mapping[str, str]
    headers: Mapping[str, str] = {}


class Proofs:
    """Makes them. Keys are read at the start."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._signers: dict[str, Signer] = {}

    async def open(self, upstreams: Sequence[Upstream]) -> None:
        """Read the keys of providers. Raises StartProblem for one that is not there."""
        for upstream in upstreams:
            if upstream.client_key is not None:
                self._signers[upstream.id] = await self._host.keys.signer(upstream.client_key, purpose=PURPOSE)

    def jwks(self, upstream: Upstream) -> Mapping[str, object]:
        """The public key, for the provider."""
        signer = self._signers.get(upstream.id)
        if signer is None:
            return {"keys": []}
        key = signer.public_key
        return {"keys": [{**jwk_of(key), "use": "sig", "alg": _alg(signer), "kid": signer.info.kid}]}  # type: ignore[arg-type]

    async def of(self, upstream: Upstream, metadata: Metadata) -> Proof:
        """For one request to the token endpoint or the one for pushed requests."""
        how = method_of(upstream, metadata)
        identity = {"client_id": upstream.client_id}
        secret = "" if upstream.client_secret is None else upstream.client_secret.value
        match how:
            case "client_secret_basic":
                pair = f"{quote_plus(upstream.client_id)}:{quote_plus(secret)}".encode()
                return Proof(form={}, headers={"Authorization": f"Basic {b64encode(pair).decode()}"})
            case "client_secret_post":
                return Proof(form={**identity, "client_secret": secret})
            case "private_key_jwt":
                audience = metadata.token_endpoint if upstream.assertion_audience == "token_endpoint" else upstream.issuer
                assertion = await self._assertion(upstream, audience)
                return Proof(form={**identity, "client_assertion_type": ASSERTION, "client_assertion": assertion})
            case _:
                return Proof(form=identity)

    async def _assertion(self, upstream: Upstream, audience: str) -> str:
        """Signed with our key (RFC 7523 s3)."""
        signer, now = self._signers[upstream.id], self._host.clock.now() // SECOND
        header = {"alg": _alg(signer), "kid": signer.info.kid, "typ": "JWT"}
        claims = {
            "iss": upstream.client_id,
            "sub": upstream.client_id,
            "aud": audience,
            "iat": now,
            "exp": now + SECONDS,
            "jti": str(uuid4()),
        }
        message = ".".join(b64url_encode(msgspec.json.encode(part)) for part in (header, claims))
        return f"{message}.{b64url_encode(await signer.sign_jose(message.encode()))}"


def method_of(upstream: Upstream, metadata: Metadata) -> ClientAuth:
    """As configured, else by what there is, and by what the provider says that it takes."""
    if upstream.client_auth is not None:
        return upstream.client_auth
    if upstream.client_key is not None:
        return "private_key_jwt"
    if upstream.client_secret is None:
        return "none"
    taken = metadata.token_endpoint_auth_methods_supported
    return "client_secret_post" if "client_secret_basic" not in taken and "client_secret_post" in taken else "client_secret_basic"


def _alg(signer: Signer) -> str:
    return algorithms_of(signer.public_key)[0]  # type: ignore[arg-type]  # keys of rings are those of JOSE
