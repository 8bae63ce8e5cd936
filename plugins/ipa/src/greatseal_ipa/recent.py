"""Answers that are used again for a stated time."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

MOST = 10_000
"""Answers that are kept."""


class _Answer(msgspec.Struct, Generic[T]):
    at: float
    value: T


class Recent(Generic[T]):
    """A bounded map by key. An answer is as old as the question: its age counts from when it was asked for."""

    def __init__(self, seconds: float, monotonic: Callable[[], float], *, most: int = MOST) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._most = most
        self._answers: OrderedDict[str, _Answer[T]] = OrderedDict()
        self._asked: dict[str, asyncio.Task[T]] = {}

    async def get(self, key: str, ask: Callable[[], Awaitable[T]], *, fresh: bool = False) -> T:
        """The answer that is known, else that of ``ask``; who comes while it is asked waits for the same. ``fresh`` asks in any case."""
        found = self._answers.get(key)
        if not fresh and found is not None and self._monotonic() - found.at < self._seconds:
            return found.value
        task = None if fresh else self._asked.get(key)
        if task is None:
            task = asyncio.ensure_future(self._ask(key, ask))
            self._asked[key] = task
            task.add_done_callback(lambda done: self._done(key, done))
        # One who goes away takes the answer from nobody else.
        return await asyncio.shield(task)

    def forget(self, key: str) -> None:
        """It has changed."""
        self._answers.pop(key, None)
        self._asked.pop(key, None)

    async def _ask(self, key: str, ask: Callable[[], Awaitable[T]]) -> T:
        at = self._monotonic()
        value = await ask()
        if self._asked.get(key) is asyncio.current_task():
            self._answers[key] = _Answer(at, value)
            self._answers.move_to_end(key)
            if len(self._answers) > self._most:
                self._answers.popitem(last=False)
        return value

    def _done(self, key: str, task: asyncio.Task[T]) -> None:
        if self._asked.get(key) is task:
            del self._asked[key]
        if not task.cancelled():
            task.exception()  # whoever waited was told; when nobody did, nobody has to be
