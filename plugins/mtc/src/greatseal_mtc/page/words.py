"""What the page says in the words of its language."""

from datetime import UTC, datetime

from greatseal.api.messages import Message, Text
from greatseal_mtc.merkle import Range
from greatseal_mtc.page.look_up import Found

__all__ = ["STATUSES", "date_of", "entries", "number", "verdict"]

STATUSES = {
    "signing": Message("not issued yet"),
    "issued": Message("issued"),
    "unknown": Message("given up, counts as revoked"),
    "revoked": Message("revoked"),
}
"""Of a certificate."""


def number(value: int) -> str:
    """A number in groups of three digits, as every language reads it (ISO 80000-1)."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def date_of(seconds: int) -> str:
    """A day in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def entries(one: Range) -> Message:
    """A range of entries."""
    start, end = one
    if end - start == 1:
        return Message("entry %(index)s", {"index": number(start)})
    return Message("%(first)s to %(last)s", {"first": number(start), "last": number(end - 1)})


def verdict(found: Found) -> tuple[Text, Text]:
    """What was found of a certificate, and what follows."""
    if found.entry is None:
        return (
            Message("This certificate is of this CA, and not in the log"),
            Message("It was issued before there was a log, or could not be logged."),
        )
    if found.entry.index is None:
        return (
            Message("This certificate is not in the log yet"),
            Message("It waits for its place, which it gets within seconds. Look again."),
        )
    if found.way is None and found.is_closed:
        return (
            Message("This certificate is in the log"),
            Message("No checkpoint that is kept has it, and its log is not written any more."),
        )
    if found.way is None:
        return (
            Message("This certificate is in the log"),
            Message("The next checkpoint will have it. From then on this page shows the proof."),
        )
    return (
        Message("This certificate is in the log"),
        Message("Its hash leads to the root that the log signed in its last checkpoint. This was computed just now."),
    )
