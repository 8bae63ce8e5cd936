"""The keys that sign this issuer's tokens: ES256, and RS256 beside it for clients that ask for it (RFC 7515, RFC 7517)."""

import asyncio
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import msgspec
import orjson

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.keys import KeyInfo, KeyRing, KeyState, Signer
from greatseal.api.problems import BadRequest, Unavailable
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.jose.compact import BadJws, Jws, b64url_encode, parse_compact
from greatseal.jose.jwk import jwk_of
from greatseal.jose.strict import decode_object
from greatseal_idp.settings import IdpServer, SessionSettings, TokenSettings

ALGORITHMS: Mapping[str, str] = MappingProxyType({"ES256": "ec:P-256", "RS256": "rsa:2048"})
"""The algorithms of tokens, with the key type of each."""

MAX_TOKEN = 16_384
"""Characters of a token that is looked at."""

_ID_TOKEN = frozenset({"jwt"})
_OF_ID_TOKENS = (("aud", str), ("sub", str), ("iat", int), ("exp", int))


class SigningKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as the admin API shows it. Moments are microseconds; ``retire_at`` is when the last token of a retained key expires."""

    kid: str
    alg: str
    kty: str
    crv: str | None
    status: KeyState
    created_at: int
    retire_at: int | None = None


class Rotated(msgspec.Struct, frozen=True, kw_only=True):
    """A new active key, and the one that it replaced."""

    kid: str
    alg: str
    created_at: int
    previous_kid: str | None


class _Keys(msgspec.Struct, frozen=True):
    """What the rings hold, looked up in the ways that requests need."""

    rings: tuple[tuple[Signer, ...], ...]
    by_kid: Mapping[str, tuple[str, Signer]]
    active: Mapping[str, Signer | None]
    jwks: bytes


class Signing:
    """Signs and verifies this issuer's own tokens. Usable from :meth:`open` on."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._default: str = host.settings(IdpServer).jwt_signing_algorithm
        self._heads: dict[tuple[str, str], bytes] = {}
        self._changing = asyncio.Lock()
        self.algorithms = (self._default, *(alg for alg in ALGORITHMS if alg != self._default))
        """All algorithms, the default one first."""
        self._seen = _Keys((), {}, {}, b"")

    @property
    def default(self) -> str:
        """The algorithm of `[server] jwt_signing_algorithm`."""
        return self._default

    async def open(self) -> None:
        """At the start: make the keys that are not there yet."""
        if all(ring.active for ring in self._rings.values()):
            return
        await self._host.keys.load()  # another process may have made them a moment ago
        for alg, key_type in ALGORITHMS.items():
            if self._rings[alg].active is None:
                await self._rings[alg].make(key_type)

    async def jwt(self, typ: str, claims: Mapping[str, Any], *, alg: str | None = None) -> str:
        """A signed JWT with the header ``typ``; ``alg`` None is the default algorithm.

        Raises Unavailable when there is no key of the algorithm, KeyError for an unknown one.
        """
        alg = alg or self._default
        signer = self._keys().active[alg]
        if signer is None:
            raise Unavailable("there is no signing key now", cause=f"no active key of {alg}")
        message = self._head(signer, alg, typ) + b64url_encode(orjson.dumps(claims)).encode()
        return f"{message.decode()}.{b64url_encode(await signer.sign_jose(message))}"

    def verify(self, token: str, *, typ: frozenset[str]) -> Mapping[str, Any] | None:
        """The claims of a token that a live key of ours signed, for this issuer, with one of the header types ``typ`` (lower case).

        None for every other token. Times are not looked at.
        """
        if len(token) > MAX_TOKEN:
            return None
        try:
            jws = parse_compact(token)
            signer = self._signer_of(jws, typ)
            if signer is None:
                return None
            jws.verify(signer.public_key)  # type: ignore[arg-type]  # the rings hold EC and RSA keys alone
            claims = decode_object(jws.payload)
        except (BadJws, ValueError):
            return None
        return claims if claims.get("iss") == self._host.issuer else None

    def identity(self, token: str) -> Mapping[str, Any] | None:
        """The claims of an ID token of ours with one client as its audience, expired or not; None for every other token.

        A signed answer of /userinfo has the same header; it never says when it ends.
        """
        claims = self.verify(token, typ=_ID_TOKEN)
        if claims is None or not all(isinstance(claims.get(name), kind) for name, kind in _OF_ID_TOKENS):
            return None
        return claims

    def jwks(self) -> bytes:
        """The key set (RFC 7517 s5): every key that is not revoked."""
        return self._keys().jwks

    def keys(self) -> list[SigningKey]:
        """Every key that is not revoked, those of the default algorithm first, newest first."""
        return [shown for alg in self.algorithms for shown in self._shown(alg)]

    async def rotate(self, alg: str | None = None, *, by: str) -> Rotated:
        """Make a new active key; the one before stays for verification. Raises BadRequest for an unknown algorithm."""
        alg = alg or self._default
        if alg not in ALGORITHMS:
            raise BadRequest(f"alg: expected one of {', '.join(ALGORITHMS)}")
        async with self._changing:
            return await self._rotate(alg, by)

    async def revoke(self, kid: str, *, by: str | None) -> bool:
        """Revoke a key for ever; False when there is none of that kid. An active key gets its successor first.

        ``by`` None is the service itself.
        """
        async with self._changing:
            found = next(((alg, signer) for alg, signer in self._signers() if signer.info.kid == kid), None)
            if found is None:
                return False
            alg, signer = found
            if signer.info.state == "active":
                self._host.log.warning("the active signing key is revoked", kid=kid, alg=alg)
                await self._rotate(alg, by)
                faults.point("idp.key.succeeded")
            event = AuditEvent(event_type="key_revoked", service="idp", sub=by, detail=f"kid={kid} alg={alg}")

            def told(tx: Tx, _: KeyInfo) -> None:
                tx.audit(event)
                tx.after_commit(partial(faults.point, "idp.key.revoked"))

            return await self._rings[alg].revoke(kid, also=told)

    async def retire(self) -> None:
        """Take away retained keys whose last token has expired."""
        passed = self._host.clock.passed()
        for key in self.keys():
            if key.retire_at is not None and key.retire_at <= passed:
                await self.revoke(key.kid, by=None)

    async def _rotate(self, alg: str, by: str | None) -> Rotated:
        def told(tx: Tx, info: KeyInfo) -> None:
            tx.audit(AuditEvent(event_type="key_rotated", service="idp", sub=by, detail=f"kid={info.kid} alg={alg}"))
            tx.after_commit(partial(faults.point, "idp.key.rotated"))

        before = self._rings[alg].active
        made = await self._rings[alg].make(ALGORITHMS[alg], also=told)
        return Rotated(
            kid=made.info.kid, alg=alg, created_at=made.info.created_at, previous_kid=before.info.kid if before is not None else None
        )

    @cached_property
    def _rings(self) -> Mapping[str, KeyRing]:
        return {alg: self._host.keys.ring(f"oidc:{alg}") for alg in self.algorithms}

    def _signers(self) -> Iterator[tuple[str, Signer]]:
        for alg, ring in self._rings.items():
            for signer in ring.all():
                yield alg, signer

    def _keys(self) -> "_Keys":
        """The rings as they are now, looked at once for each change: a ring gives the same tuple until then."""
        rings = tuple([ring.all() for ring in self._rings.values()])
        if rings != self._seen.rings:
            by_kid = {signer.info.kid: (alg, signer) for alg, signer in self._signers()}
            keys = [{**_jwk(signer), "use": "sig", "alg": alg, "kid": kid} for kid, (alg, signer) in by_kid.items()]
            active = {alg: ring.active for alg, ring in self._rings.items()}
            self._seen = _Keys(rings, by_kid, active, orjson.dumps({"keys": keys}))
        return self._seen

    def _signer_of(self, jws: Jws, typ: frozenset[str]) -> Signer | None:
        said, kid = jws.header.get("typ"), jws.header.get("kid")
        if not isinstance(said, str) or said.lower().removeprefix("application/") not in typ:
            return None
        alg, signer = self._keys().by_kid.get(kid, ("", None)) if isinstance(kid, str) else ("", None)
        return signer if alg == jws.alg else None

    def _head(self, signer: Signer, alg: str, typ: str) -> bytes:
        key = (signer.info.kid, typ)
        head = self._heads.get(key)
        if head is None:
            header = orjson.dumps({"alg": alg, "kid": signer.info.kid, "typ": typ})
            head = self._heads[key] = f"{b64url_encode(header)}.".encode()
        return head

    def _shown(self, alg: str) -> Iterator[SigningKey]:
        longest = max(
            self._host.settings(TokenSettings).access_token_ttl,
            self._host.settings(TokenSettings).id_token_ttl,
            self._host.settings(SessionSettings).ttl,  # an expired ID token is still a hint at the end of its session
        )
        newer: int | None = None
        for signer in self._rings[alg].all():
            info, jwk = signer.info, _jwk(signer)
            # A successor may look older: the clock was set back between them.
            since = info.created_at if newer is None else newer
            yield SigningKey(
                kid=info.kid,
                alg=alg,
                kty=jwk["kty"],
                crv=jwk.get("crv"),
                status=info.state,
                created_at=info.created_at,
                retire_at=since + longest * 1_000_000 if info.state == "retained" else None,
            )
            newer = info.created_at


def _jwk(signer: Signer) -> dict[str, str]:
    return jwk_of(signer.public_key)  # type: ignore[arg-type]  # the rings hold EC and RSA keys alone
