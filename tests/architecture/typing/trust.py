"""Trusted issuers that are none of the configuration: upstream providers, a SPIFFE trust domain, the entities of a federation.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from greatseal.api.trust import ForeignToken, NotVouched, TrustedIssuer, Vouched
from greatseal.host import Clock
from greatseal.jose.foreign import authenticated_at, check_claims, signed_by, text_of
from greatseal.jose.keysets import VerificationKey

Keys = Callable[[ForeignToken], Awaitable[Sequence[VerificationKey]]]


class UpstreamTokens(TrustedIssuer):
    """ID tokens of one upstream provider: ``aud`` is our client id there, ``links`` say whose account it is."""

    name = "https://upstream.example"

    def __init__(self, clock: Clock, keys: Keys, links: Mapping[str, str], *, client_id: str) -> None:
        self.clock, self.keys, self.links, self.client_id = clock, keys, links, client_id

    def issued(self, token: ForeignToken) -> bool:
        return token.claims.get("iss") == self.name

    async def vouch(self, token: ForeignToken, audiences: frozenset[str]) -> Vouched:
        signed_by(token, await self.keys(token))
        now, subject = self.clock.now(), text_of(token.claims, "sub")
        expires = check_claims(token.claims, audiences | {self.client_id}, now=now, longest=3600)
        if subject not in self.links:
            raise NotVouched("no account is linked to it")
        return Vouched(
            issuer=self.name,
            subject=subject,
            kind="person",
            local=self.links[subject],
            expires_at=expires,
            authenticated_at=authenticated_at(token.claims, now=now),
            jti=None,
            claims=token.claims,
        )


class JwtSvids(TrustedIssuer):
    """JWT-SVIDs have no ``iss``: the trust domain stands in ``sub``, which is the name of the workload here too."""

    name = "spiffe://example.org"

    def __init__(self, clock: Clock, keys: Keys) -> None:
        self.clock, self.keys = clock, keys

    def issued(self, token: ForeignToken) -> bool:
        return "iss" not in token.claims and str(token.claims.get("sub")).startswith(f"{self.name}/")

    async def vouch(self, token: ForeignToken, audiences: frozenset[str]) -> Vouched:
        signed_by(token, await self.keys(token))
        now, subject = self.clock.now(), text_of(token.claims, "sub")
        return Vouched(
            issuer=self.name,
            subject=subject,
            kind="workload",
            local=subject,
            expires_at=check_claims(token.claims, audiences, now=now, longest=3600),
            authenticated_at=authenticated_at(token.claims, now=now),
            jti=text_of(token.claims, "jti") if "jti" in token.claims else None,
            claims=token.claims,
        )


class Entity(msgspec.Struct, frozen=True):
    """What a trust chain says of an entity, after the policies of those above it."""

    keys: Sequence[VerificationKey]
    expires_at: int


class Entities(TrustedIssuer):
    """Everybody for whom a trust chain can be built: one component for all, and the chain bounds what the token says."""

    name = "federation"

    def __init__(self, clock: Clock, resolve: Callable[[str], Awaitable[Entity | None]], person: Callable[[Any], Awaitable[str]]) -> None:
        self.clock, self.resolve, self.person = clock, resolve, person

    def issued(self, token: ForeignToken) -> bool:
        return "trust_chain" in token.header

    async def vouch(self, token: ForeignToken, audiences: frozenset[str]) -> Vouched:
        issuer, now = text_of(token.claims, "iss"), self.clock.now()
        entity = await self.resolve(issuer)
        if entity is None or entity.expires_at <= now:
            raise NotVouched("no trust chain leads to the issuer")
        signed_by(token, entity.keys)
        return Vouched(
            issuer=issuer,
            subject=text_of(token.claims, "sub"),
            kind="person",
            local=await self.person(token.claims),
            expires_at=min(entity.expires_at, check_claims(token.claims, audiences, now=now, longest=600)),
            authenticated_at=authenticated_at(token.claims, now=now),
            jti=text_of(token.claims, "jti"),
            claims=token.claims,
            scopes=frozenset({"openid"}),
        )
