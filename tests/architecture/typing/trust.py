"""Trusted issuers that are none of the configuration: a SPIFFE trust domain.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Awaitable, Callable, Sequence

from greatseal.api.trust import ForeignToken, TrustedIssuer, Vouched
from greatseal.host import Clock
from greatseal.jose.foreign import authenticated_at, check_claims, signed_by, text_of
from greatseal.jose.keysets import VerificationKey

Keys = Callable[[ForeignToken], Awaitable[Sequence[VerificationKey]]]


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
