"""ID tokens and logout tokens of a provider (OpenID Connect Core s3.1.3.7, Back-Channel Logout s2.6, RFC 8725)."""

import hmac
from collections.abc import Mapping
from hashlib import sha256, sha384, sha512
from typing import Any

from greatseal.api.moments import SECOND
from greatseal.api.trust import ForeignToken, NotVouched
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.compact import BadJws, b64url_encode, parse_compact
from greatseal.jose.foreign import KEYS_OF_ITS_OWN, LEEWAY, LONGEST, check_claims, read, signed_by, text_of
from greatseal.jose.strict import decode_object
from greatseal.net import RemoteKeys
from greatseal_federation.flow import Flow
from greatseal_federation.metadata import Metadata
from greatseal_federation.refusals import NO_MOMENT, StoppedThere, Untrusted
from greatseal_federation.upstreams import TENANT, Upstream
from greatseal_federation.wire import Wire

LIFETIME = 86_400
"""Seconds that an ID token may live."""
AGE = 600
"""Seconds since it was issued, when it comes with its code."""
LOGOUT_LIFETIME = 3600
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
LOGOUT_TYPES = frozenset({"jwt", "logout+jwt"})
_DIGESTS = {"256": sha256, "384": sha384, "512": sha512}


class IdTokens:
    """Believes those that their issuer signed, and that are for us."""

    def __init__(self, host: Host, wire: Wire) -> None:
        self._host = host
        self._keys = {private: RemoteKeys(wire.resolver, host.clock, allow_private=private) for private in (False, True)}

    async def verified(
        self, upstream: Upstream, metadata: Metadata, text: str, *, flow: Flow, access_token: str | None
    ) -> Mapping[str, Any]:
        """The claims of the ID token of a sign-in. Raises Untrusted, StoppedThere and Unavailable."""
        try:
            claims = await self.believed(upstream, metadata, read(text), frozenset({upstream.client_id}), LIFETIME)
            _check_flow(claims, flow, self._host.clock.now() // SECOND, assumed=upstream.assume_auth_time)
            if "at_hash" in claims:
                _check_hash(claims["at_hash"], access_token, text)
        except NotVouched as refused:
            raise Untrusted(f"the ID token: {refused.cause}") from None
        return claims

    async def logout(self, upstream: Upstream, metadata: Metadata, token: ForeignToken) -> Mapping[str, Any]:
        """The claims of a logout token. Raises NotVouched and Unavailable."""
        claims = await self.believed(upstream, metadata, token, frozenset({upstream.client_id}), LOGOUT_LIFETIME)
        if _seconds(claims, "iat") is None:
            raise NotVouched("iat is missing")
        return claims

    async def believed(
        self, upstream: Upstream, metadata: Metadata, token: ForeignToken, audiences: frozenset[str], longest: int
    ) -> Mapping[str, Any]:
        """Signature, issuer, audience and times. Raises NotVouched and Unavailable."""
        claims = token.claims
        _check_issuer(upstream, metadata, claims)
        assert metadata.jwks_uri is not None  # metadata without it was refused
        used = signed_by(token, await self._keys[upstream.allow_private_hosts].of(metadata.jwks_uri, token.header))
        if await self._host.blocked_keys.find(spki_sha256(used.key)):
            raise NotVouched("the key of the provider is blocked")
        check_claims(claims, audiences, now=self._host.clock.now(), longest=longest)
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if (several or "azp" in claims) and claims.get("azp") not in audiences:
            raise NotVouched("azp does not name this service, and it is for others too")
        return claims


def read_logout(text: str) -> ForeignToken:
    """A logout token, its signature not verified (Back-Channel Logout s2.4, s2.6). Raises NotVouched."""
    if len(text) > LONGEST:
        raise NotVouched("it is too long")
    try:
        jws = parse_compact(text)
        claims = decode_object(jws.payload)
    except (BadJws, ValueError) as error:
        raise NotVouched(f"it is not readable: {error}") from None
    typ = jws.header.get("typ", "JWT")
    if not isinstance(typ, str) or typ.lower().removeprefix("application/") not in LOGOUT_TYPES:
        raise NotVouched("typ says that it is another kind of token")
    if any(name in jws.header for name in KEYS_OF_ITS_OWN):
        raise NotVouched("its header brings a key: jwk, jku or x5u")
    events = claims.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict):
        raise NotVouched("events does not say that somebody signed out")
    if "nonce" in claims:
        raise NotVouched("it has a nonce, as ID tokens have")
    if "sub" not in claims and "sid" not in claims:
        raise NotVouched("it has neither sub nor sid")
    for name in ("jti", *(name for name in ("sub", "sid") if name in claims)):
        text_of(claims, name)
    return ForeignToken(text=text, header=jws.header, claims=claims)


def _check_issuer(upstream: Upstream, metadata: Metadata, claims: Mapping[str, Any]) -> None:
    issuer = claims.get("iss")
    if TENANT in metadata.issuer and upstream.tenant_claim is not None:
        tenant = claims.get(upstream.tenant_claim)
        if not isinstance(tenant, str) or tenant not in upstream.tenants:
            raise NotVouched(f"{upstream.tenant_claim} is none of the tenants whose people may sign in")
        allowed: tuple[str, ...] = (metadata.issuer.replace(TENANT, tenant),)
    else:
        allowed = (metadata.issuer, *upstream.also_issuers)
    if issuer not in allowed:
        raise NotVouched("iss is another issuer")


def _check_flow(claims: Mapping[str, Any], flow: Flow, now: int, *, assumed: bool) -> None:
    """It is of this very sign-in, was made for it, and is as fresh as was asked for; ``now`` is seconds."""
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), flow.nonce.encode()):
        raise NotVouched("nonce is not the one of this sign-in")
    issued = _seconds(claims, "iat")
    if issued is None or issued < now - AGE:
        raise NotVouched(f"iat is missing, or more than {AGE} s ago")
    if flow.max_age is not None:
        signed_in = signed_in_at(claims, now * SECOND, assumed=assumed)
        if signed_in is None:
            raise StoppedThere(NO_MOMENT, cause="the ID token has no auth_time, or one that is ahead")
        if signed_in < flow.began_at - (flow.max_age + LEEWAY) * SECOND:
            raise NotVouched("auth_time is longer ago than the sign-in was asked to be")


def signed_in_at(claims: Mapping[str, Any], now: int, *, assumed: bool = False) -> int | None:
    """When the person signed in there, never after ``now`` (microseconds, both); None where the claims do not say.

    ``assumed``: it was now where they name no moment. One that cannot be is no reason to assume another.
    """
    if assumed and claims.get("auth_time") is None:
        return now
    told = _seconds(claims, "auth_time")
    return None if told is None or told * SECOND > now + LEEWAY * SECOND else min(told * SECOND, now)


def _check_hash(told: object, access_token: str | None, text: str) -> None:
    """at_hash is of the access token that came with it (OpenID Connect Core s3.1.3.6)."""
    digest = _DIGESTS.get(str(parse_compact(text).header["alg"])[-3:])
    if digest is None:  # EdDSA and ML-DSA, for which no specification says which hash it is
        return
    half = digest((access_token or "").encode()).digest()
    if told != b64url_encode(half[: len(half) // 2]):
        raise NotVouched("at_hash is not of the access token that came with it")


def _seconds(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 40 else None
