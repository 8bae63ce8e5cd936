"""Tokens of this issuer, read back: access tokens from a cache of verified ones, and what an exchange may bring (service ``TOKENS``)."""

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from greatseal.api.keys import KeyRing
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest
from greatseal.api.store import Tx
from greatseal.api.tokens import AccessToken, Authentication, SubjectToken
from greatseal.host import Host
from greatseal.jose.compact import parse_compact
from greatseal_idp.signing import ALGORITHMS, Signing
from greatseal_idp.token.endings import Endings
from greatseal_idp.token.families import FamiliesImpl
from greatseal_idp.token.issue import OPAQUE, OpaqueTokens
from greatseal_idp.token.policy import Policy
from greatseal_idp.token.revoked import Revocations

CACHED = 5_000
"""Verified tokens that are remembered: about 2 kB each."""
LONGEST = 16_384
"""Characters of a token that is looked at."""
ACCESS = frozenset({"at+jwt"})

_TYPE = "urn:ietf:params:oauth:token-type:"


class Verified:
    """An access token whose signature is right. Whether it is live is asked at every use."""

    __slots__ = ("introspection", "kid", "revocable", "token")

    def __init__(self, token: AccessToken, kid: str | None) -> None:
        self.token = token
        self.kid = kid
        self.revocable = revocable(token.claims)
        self.introspection: bytes | None = None
        """The body of its introspection, once it was made."""


TAKEN_BACK = frozenset({"", "jwt", "at+jwt"})
"""Header types of tokens that this service accepts itself."""


class TokensImpl:
    """The tokens of this issuer."""

    def __init__(
        self, host: Host, signing: Signing, policy: Policy, *, families: FamiliesImpl, revocations: Revocations, endings: Endings
    ) -> None:
        self._host = host
        self._endings = endings
        self._signing = signing
        self.permitted = policy.permitted
        self._families = families
        self._revocations = revocations
        self._opaque = OpaqueTokens(host)
        self._verified: OrderedDict[bytes, Verified] = OrderedDict()
        self._rings: tuple[KeyRing, ...] = ()

    async def access(self, token: str) -> AccessToken | None:
        found = await self.verified(token)
        if found is None:
            return None
        audience = found.token.claims.get("aud")
        here = audience == self._host.issuer or (isinstance(audience, list) and self._host.issuer in audience)
        return found.token if here else None

    async def sign(self, typ: str, claims: Mapping[str, Any], *, alg: str | None = None) -> str:
        if typ.lower().removeprefix("application/") in TAKEN_BACK and not (typ == "JWT" and not {"aud", "sub"} <= claims.keys()):
            raise ValueError(f"tokens of type {typ} come from grants alone: give another kind of token a type of its own (RFC 8725 s3.11)")
        return await self._signing.jwt(typ, {**claims, "iss": self._host.issuer}, alg=alg)

    async def verified(self, token: str) -> Verified | None:
        """A live access token of this issuer, whatever its audience is."""
        if len(token) > LONGEST or not token.isascii():
            return None
        await self._revocations.load()
        key = sha256(token.encode()).digest()
        found = self._verified.get(key)
        if found is None:
            found = await self._read(token)
            if found is None:
                return None
            self._verified[key] = found
            if len(self._verified) > CACHED:
                self._verified.popitem(last=False)
        else:
            self._verified.move_to_end(key)
        if self._is_live(found):
            return found
        self._verified.pop(key, None)
        return None

    async def subject(self, token: str, token_type: str) -> SubjectToken | None:
        match token_type.removeprefix(_TYPE) if token_type.startswith(_TYPE) else "":
            case "access_token":
                return await self._access_subject(token)
            case "id_token":
                return await self._identity_subject(token)
            case "jwt":
                return await self._access_subject(token) or await self._identity_subject(token)
            case _:
                raise BadRequest("this token type is not offered (RFC 8693 s3)")

    def revoke_origin(self, tx: Tx, origin: bytes) -> None:
        self._families.revoke_origin(tx, origin)

    async def _read(self, token: str) -> Verified | None:
        if token.startswith(f"{OPAQUE}_"):
            claims, kid = await self._opaque.read(token), None
        else:
            claims = self._signing.verify(token, typ=ACCESS)
            kid = None if claims is None else str(parse_compact(token).header["kid"])
        return None if claims is None else Verified(_access_token(claims), kid)

    def _is_live(self, found: Verified) -> bool:
        if found.token.expires_at <= self._host.clock.now() or self._revocations.any(found.revocable):
            return False
        if self._endings.pending and self._endings.cover_token(found.token.claims):
            return False
        return found.kid is None or self._is_key(found.kid)

    def _is_key(self, kid: str) -> bool:
        """Whether the key was not revoked since it verified."""
        if not self._rings:
            self._rings = tuple(self._host.keys.ring(f"oidc:{alg}") for alg in ALGORITHMS)
        for ring in self._rings:
            for signer in ring.all():
                if signer.info.kid == kid:
                    return True
        return False

    async def _access_subject(self, token: str) -> SubjectToken | None:
        found = await self.verified(token)
        if found is None:
            return None
        return SubjectToken(
            subject=found.token.subject,
            issuer=self._host.issuer,
            client_id=found.token.client_id,
            scopes=found.token.scopes,
            expires_at=found.token.expires_at,
            authentication=authentication_of(found.token.claims),
            claims=found.token.claims,
        )

    async def _identity_subject(self, token: str) -> SubjectToken | None:
        claims = self._signing.identity(token) if token.isascii() else None
        await self._revocations.load()
        if claims is None or claims["exp"] * SECOND <= self._host.clock.now():
            return None
        told = {**claims, "client_id": claims["aud"]}
        # It tells of a session, and ends with that also where its family does not.
        if self._revocations.any((*revocable(told), f"session {claims.get('sid')}")) or self._endings.cover_token(told):
            return None
        return SubjectToken(
            subject=claims["sub"],
            issuer=self._host.issuer,
            client_id=claims["aud"],
            scopes=frozenset({"openid"}),  # without it there is no ID token
            expires_at=claims["exp"] * SECOND,
            authentication=authentication_of(claims),
            claims=claims,
        )


def revocable(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys under which a token may have been revoked. Those of a family outlive the session (``offline_access``).

    ``via`` are the clients from whose tokens it was exchanged.
    """
    names = {
        "jti": "jti",
        "client_id": "client",
        "family": "family",
        "origin": "origin",
        **({} if "family" in claims else {"sid": "session"}),
    }
    through = (f"client {client_id}" for client_id in claims.get("via", ()))
    return (*(f"{kind} {claims[name]}" for name, kind in names.items() if name in claims), *through)


def authentication_of(claims: Mapping[str, Any]) -> Authentication | None:
    """The sign-in that a token tells of; None for the token of a program."""
    if "auth_time" not in claims:
        return None
    return Authentication(
        auth_time=claims["auth_time"] * SECOND, amr=tuple(claims.get("amr", ())), acr=claims.get("acr"), session_id=claims.get("sid")
    )


def signed_in_by(claims: Mapping[str, Any]) -> int | None:
    """The last moment at which the sign-in of a token may have been, microseconds: its claim has whole seconds. None for a program's."""
    return claims["auth_time"] * SECOND + SECOND - 1 if "auth_time" in claims else None


def _access_token(claims: Mapping[str, Any]) -> AccessToken:
    return AccessToken(
        subject=claims["sub"],
        client_id=claims["client_id"],
        scopes=frozenset(claims["scope"].split()),
        expires_at=claims["exp"] * SECOND,
        jti=claims["jti"],
        claims=claims,
    )
