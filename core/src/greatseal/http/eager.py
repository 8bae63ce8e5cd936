"""Running a coroutine up to its first wait without a task: most requests never wait, and a task costs two turns of the event loop.

From Python 3.12 on asyncio has eager tasks; this is the part of them that a server needs, on every version that we support. It uses
what asyncio documents for own kinds of tasks (``_enter_task`` and ``_leave_task``).
"""

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from typing import Any


def begin(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None] | None":
    """Run ``work`` in a context of its own until it waits. What is left of it then is the task returned; None when nothing is left.

    In a callback of ``loop``; inside of another task it is just a task. An exception before the first wait is raised here.
    """
    if asyncio.current_task(loop) is not None:
        return loop.create_task(work)
    context = copy_context()
    first = _FirstStep()
    _enter_task(loop, first)  # type: ignore[arg-type]  # any object that answers as a task does
    try:
        waited = context.run(work.send, None)
    except StopIteration:
        return None
    finally:
        _leave_task(loop, first)  # type: ignore[arg-type]  # as above
    if waited is not None:
        # A wait leaves this mark for its task, which comes a turn later; until then somebody else may wait for the same future.
        waited._asyncio_future_blocking = False  # noqa: SLF001  # the protocol between futures and tasks
    first.task = loop.create_task(_Rest(work, waited), context=context)
    if first.cancelled_early:
        first.task.cancel()
    return first.task


class _FirstStep:
    """What ``asyncio.current_task()`` is until the first wait. Who keeps it, as ``asyncio.timeout`` does, speaks to the real task later."""

    __slots__ = ("cancelled_early", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.cancelled_early = False

    def cancel(self, msg: Any = None) -> bool:
        if self.task is not None:
            return self.task.cancel(msg)
        self.cancelled_early = True
        return True

    def cancelling(self) -> int:
        return int(self.cancelled_early) if self.task is None else self.task.cancelling()

    def uncancel(self) -> int:
        if self.task is not None:
            return self.task.uncancel()
        self.cancelled_early = False
        return 0

    def __getattr__(self, name: str) -> Any:
        if self.task is None:
            raise AttributeError(f"{name}: the task has not begun to wait")
        return getattr(self.task, name)


class _Rest(Coroutine[Any, Any, None]):
    """``work``, which waits for ``waited``, to its end."""

    __slots__ = ("waited", "work")

    def __init__(self, work: Coroutine[Any, Any, None], waited: Any) -> None:
        self.work = work
        self.waited = [waited]

    def send(self, value: Any) -> Any:
        if not self.waited:
            return self.work.send(value)
        waited = self.waited.pop()
        if waited is not None:
            waited._asyncio_future_blocking = True  # noqa: SLF001  # as in begin
        return waited

    def throw(self, *error: Any) -> Any:
        self.waited.clear()
        return self.work.throw(*error)

    def close(self) -> None:
        self.work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self.work.__await__()
