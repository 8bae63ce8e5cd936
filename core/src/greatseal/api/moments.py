"""Moments are whole microseconds since 1970 UTC, everywhere but in the JSON of OAuth, which counts seconds."""

__all__ = ["SECOND", "seconds"]

SECOND = 1_000_000
"""A second in microseconds."""


def seconds(moment: int) -> int:
    """The moment as a Unix timestamp (RFC 7519 s2, NumericDate)."""
    return moment // SECOND
