"""Keys behind a URL that somebody else named (a ``jwks_uri``): guarded, kept for a while, asked for again when a kid is not known."""

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from greatseal.api.clients import Client
from greatseal.api.problems import Outbound, Unavailable
from greatseal.host import Clock
from greatseal.jose.keysets import VerificationKey, encrypts_alone, named, read_key_set
from greatseal.jose.strict import decode_object
from greatseal.net.addresses import AddressPolicy
from greatseal.net.outbound import NameResolver, fetch

KEPT_SECONDS = 300.0
REFETCH_SECONDS = 30.0
FAILED_SECONDS = 5.0
FETCH_SECONDS = 5.0
LARGEST = 256 * 1024
MOST_SETS = 1000
REMEMBERED = 256
"""Sets that clients registered and that were read."""
UNAVAILABLE = "the keys that would check the signature cannot be had now"


class _Kept(msgspec.Struct):
    fetched: float
    jwks: Mapping[str, Any]
    keys: tuple[VerificationKey, ...]


class _Failed(msgspec.Struct):
    at: float
    cause: str


class RemoteKeys:
    """The key sets of others, by URL. One object for each purpose, as long as the service runs.

    A set is kept for 300 s and fetched again for a kid that it does not have, once in 30 s. A place that failed is left alone for 5 s.
    A set has 5 s, 256 KiB and 100 keys; no redirect is followed. Addresses that are not public are asked with ``allow_private`` alone.
    """

    def __init__(self, resolver: NameResolver, clock: Clock, *, allow_private: bool) -> None:
        self._resolver = resolver
        self._clock = clock
        self._policy = AddressPolicy(allow_private=allow_private)
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._failed: OrderedDict[str, _Failed] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}
        self._tls: ssl.SSLContext | None = None

    async def of(self, url: str, header: Mapping[str, Any]) -> list[VerificationKey]:
        """The keys behind ``url`` that ``header`` may mean (:func:`greatseal.jose.keysets.named`); empty for a kid that nobody knows.

        Raises Unavailable when they cannot be had now, with the reason for the log alone.
        """
        found = named((await self._set(url, KEPT_SECONDS)).keys, header)
        return found or named((await self._set(url, REFETCH_SECONDS)).keys, header)

    async def of_client(self, client: Client, header: Mapping[str, Any]) -> list[VerificationKey]:
        """The same of the keys that a client registered, inline or behind its ``jwks_uri``.

        Raises ValueError when it registered none that sign.
        """
        if client.jwks_uri is not None:
            return await self.of(client.jwks_uri, header)
        return named(_registered(msgspec.json.encode(client.jwks or {})), header)

    async def set_of(self, client: Client) -> Mapping[str, Any]:
        """The whole JWK Set that a client registered, for keys that it decrypts with; empty for none. Raises Unavailable as :meth:`of`."""
        return (client.jwks or {}) if client.jwks_uri is None else (await self._set(client.jwks_uri, KEPT_SECONDS)).jwks

    async def _set(self, url: str, age: float) -> _Kept:
        lock = self._locks.setdefault(url, asyncio.Lock())
        try:
            async with lock:
                kept = self._kept.get(url)
                if kept is None or self._clock.monotonic() - kept.fetched >= age:
                    kept = _Kept(self._clock.monotonic(), *await self._fetched(url))
                    self._kept[url] = kept
                    while len(self._kept) > MOST_SETS:
                        self._kept.popitem(last=False)
                self._kept.move_to_end(url)
                return kept
        finally:
            if not lock.locked():
                self._locks.pop(url, None)

    async def _fetched(self, url: str) -> tuple[Mapping[str, Any], tuple[VerificationKey, ...]]:
        """The keys from their place. One that failed is not asked again for 5 s, or each bad request to us were one to it."""
        failed = self._failed.get(url)
        if failed is not None and self._clock.monotonic() - failed.at < FAILED_SECONDS:
            raise Unavailable(UNAVAILABLE, cause=f"{failed.cause}; that was a moment ago")
        try:
            return await self._fetch(url)
        except Unavailable as problem:
            self._failed[url] = _Failed(self._clock.monotonic(), problem.cause)
            while len(self._failed) > MOST_SETS:
                self._failed.popitem(last=False)
            raise

    async def _fetch(self, url: str) -> tuple[Mapping[str, Any], tuple[VerificationKey, ...]]:
        if self._tls is None:  # reading the machine's CAs takes 20 ms, and most services never fetch
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        try:
            answer = await fetch(
                url,
                resolver=self._resolver,
                policy=self._policy,
                redirects=0,
                seconds=FETCH_SECONDS,
                max_body=LARGEST,
                tls=self._tls,
                headers={"Accept": "application/jwk-set+json, application/json"},
            )
        except Outbound as error:
            raise _unavailable(url, str(error)) from None
        if answer.status != 200:
            raise _unavailable(url, f"status {answer.status}")
        try:
            jwks = decode_object(answer.body)
            return jwks, () if encrypts_alone(jwks) else read_key_set(jwks)
        except ValueError as error:
            raise _unavailable(url, str(error)) from None


@lru_cache(REMEMBERED)
def _registered(jwks: bytes) -> tuple[VerificationKey, ...]:
    """The keys of a set that a client registered. Read once: whether each may be accepted takes longer than a signature."""
    return read_key_set(msgspec.json.decode(jwks))


def _unavailable(url: str, cause: str) -> Unavailable:
    return Unavailable(UNAVAILABLE, cause=f"{url}: {cause}")
