"""Moments are whole microseconds since 1970 UTC, everywhere but in the JSON of OAuth, which counts seconds."""

from datetime import UTC, datetime

from greatseal.api.messages import Message, Text

__all__ = ["SECOND", "day_and_time", "seconds"]

SECOND = 1_000_000
"""A second in microseconds."""
_MONTHS = (
    Message("January"), Message("February"), Message("March"), Message("April"), Message("May"), Message("June"),
    Message("July"), Message("August"), Message("September"), Message("October"), Message("November"), Message("December"),
)  # fmt: skip


def seconds(moment: int) -> int:
    """The moment as a Unix timestamp (RFC 7519 s2, NumericDate)."""
    return moment // SECOND


def day_and_time(moment: int) -> Message:
    """The moment for people."""
    at = datetime.fromtimestamp(moment / SECOND, UTC)
    values: dict[str, Text | int] = {"day": at.day, "month": _MONTHS[at.month - 1], "year": at.year, "hour": at.hour, "minute": at.minute}
    return Message("%(day)d %(month)s %(year)d, %(hour)02d:%(minute)02d UTC", values)
