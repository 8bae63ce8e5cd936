"""Trusted issuers that are to come, against the contract of all of them."""

from typing import Any

from architecture.typing import trust

from greatseal.api.trust import ForeignToken, TrustedIssuer
from greatseal.jose.keysets import VerificationKey, named, read_key_set
from greatseal.testing import FakeClock
from greatseal.testing.trust import AUDIENCE, TrustedIssuerContract


def keys_of(jwks: Any) -> trust.Keys:
    async def keys(token: ForeignToken) -> list[VerificationKey]:
        return named(read_key_set(jwks), token.header)

    return keys


class TestJwtSvids(TrustedIssuerContract):
    def issuer(self, clock: FakeClock, jwks: Any) -> TrustedIssuer:
        return trust.JwtSvids(clock, keys_of(jwks))

    def claims(self, now: int) -> Any:
        return {"sub": "spiffe://example.org/build", "aud": [AUDIENCE], "exp": now + 60}
