"""How often codes may be guessed, and how many requests of nobody in particular may wait."""

from greatseal.api.audit import AuditEvent
from greatseal.api.messages import plural
from greatseal.api.problems import RateLimited
from greatseal.host import Host
from greatseal.net.addresses import source_of

WINDOW = 300.0
"""Seconds of every window here."""
WRONG_OF_SESSION, WRONG_OF_ADDRESS = 5, 20
"""Wrong codes in a window (RFC 8628 s5.1)."""
REQUESTS = 10
"""Requests of clients that may be anybody for each sign-in that their address may try: each is a row for minutes."""


class DeviceLimits:
    """Counts in memory. ``sign_ins`` is how many an address may try in 300 s, 0 for any number."""

    def __init__(self, host: Host, sign_ins: int) -> None:
        self._host = host
        self._requests = REQUESTS * sign_ins

    async def attempt(self, session_id: str, remote: str) -> None:
        """Count a code that was entered as a wrong one, until :meth:`right` says otherwise. Raises RateLimited."""
        source = source_of(remote)
        await self._count("device-address", source, WRONG_OF_ADDRESS, f"address={remote}")
        try:
            await self._count("device-session", session_id, WRONG_OF_SESSION, f"sid={session_id}")
        except RateLimited:
            self._host.limits.undo("device-address", source)
            raise

    def right(self, session_id: str, remote: str) -> None:
        """The code that was counted last is there."""
        self._host.limits.undo("device-address", source_of(remote))
        self._host.limits.undo("device-session", session_id)

    async def request(self, remote: str) -> None:
        """Count a request that is stored for a client that has proven nothing. Raises RateLimited."""
        await self._count("device-request", source_of(remote), self._requests, f"address={remote}")

    async def _count(self, bucket: str, key: str, limit: int, detail: str) -> None:
        wait = self._host.limits.hit(bucket, key, limit, WINDOW)
        if wait is None:
            return
        # One event for each window: refusals must stay cheaper than attempts.
        if self._host.limits.hit(f"{bucket}-told", key, 1, WINDOW) is None:
            await self._host.audit_log(
                AuditEvent(event_type="rate_limited", service="idp", outcome="failure", detail=f"{bucket}: {detail}")
            )
        words = plural("too many attempts; try again in one second", "too many attempts; try again in %(count)d seconds", wait)
        raise RateLimited(words, headers={"Retry-After": str(wait)})
