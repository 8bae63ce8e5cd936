"""Trusted issuers that are to come, against the contract of all of them."""

from typing import Any, ClassVar

from architecture.typing import trust

from greatseal.api.moments import SECOND
from greatseal.api.trust import ForeignToken, TrustedIssuer
from greatseal.jose.foreign import read
from greatseal.jose.keysets import VerificationKey, named, read_key_set
from greatseal.testing import FakeClock
from greatseal.testing.trust import AUDIENCE, TrustedIssuerContract


def keys_of(jwks: Any) -> trust.Keys:
    async def keys(token: ForeignToken) -> list[VerificationKey]:
        return named(read_key_set(jwks), token.header)

    return keys


class TestUpstreamTokens(TrustedIssuerContract):
    def issuer(self, clock: FakeClock, jwks: Any) -> TrustedIssuer:
        return trust.UpstreamTokens(clock, keys_of(jwks), {"a-1": "ann@EXAMPLE"}, client_id="greatseal")

    def claims(self, now: int) -> Any:
        return {"iss": "https://upstream.example", "sub": "a-1", "aud": AUDIENCE, "exp": now + 60, "iat": now}

    async def test_its_own_name_for_us_is_an_audience(self) -> None:
        found = await self.one.vouch(read(self.token(aud="greatseal")), frozenset({AUDIENCE}))
        assert (found.local, found.jti) == ("ann@EXAMPLE", None)


class TestJwtSvids(TrustedIssuerContract):
    def issuer(self, clock: FakeClock, jwks: Any) -> TrustedIssuer:
        return trust.JwtSvids(clock, keys_of(jwks))

    def claims(self, now: int) -> Any:
        return {"sub": "spiffe://example.org/build", "aud": [AUDIENCE], "exp": now + 60}


class TestEntities(TrustedIssuerContract):
    header: ClassVar[Any] = {"trust_chain": ["a.b.c"]}
    named = ("sub", "jti")

    def issuer(self, clock: FakeClock, jwks: Any) -> TrustedIssuer:
        async def resolve(issuer: str) -> trust.Entity | None:
            known = issuer == "https://leaf.example"
            return trust.Entity(read_key_set(jwks), clock.now() + 30 * SECOND) if known else None

        async def person(claims: Any) -> str:
            return f"{claims['sub']}@EXAMPLE"

        return trust.Entities(clock, resolve, person)

    def claims(self, now: int) -> Any:
        return {"iss": "https://leaf.example", "sub": "ann", "aud": AUDIENCE, "exp": now + 60, "jti": "1"}
