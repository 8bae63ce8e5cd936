"""Tokens of trusted issuers that are exchanged: whom they mean is known here, and nothing else of them is kept."""

from collections.abc import Iterable

from greatseal.api.clients import ProvenRequest
from greatseal.api.tokens import Authentication, SubjectToken
from greatseal.api.trust import TrustedIssuer, check_use, vouched
from greatseal.jose.foreign import read


async def foreign_subject(text: str, request: ProvenRequest, issuers: Iterable[TrustedIssuer], issuer: str) -> SubjectToken:
    """The person that the token means, with the scopes that its issuer may vouch for. Its claims are left behind: none is ours.

    It is for this service, so ``aud`` is the issuer or the token endpoint, or what the issuer was told stands for it. A workload has no
    ``authentication``. ``jti`` is not looked at: nothing is used up. Raises NotVouched, Unavailable.
    """
    client = request.client
    found = await vouched(issuers, read(text), frozenset({issuer, f"{issuer}/token"}))
    check_use(found, client, request.proven, issuer)
    person = Authentication(auth_time=found.authenticated_at, amr=(), acr=None) if found.kind == "person" else None
    return SubjectToken(
        subject=found.local,
        issuer=found.issuer,
        client_id=None,
        scopes=frozenset(client.scopes) if found.scopes is None else found.scopes,
        expires_at=found.expires_at,
        authentication=person,
        claims={},
    )
