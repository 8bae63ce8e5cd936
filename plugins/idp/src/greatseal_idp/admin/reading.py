"""What admin requests have in common beside the pages of lists: moments as Unix seconds, a body that may be absent."""

from typing import TypeVar

from greatseal.api.http import Call

T = TypeVar("T")

SECOND = 1_000_000


def seconds(moment: int) -> int:
    """Microseconds as a Unix timestamp."""
    return moment // SECOND


async def optional_body(call: Call, kind: type[T]) -> T:
    """The body as ``kind``; without one, ``kind()``."""
    return await call.body(kind) if await call.raw() else kind()
