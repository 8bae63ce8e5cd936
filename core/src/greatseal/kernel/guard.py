"""Around every component that may wait: a deadline, and a refusal in place of an error of the network.

A call that answers without waiting costs a function call more: neither a timer nor a task is made for it.
"""

import asyncio
import dis
import inspect
import math
import time
import types
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, TypeVar

from greatseal.api.problems import BACKEND_DOWN, Outbound, Unavailable
from greatseal.kernel.shapes import returned_types

__all__ = ["Waited", "guard"]

T = TypeVar("T")
_DONE = object()
Waited = Callable[[str, float], None]
"""Told of each call that waited: ``returned``, ``refused`` or ``late``, and the seconds."""


def guard(
    component: object, contract: type[Any], *, seconds: float, failure: type[Unavailable], named: bool, name: str, waited: Waited
) -> str | None:
    """Guard each async method of the contract on this one object; what is wrong with the component, if anything.

    A component may have a ``deadline`` of its own. Whoever runs out of it, and an OSError, are ``failure``, its cause for the operator;
    so is an Outbound, unless the caller may be told which server it is: ``named``.
    """
    limit = getattr(component, "deadline", seconds)
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < math.inf:
        return f"{name}: its deadline is {limit!r}; it is a number of seconds above 0"
    for method, default in inspect.getmembers(contract, inspect.iscoroutinefunction):
        found = getattr(component, method)
        if not _awaits(default) and getattr(found, "__func__", None) is default:
            continue  # the contract's own, which asks nobody
        found = getattr(found, "guarded", found)  # of a kernel before this one
        if not inspect.iscoroutinefunction(found):
            return f"{name}: {method} is no async function; write async def"
        try:
            setattr(component, method, _guarded(found, default, f"{name}: {method}", limit, failure, named=named, waited=waited))
        except AttributeError:
            return f"{name}: a deadline cannot be put around {method}; leave __slots__ and frozen out of its class"
    return None


def _awaits(fn: Callable[..., object]) -> bool:
    return any(step.opname == "SEND" for step in dis.get_instructions(fn))


def _guarded(
    fn: Callable[..., Coroutine[Any, Any, T]],
    default: Callable[..., object],
    name: str,
    limit: float,
    failure: type[Unavailable],
    *,
    named: bool,
    waited: Waited,
) -> Callable[..., Coroutine[Any, Any, T]]:
    kinds, said = returned_types(default) or ((object,), "")

    @wraps(fn)
    async def run(*args: Any, **kwargs: Any) -> T:
        try:
            answer: list[T] = []
            work = _into(answer, fn(*args, **kwargs))
            first = next(work, _DONE)
            if first is not _DONE:
                await _limited(work, first, limit, waited)
            if not isinstance(answer[0], kinds):
                raise TypeError(f"{name} returned {answer[0]!r:.60}; what it returns is {said}")
            return answer[0]
        except OSError as error:
            late = isinstance(error, _Late)
            cause = f"no answer in {limit:g} s" if late else f"{type(error).__name__}: {error}"
            raise failure(BACKEND_DOWN, cause=f"{name}: {cause}") from (None if late else error)
        except Outbound as problem:
            if named:
                raise
            raise failure(BACKEND_DOWN, cause=f"{name}: {type(problem).__name__}: {problem.detail}") from problem

    run.guarded = fn  # type: ignore[attr-defined]
    return run


class _Late(OSError):
    """The deadline, and no timeout of the component's own."""


@types.coroutine
def _into(answer: list[T], work: Coroutine[Any, Any, T]) -> Generator[Any, Any, None]:
    """``work``, with its answer in a list: a StopIteration with a value would cost more than all else here."""
    answer.append((yield from work))


async def _limited(work: Generator[Any, Any, None], first: Any, limit: float, waited: Waited) -> None:
    """The rest of ``work``, which waits for ``first``, within the limit."""
    began, outcome = time.perf_counter(), "refused"
    try:
        async with asyncio.timeout(limit) as deadline:
            await _rest(work, first)
            outcome = "returned"
    except TimeoutError:
        if not deadline.expired():
            raise
        outcome = "late"
        raise _Late from None
    finally:
        waited(outcome, time.perf_counter() - began)


@types.coroutine
def _rest(work: Generator[Any, Any, None], first: Any) -> Generator[Any, Any, None]:
    """``work``, which waits for ``first``, to its end."""
    step = first
    try:
        while True:
            try:
                value = yield step
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001  # a cancellation too is for whoever waits
                step = work.throw(error)
            else:
                step = work.send(value)
    except StopIteration:
        return
