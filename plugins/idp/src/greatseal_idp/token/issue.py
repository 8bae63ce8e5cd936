"""Tokens from what was granted: access tokens (RFC 9068, or sealed handles), ID tokens (OpenID Connect Core s2), the token response.

A client whose registration says ``access_token_format`` = ``opaque`` gets a handle instead of a JWT: the same claims, sealed, so that
it needs no row and says nothing to whoever holds it.
The algorithms of both kinds can be chosen by the client: ``access_token_signed_response_alg`` and ``id_token_signed_response_alg``.
"""

import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from greatseal.api.clients import Client
from greatseal.api.moments import SECOND
from greatseal.api.tokens import Authentication, Granted
from greatseal.host import Host
from greatseal.jose.compact import b64url_encode
from greatseal_idp.claims import Claims
from greatseal_idp.extensions import Extensions
from greatseal_idp.proofs import BEARER, Proofs
from greatseal_idp.settings import TokenSettings
from greatseal_idp.signing import Signing
from greatseal_idp.token.revoked import Revocations

OPAQUE = "at"
"""The kind of opaque access tokens."""
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105  # a name, no secret


class OpaqueTokens:
    """Access tokens that only this issuer can read."""

    def __init__(self, host: Host) -> None:
        self._envelopes = host.envelopes

    async def write(self, claims: Mapping[str, Any]) -> str:
        """A handle that holds ``claims``, which say when it ends."""
        return await self._envelopes.seal(OPAQUE, claims, seconds=None)

    async def read(self, token: str) -> Mapping[str, Any] | None:
        """The claims of a handle; None for what is none of ours."""
        return await self._envelopes.open(OPAQUE, token, dict[str, Any])


class Issuer:
    """Makes tokens. Whatever was to be committed is committed."""

    def __init__(
        self, host: Host, signing: Signing, claims: Claims, revocations: Revocations, *, proofs: Proofs, extensions: Extensions
    ) -> None:
        settings = host.settings(TokenSettings)
        self._revocations = revocations
        self._proofs = proofs
        self._extensions = extensions
        self._host = host
        self._signing = signing
        self._claims = claims
        self._opaque = OpaqueTokens(host)
        self._issuer = host.issuer
        self._jti_start = f"{host.node_id}/"
        self._access_ttl = settings.access_token_ttl
        self._id_ttl = settings.id_token_ttl

    async def response(self, client: Client, granted: Granted) -> dict[str, Any]:
        """The members of a token response (RFC 6749 s5.1)."""
        moment = self._host.clock.now()
        self._revocations.issued(moment)
        now = moment // SECOND
        if granted.issued_token_type == ID_TOKEN:
            return await self._identity_response(client, granted, now)
        claims = self._access_claims(granted, now)
        if granted.authentication is not None and "groups" in granted.scopes:
            claims |= await self._claims.of(granted.subject, (), ("groups",))
        token = await self._access_token(client, claims)
        response: dict[str, Any] = {
            **granted.members,
            "access_token": token,
            "token_type": BEARER if granted.cnf is None else self._proofs.scheme_of(granted.cnf),
            "expires_in": claims["exp"] - now,
            "scope": claims["scope"],
        }
        if granted.family is not None:
            response["refresh_token"] = granted.family.refresh_token
        if granted.id_token is not None and granted.authentication is not None and "openid" in granted.scopes:
            response["id_token"] = await self._id_token(client, granted, granted.authentication, token, now)
        if granted.issued_token_type is not None:
            response["issued_token_type"] = granted.issued_token_type
        return response

    async def _identity_response(self, client: Client, granted: Granted, now: int) -> dict[str, Any]:
        """An ID token in the place of the access token, which is not there (RFC 8693 s2.2.1)."""
        assert granted.authentication is not None
        return {
            **granted.members,
            "access_token": await self._id_token(client, granted, granted.authentication, None, now),
            "issued_token_type": ID_TOKEN,
            "token_type": "N_A",
            "expires_in": self._ends(granted, now + self._id_ttl) - now,
        }

    def _ends(self, granted: Granted, latest: int) -> int:
        return latest if granted.not_after is None else min(latest, granted.not_after // SECOND)

    def _access_claims(self, granted: Granted, now: int) -> dict[str, Any]:
        expires = self._ends(granted, now + self._access_ttl)
        audiences = granted.audiences
        claims: dict[str, Any] = {
            **granted.claims,
            "iss": self._issuer,
            "sub": granted.subject,
            "aud": self._issuer if not audiences else audiences[0] if len(audiences) == 1 else audiences,
            "client_id": granted.client_id,
            "iat": now,
            "exp": expires,
            "jti": self._jti_start + _uuid(),
            "scope": " ".join(granted.scopes),
        }
        if granted.authentication is not None:
            claims |= _sign_in(granted.authentication)
        if granted.cnf:
            claims["cnf"] = granted.cnf
        return claims | _hangs_on(granted)

    async def _access_token(self, client: Client, claims: Mapping[str, Any]) -> str:
        if client.more.get("access_token_format") == "opaque":
            return await self._opaque.write(claims)
        return await self._signing.jwt("at+jwt", claims, alg=client.more.get("access_token_signed_response_alg"))

    async def _id_token(self, client: Client, granted: Granted, authentication: Authentication, access_token: str | None, now: int) -> str:
        order = granted.id_token
        assert order is not None
        scopes = granted.scopes if client.more.get("id_token_include_scope_claims", True) else ()
        wanted: tuple[str, ...] = ()
        if order.claims:
            allowed = [scope for scope in (*granted.scopes, *granted.implied) if scope in client.scopes]
            wanted = await self._claims.named(order.claims, allowed)
        claims = {
            **await self._claims.of(granted.subject, scopes, wanted),
            **(granted.claims if access_token is None else {}),
            "iss": self._issuer,
            "sub": granted.subject,
            "aud": granted.client_id,
            "iat": now,
            "exp": self._ends(granted, now + self._id_ttl),
            **_sign_in(authentication),
            **_hangs_on(granted),
        }
        if access_token is not None:
            claims["at_hash"] = at_hash(access_token)
        if order.nonce is not None:
            claims["nonce"] = order.nonce
        signed = await self._signing.jwt("JWT", claims, alg=client.more.get("id_token_signed_response_alg"))
        return await self._extensions.seal("id_token", client, signed) if self._extensions.sealing else signed


def _uuid() -> str:
    """A random UUID (RFC 9562 s5.4), a few microseconds faster than the standard library's."""
    text = secrets.token_hex(16)
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def at_hash(access_token: str) -> str:
    """The left half of the SHA-256 of an access token (OpenID Connect Core s3.1.3.6); ES256 and RS256 both have this hash."""
    return b64url_encode(sha256(access_token.encode("ascii")).digest()[:16])


def _hangs_on(granted: Granted) -> dict[str, str]:
    """Under what a token can be revoked later. An ID token too: it can be exchanged for another access token."""
    if granted.family is not None:
        return {"family": granted.family.id}
    return {} if granted.origin is None else {"origin": b64url_encode(granted.origin)}


def _sign_in(authentication: Authentication) -> dict[str, Any]:
    """What a token tells about the sign-in of its person."""
    claims: dict[str, Any] = {"auth_time": authentication.auth_time // SECOND, "amr": authentication.amr}
    if authentication.acr is not None:
        claims["acr"] = authentication.acr
    if authentication.session_id is not None:
        claims["sid"] = authentication.session_id
    return claims
