"""What every trusted issuer must do, as a test class to inherit."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from greatseal.api.moments import SECOND
from greatseal.api.trust import NotVouched, TrustedIssuer
from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_encode, sign_compact
from greatseal.jose.foreign import LEEWAY, read
from greatseal.jose.jwk import jwk_of
from greatseal.testing import FakeClock

__all__ = ["TrustedIssuerContract", "signed"]

AUDIENCE = "https://here.example"
STRANGE: tuple[object, ...] = (None, True, -1, 1.5, 2**63, "", " ", "a\nb", "x" * 2_000, [], {}, [1])


def signed(key: ec.EllipticCurvePrivateKey, claims: Mapping[str, Any], **header: Any) -> str:
    """A token under an EC P-256 key."""
    return sign_compact({"alg": "ES256", **header}, json.dumps(claims).encode(), partial(ALGORITHMS["ES256"].sign, key))


class TrustedIssuerContract(ABC):
    """Inherit, say how to make the issuer and what a good token of it says, and the rest is tested.

    .. code-block:: python

        class TestUpstream(TrustedIssuerContract):
            def issuer(self, clock, keys):
                return Upstream(clock, keys, links={"a-1": "ann@EXAMPLE"})

            def claims(self, now):
                return {"iss": "https://upstream.example", "sub": "a-1", "aud": AUDIENCE, "exp": now + 60, "iat": now}
    """

    header: ClassVar[Mapping[str, Any]] = {}
    """Of its tokens, beside ``alg`` and ``kid``."""
    named: ClassVar[tuple[str, ...]] = ("sub",)
    """Claims without which it knows nobody."""
    key = ec.generate_private_key(ec.SECP256R1())

    @abstractmethod
    def issuer(self, clock: FakeClock, jwks: Mapping[str, Any]) -> TrustedIssuer:
        """A new one whose keys are ``jwks``."""

    @abstractmethod
    def claims(self, now: int) -> Mapping[str, Any]:
        """Those of a token that it issues at ``now`` (seconds) for somebody who is known here, with ``aud`` :data:`AUDIENCE`."""

    @pytest.fixture(autouse=True)
    def _made(self) -> None:
        self.clock = FakeClock()
        self.one = self.issuer(self.clock, {"keys": [{**jwk_of(self.key.public_key()), "kid": "k1"}]})

    def token(self, *, key: ec.EllipticCurvePrivateKey | None = None, **changes: Any) -> str:
        """A token; a claim that is None is left out."""
        claims = {**self.claims(self.clock.now() // SECOND), **changes}
        told = {name: value for name, value in claims.items() if value is not None}
        return signed(key or self.key, told, kid="k1", **self.header)

    async def refused(self, text: str) -> None:
        """Whether the token is refused, in words that tell strangers nothing."""
        with pytest.raises(NotVouched) as problem:
            await self.one.vouch(read(text), frozenset({AUDIENCE}))
        assert problem.value.cause
        assert problem.value.detail == NotVouched("").detail

    async def test_a_good_token_is_vouched_for_each_time(self) -> None:
        now = self.clock.now()
        token = read(self.token())

        assert self.one.issued(token)
        found = await self.one.vouch(token, frozenset({AUDIENCE}))
        again = await self.one.vouch(token, frozenset({AUDIENCE}))

        assert found == again
        assert found.issuer
        assert found.subject.isprintable()
        assert found.local
        assert now < found.expires_at
        assert found.authenticated_at <= now
        assert found.claims == token.claims

    async def test_a_token_of_somebody_else_is_not_taken(self) -> None:
        assert not self.one.issued(read(signed(self.key, {})))
        assert not self.one.issued(read(signed(self.key, {"iss": "https://stranger.example", "sub": "https://stranger.example"})))
        await self.refused(self.token(key=ec.generate_private_key(ec.SECP256R1())))

    async def test_audience_and_times(self) -> None:
        now = self.clock.now() // SECOND

        for changes in (
            {"aud": None}, {"aud": "https://elsewhere.example"}, {"aud": [AUDIENCE + "/"]}, {"aud": {AUDIENCE: 1}},
            {"exp": None}, {"exp": now}, {"exp": now + 10**8}, {"nbf": now + LEEWAY + 1}, {"iat": now + LEEWAY + 1},
        ):  # fmt: skip
            await self.refused(self.token(**changes))
        good = read(self.token(aud=["https://elsewhere.example", AUDIENCE], nbf=now + LEEWAY, iat=now + LEEWAY))
        assert (await self.one.vouch(good, frozenset({AUDIENCE}))).authenticated_at <= self.clock.now()

    async def test_strange_claims_are_refused_and_no_error(self) -> None:
        for name in (*self.named, "exp"):
            for value in STRANGE:
                changed: dict[str, Any] = {name: value}
                await self.refused(self.token(**changed))
        await self.refused(self.token(nbf="soon"))

    async def test_no_algorithm_but_that_of_the_key(self) -> None:
        _, payload, signature = self.token().split(".")
        for alg in ("none", "HS256", "RS256", "ES384", ""):
            head = b64url_encode(json.dumps({"alg": alg, "kid": "k1", **self.header}).encode())
            await self.refused(f"{head}.{payload}.{signature}")
