"""Other plugins ask servers of their own: who is down is for the operator alone."""

from collections.abc import Awaitable
from typing import TypeVar

from greatseal.api.problems import BACKEND_DOWN, Outbound, Unavailable

T = TypeVar("T")


async def reached(work: Awaitable[T]) -> T:
    """What a component of another plugin answers. A server of its own that is down is Unavailable, and only the log names it."""
    try:
        return await work
    except Outbound as problem:
        raise problem.as_outage() from problem
    except OSError as error:
        raise Unavailable(BACKEND_DOWN, cause=f"{type(error).__name__}: {error}") from error
