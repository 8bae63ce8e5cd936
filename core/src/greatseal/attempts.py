"""How often callers may bring a Kerberos ticket to an endpoint where nobody signs in: refused ones count for the address, accepted ones for
their owner, since a whole office may come from one address."""

from greatseal.api.http import Call
from greatseal.api.identity import Continue
from greatseal.api.kerberos import Absent, Accepted, Negotiator
from greatseal.api.messages import plural
from greatseal.api.problems import RateLimited, Unavailable
from greatseal.host import Limits
from greatseal.net.addresses import source_of

__all__ = ["TicketLimits"]

WINDOW = 300.0
"""Seconds."""
OF_OWNER = 10
"""How many accepted tickets there may be for each refused one: a host asks for every certificate that it has."""


class TicketLimits:
    """Of one endpoint. ``most`` is the number of refused tickets of an address in :data:`WINDOW`; 0 is off."""

    def __init__(self, limits: Limits, endpoint: str, most: int) -> None:
        self._limits = limits
        self._endpoint = endpoint
        self._most = most

    async def accept(self, negotiator: Negotiator, call: Call) -> Accepted | Continue | Absent:
        """One leg, as :meth:`Negotiator.accept`. Raises RateLimited too."""
        bucket, key = f"{self._endpoint}-address", source_of(call.remote)
        self._hit(bucket, key, self._most)
        try:
            found = await negotiator.accept(call)
        except Unavailable:
            self._limits.undo(bucket, key)
            raise
        self._limits.undo(bucket, key)
        if isinstance(found, Accepted):
            self.count(found.principal)
        return found

    def count(self, principal: str) -> None:
        """One more request of somebody who is proven. Raises RateLimited."""
        self._hit(f"{self._endpoint}-owner", principal, OF_OWNER * self._most)

    def _hit(self, bucket: str, key: str, most: int) -> None:
        wait = self._limits.hit(bucket, key, most, WINDOW)
        if wait is not None:
            raise RateLimited(
                plural("too many requests; try again in one second", "too many requests; try again in %(count)d seconds", wait),
                headers={"Retry-After": str(wait)},
            )
