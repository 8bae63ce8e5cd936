"""Keys of clients: from the registration, or fetched from the client's jwks_uri, guarded and kept for a while."""

import asyncio
import base64
import ssl
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from greatseal.api.acme import Connection, Dns, IncorrectResponse, Tls
from greatseal.api.clients import Client
from greatseal.api.problems import Unavailable
from greatseal.api.services import Resolver
from greatseal.host import Clock
from greatseal.jose.compact import PublicKey, b64url_encode
from greatseal.jose.jwk import public_key
from greatseal.jose.strict import decode_object
from greatseal.net import AddressPolicy, fetch
from greatseal_client_auth_jwt.assertion import refused

KEPT_SECONDS = 300.0
REFETCH_SECONDS = 30.0
FAILED_SECONDS = 5.0
FETCH_SECONDS = 5.0
LARGEST = 256 * 1024
MOST_KEYS = 100
MOST_SETS = 1000
UNAVAILABLE = "the keys of the client cannot be had now"


class ClientKey(msgspec.Struct, frozen=True):
    """A verification key with the names that a header may call it by."""

    key: PublicKey
    kid: str | None
    alg: str | None
    thumbprints: frozenset[str]


def keys_of(jwks: Mapping[str, Any]) -> tuple[ClientKey, ...]:
    """The usable signature keys of a JWK Set; others are passed over. Raises ValueError when it is none, or has private or no keys."""
    listed = jwks.get("keys")
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise ValueError(f"expected a JWK Set with at most {MOST_KEYS} keys")
    found: list[ClientKey] = []
    reasons: list[str] = []
    for jwk in listed:
        if not isinstance(jwk, Mapping) or jwk.get("use", "sig") != "sig":
            continue
        if "d" in jwk or jwk.get("kty") == "oct":
            raise ValueError("a JWK Set of a client holds public keys alone")
        try:
            found.append(ClientKey(public_key(jwk), _text(jwk, "kid"), _text(jwk, "alg"), _thumbprints(jwk)))
        except ValueError as error:
            reasons.append(f": {error}")
    if not found:
        raise ValueError(f"the JWK Set has no key that can be used{''.join(reasons[:1])}")
    return tuple(found)


def chosen(keys: Sequence[ClientKey], header: Mapping[str, Any]) -> list[ClientKey]:
    """The keys that may have made a signature: by ``kid``, else by ``x5t#S256``, else all."""
    if (kid := header.get("kid")) is not None:
        return [key for key in keys if key.kid == kid]
    thumbprint = header.get("x5t#S256")
    named = [key for key in keys if isinstance(thumbprint, str) and thumbprint in key.thumbprints]
    return named or list(keys)


class _Kept(msgspec.Struct):
    fetched: float
    keys: tuple[ClientKey, ...]


class _Failed(msgspec.Struct):
    at: float
    cause: str


class ClientKeys:
    """The keys of clients, by their jwks_uri."""

    def __init__(self, resolver: Resolver, clock: Clock, *, allow_private: bool) -> None:
        self._resolver = resolver
        self._clock = clock
        self._policy = AddressPolicy(allow_private=allow_private)
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._failed: OrderedDict[str, _Failed] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}
        self._tls: ssl.SSLContext | None = None

    async def of(self, client: Client, header: Mapping[str, Any]) -> list[ClientKey]:
        """The keys that ``header`` may mean. A kid that is not known has the set fetched again, once in 30 s."""
        if client.jwks is not None:
            return chosen(_registered(client.jwks), header)
        if client.jwks_uri is None:
            return []
        found = chosen(await self._keys(client.jwks_uri, KEPT_SECONDS), header)
        return found or chosen(await self._keys(client.jwks_uri, REFETCH_SECONDS), header)

    async def _keys(self, uri: str, age: float) -> tuple[ClientKey, ...]:
        lock = self._locks.setdefault(uri, asyncio.Lock())
        try:
            async with lock:
                kept = self._kept.get(uri)
                if kept is None or self._clock.monotonic() - kept.fetched >= age:
                    kept = _Kept(self._clock.monotonic(), await self._fetched(uri))
                    self._kept[uri] = kept
                    while len(self._kept) > MOST_SETS:
                        self._kept.popitem(last=False)
                self._kept.move_to_end(uri)
                return kept.keys
        finally:
            if not lock.locked():
                self._locks.pop(uri, None)

    async def _fetched(self, uri: str) -> tuple[ClientKey, ...]:
        """The keys from their place. One that failed is not asked again for 5 s, or each bad request to us were one to it."""
        failed = self._failed.get(uri)
        if failed is not None and self._clock.monotonic() - failed.at < FAILED_SECONDS:
            raise Unavailable(UNAVAILABLE, cause=f"{failed.cause}; that was a moment ago")
        try:
            return await self._fetch(uri)
        except Unavailable as problem:
            self._failed[uri] = _Failed(self._clock.monotonic(), problem.cause)
            while len(self._failed) > MOST_SETS:
                self._failed.popitem(last=False)
            raise

    async def _fetch(self, uri: str) -> tuple[ClientKey, ...]:
        if self._tls is None:  # reading the machine's CAs takes 20 ms, and most services never fetch
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        try:
            answer = await fetch(
                uri,
                resolver=self._resolver,
                policy=self._policy,
                redirects=0,
                seconds=FETCH_SECONDS,
                max_body=LARGEST,
                tls=self._tls,
                headers={"Accept": "application/jwk-set+json, application/json"},
            )
        except (Connection, Dns, IncorrectResponse, Tls) as error:
            raise _unavailable(uri, str(error)) from None
        if answer.status != 200:
            raise _unavailable(uri, f"status {answer.status}")
        try:
            return keys_of(decode_object(answer.body))
        except ValueError as error:
            raise _unavailable(uri, str(error)) from None


def _registered(jwks: Mapping[str, Any]) -> tuple[ClientKey, ...]:
    try:
        return keys_of(jwks)
    except ValueError as error:  # they were accepted when the client was registered
        raise refused(str(error)) from None


def _unavailable(uri: str, cause: str) -> Unavailable:
    return Unavailable(UNAVAILABLE, cause=f"{uri}: {cause}")


def _text(jwk: Mapping[str, Any], name: str) -> str | None:
    value = jwk.get(name)
    return value if isinstance(value, str) else None


def _thumbprints(jwk: Mapping[str, Any]) -> frozenset[str]:
    """``x5t#S256`` of the key's certificate, as the set says it or as ``x5c`` gives it."""
    found = {jwk["x5t#S256"]} if isinstance(jwk.get("x5t#S256"), str) else set()
    chain = jwk.get("x5c")
    if isinstance(chain, list) and chain and isinstance(chain[0], str):
        found.add(b64url_encode(sha256(base64.b64decode(chain[0], validate=True)).digest()))
    return frozenset(found)
