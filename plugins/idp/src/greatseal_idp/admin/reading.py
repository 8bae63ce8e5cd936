"""What admin requests have in common beside the pages of lists: moments as Unix seconds, a body that may be absent."""

from typing import TypeVar

from greatseal.api.http import Call

T = TypeVar("T")

SECOND = 1_000_000


def is_strict(call: Call) -> bool:
    """Whether the caller wants a refusal instead of a guess (RFC 7240 s4.4)."""
    preferences = call.headers.get("Prefer", "").lower().replace('"', "").split(",")
    return any(one.partition(";")[0].replace(" ", "") == "handling=strict" for one in preferences)


def seconds(moment: int) -> int:
    """Microseconds as a Unix timestamp."""
    return moment // SECOND


async def optional_body(call: Call, kind: type[T]) -> T:
    """The body as ``kind``; without one, ``kind()``."""
    return await call.body(kind) if await call.raw() else kind()
