"""How often somebody may try to sign in."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from greatseal.api.audit import AuditEvent
from greatseal.api.messages import plural
from greatseal.api.problems import RateLimited, Unavailable
from greatseal.host import Host
from greatseal.net.addresses import source_of
from greatseal_idp.settings import IdpServer

WINDOW = 300.0
"""Seconds of every window here."""
FAILURES_OF_USER = 5
REQUESTS = 10
"""How many authorization requests may wait for each sign-in that an address may try: every one is a row for hours."""


class LoginLimits:
    """Attempts per address, or per owner of a ticket; failures per user name: those from places that the person has used and those of
    strangers apart.

    Whether the user exists plays no part.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._of_address = host.settings(IdpServer).auth_rate_limit
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def address(self, remote: str) -> None:
        """Count an attempt from an address. Raises RateLimited."""
        await self._count("auth-address", source_of(remote), self._of_address, f"address={remote}")

    @asynccontextmanager
    async def user(self, key: str, *, known: bool) -> AsyncIterator[Callable[[], None]]:
        """One attempt for a user name, from a place that is ``known`` to be theirs or not. Raises RateLimited.

        It counts as a failure unless the function that it gives is called, or nobody could tell. Attempts of one kind take turns: parallel
        guesses are counted like others, and parallel sign-ins of one person all succeed. A success takes back nothing but itself: neither
        who has the password and guesses the code, nor who has an account of that name in another realm, makes room for more guesses.
        """
        bucket = "auth-user-known" if known else "auth-user"
        turn = self._turns.setdefault((bucket, key), asyncio.Lock())
        async with turn:
            await self._count(bucket, key, FAILURES_OF_USER, "failures of one user name")
            try:
                yield lambda: self._host.limits.undo(bucket, key)
            except Unavailable:
                self._host.limits.undo(bucket, key)
                raise

    async def ticket(self, remote: str, subject: str) -> None:
        """A Kerberos ticket was accepted: the attempt counts for its owner instead of the address. Raises RateLimited.

        A ticket cannot be guessed at, and a whole office may come from one address in the morning.
        """
        self._host.limits.undo("auth-address", source_of(remote))
        await self._count("auth-ticket", subject, self._of_address, f"{subject} address={remote}")

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
        raise RateLimited(
            plural("too many attempts; try again in one second", "too many attempts; try again in %(count)d seconds", wait),
            headers={"Retry-After": str(wait)},
        )
