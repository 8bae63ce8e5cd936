"""Moments are whole microseconds since 1970 UTC, everywhere but in the JSON of OAuth, which counts seconds."""

from datetime import UTC, datetime

__all__ = ["SECOND", "day_and_time", "seconds"]

SECOND = 1_000_000
"""A second in microseconds."""


def seconds(moment: int) -> int:
    """The moment as a Unix timestamp (RFC 7519 s2, NumericDate)."""
    return moment // SECOND


def day_and_time(moment: int) -> str:
    """The moment for people."""
    return datetime.fromtimestamp(moment / SECOND, UTC).strftime("%-d %B %Y, %H:%M UTC")
