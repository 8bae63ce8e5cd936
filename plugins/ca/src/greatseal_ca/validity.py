"""When a certificate begins and ends (RFC 5280 s4.1.2.5; both ends are inclusive). Moments are microseconds, on whole seconds."""

from datetime import UTC, datetime

import msgspec

from greatseal.api.issuance import Bounds
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, Unavailable

DAY = 86_400 * SECOND

BACKDATE = 3_600 * SECOND
"""Certificates begin an hour ago: clocks of relying parties differ."""
GRACE = 300 * SECOND
"""How far in the past a wished notBefore may be when an order is made."""
OLDEST = 2 * DAY
"""How far in the past a certificate may begin at all (BR 7.1.2.7: 48 hours): an order may wait a day before it is finalized."""
RENEWAL_SECONDS = 3600
"""When clients of a CA that has ended are asked to come again: a person has to renew it."""

# BR 6.3.2 (ballot SC-081v3): from this day on, at most so many days.
_CAPS = ((datetime(2029, 3, 15, tzinfo=UTC), 47), (datetime(2027, 3, 15, tzinfo=UTC), 100), (datetime(2026, 3, 15, tzinfo=UTC), 200))
_CAP_BEFORE = 398


class Window(msgspec.Struct, frozen=True):
    """The lifetimes that one CA gives within the bounds of its issuer; ``capped`` to those of public CAs."""

    bounds: Bounds
    capped: bool

    def days(self, validity_days: int, at: int) -> int:
        """The days of a profile, cut to what public CAs may give where that is asked for."""
        return min(validity_days, public_cap(at)) if self.capped else validity_days

    def choose(self, validity_days: int, not_before: int | None, not_after: int | None, now: int) -> tuple[int, int]:
        """The notBefore and notAfter of a certificate made now.

        Raises BadRequest where a wish cannot be granted, Unavailable where none can: the CA has ended.
        """
        self._check_own(now)
        begin = self._begin(validity_days, not_after, now) if not_before is None else _whole(not_before)
        if not_before is not None and begin < now - OLDEST:
            raise BadRequest("notBefore of the order is more than 48 hours ago")
        longest = begin + self.days(validity_days, begin) * DAY - SECOND
        end = min(longest, self.bounds.end) if not_after is None else _whole(not_after)
        self._check(begin, end, longest, now)
        return begin, end

    def _begin(self, validity_days: int, not_after: int | None, now: int) -> int:
        """Backdated, as far as the issuer and a wished end that uses the whole lifetime allow."""
        begin = max(_whole(now - BACKDATE), self.bounds.begin)
        if not_after is None:
            return begin
        earliest = _whole(not_after) - self.days(validity_days, begin) * DAY
        return max(begin, min(earliest, _whole(now)))

    def check(self, validity_days: int, not_before: int | None, not_after: int | None, now: int) -> None:
        """Whether a new order's wishes can be granted. Raises as :meth:`choose` does."""
        self._check_own(now)
        if not_before is not None and not_before < now - GRACE:
            raise BadRequest("notBefore is in the past")
        self.choose(validity_days, not_before, not_after, now)

    def _check_own(self, now: int) -> None:
        if self.bounds.end <= now:
            ended = as_datetime(self.bounds.end)
            cause = f"a certificate of the CA's chain ended on {ended:%Y-%m-%d}; renew it"
            raise Unavailable("the CA cannot issue certificates now", cause=cause, retry_after=RENEWAL_SECONDS)

    def _check(self, begin: int, end: int, longest: int, now: int) -> None:
        if end <= max(begin, now):
            raise BadRequest("notAfter is not after notBefore and now")
        # A wish says the moment of the end, where the longest lifetime says its last second.
        if end > longest + SECOND:
            raise BadRequest(f"the certificate would live longer than the {(longest + SECOND - begin) // DAY} days of the profile")
        if begin < self.bounds.begin or end > self.bounds.end:
            raise BadRequest("the certificate would not lie within the lifetime of its issuer")


def public_cap(at: int) -> int:
    """The longest lifetime in days that a public CA may give to a certificate that begins at ``at`` (BR 6.3.2)."""
    return next((days for since, days in _CAPS if at >= moment_of(since)), _CAP_BEFORE)


def moment_of(when: datetime) -> int:
    """Microseconds of an aware datetime."""
    return int(when.timestamp()) * SECOND


def as_datetime(moment: int) -> datetime:
    """A moment in the form that certificate builders take: UTC, naive."""
    return datetime.fromtimestamp(moment // SECOND, UTC).replace(tzinfo=None)


def _whole(moment: int) -> int:
    return moment - moment % SECOND
