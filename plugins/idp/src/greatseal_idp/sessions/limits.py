"""How often somebody may try to sign in (reference 17.7, ruling R104)."""

import asyncio
import hashlib
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from greatseal.api.audit import AuditEvent
from greatseal.api.problems import RateLimited
from greatseal.host import Host
from greatseal_idp.addresses import source_of
from greatseal_idp.settings import IdpServer

WINDOW = 300.0
"""Seconds of every window here."""
FAILURES_OF_USER = 5
REQUESTS = 10
"""How many authorization requests may wait for each sign-in that an address may try: every one is a row for hours."""


class LoginLimits:
    """Attempts per address, failures per user name. Whether the user exists plays no part."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._of_address = host.settings(IdpServer).auth_rate_limit
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def address(self, remote: str) -> None:
        """Count an attempt from an address. Raises RateLimited."""
        await self._count("auth-address", source_of(remote), self._of_address, f"address={remote}")

    @asynccontextmanager
    async def user(self, username: str) -> AsyncIterator[None]:
        """One attempt for a user name, which counts as a failure unless :meth:`succeeded` is told. Raises RateLimited.

        Attempts for one name take turns: parallel guesses are counted like others, and parallel sign-ins of one person all succeed.
        """
        key = _key(username)
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn:
            await self._count("auth-user", key, FAILURES_OF_USER, "failures of one user name")
            yield

    def succeeded(self, username: str) -> None:
        """Forget the failures."""
        self._host.limits.reset("auth-user", _key(username))

    async def hint(self, remote: str) -> None:
        """Count a question about a user name, for which nothing is proven. Raises RateLimited."""
        await self._count("auth-hint", source_of(remote), self._of_address, f"address={remote}")

    async def request(self, remote: str) -> None:
        """Count an authorization request that is stored for somebody who has proven nothing. Raises RateLimited."""
        await self._count("auth-request", source_of(remote), REQUESTS * self._of_address, f"address={remote}")

    async def consent(self, session_id: str) -> None:
        """Count a request that is stored for the consent of a session. Raises RateLimited."""
        await self._count("auth-consent", session_id, REQUESTS * self._of_address, f"sid={session_id}")

    async def _count(self, bucket: str, key: str, limit: int, detail: str) -> None:
        wait = self._host.limits.hit(bucket, key, limit, WINDOW)
        if wait is None:
            return
        # One event for each window: refusals must stay cheaper than attempts.
        if self._host.limits.hit(f"{bucket}-told", key, 1, WINDOW) is None:
            await self._host.audit_log(
                AuditEvent(event_type="rate_limited", service="idp", outcome="failure", detail=f"{bucket}: {detail}")
            )
        raise RateLimited(f"too many attempts; try again in {wait} seconds", headers={"Retry-After": str(wait)})


def _key(username: str) -> str:
    """One key for all spellings of a name, of a fixed size."""
    name = unicodedata.normalize("NFKC", username.strip()).partition("@")[0].casefold()
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
