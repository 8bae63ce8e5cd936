"""Bounded thread pools, one for each kind of slow work."""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from greatseal.api.messages import Message
from greatseal.api.problems import Unavailable

P = ParamSpec("P")
T = TypeVar("T")

MAX_WAITING = 256
"""Calls that may wait in one pool; further ones are refused."""


class BlockingPools:
    """Pools by name, made at their first use (:class:`greatseal.host.Blocking`).

    ``threads`` bounds each pool; by default it is the number of processors, since the work computes. The threads are daemons: work that
    hangs in a foreign library does not keep the process from ending.
    """

    def __init__(self, *, threads: int | None = None, max_waiting: int = MAX_WAITING) -> None:
        self._threads = threads or os.cpu_count() or 1
        self._max_waiting = max_waiting
        self._pools: dict[str, _Pool] = {}
        self._closed = False

    async def run(self, pool: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``fn`` in a thread of ``pool``, with the caller's context variables. Raises Unavailable when its queue is full.

        A caller that is cancelled while it waits takes its work away; what already runs ends in its own time.
        """
        if self._closed:
            raise Unavailable(Message("the service is stopping"))
        workers = self._pools.get(pool)
        if workers is None:
            workers = self._pools[pool] = _Pool(pool, self._threads, self._max_waiting)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        workers.submit(_Call(loop, future, partial(contextvars.copy_context().run, fn, *args, **kwargs)))
        return await future

    def close(self) -> None:
        """Refuse new work, cancel what waits, let threads end after what they do. Does not wait."""
        self._closed = True
        for pool in self._pools.values():
            pool.close()


class _Call:
    def __init__(self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", fn: Callable[[], Any]) -> None:
        self.loop = loop
        self.future = future
        self.fn = fn

    def run(self) -> None:
        # Reading done() from this thread is a hint alone; settle() decides on the loop.
        if self.future.done():
            return
        try:
            settle = partial(self._settle, self.future.set_result, self.fn())
        except StopIteration as error:
            # A future cannot carry it; a coroutine would turn it into this as well.
            settle = partial(self._settle, self.future.set_exception, RuntimeError(f"{self.fn!r} raised {error!r}"))
        except BaseException as error:  # noqa: BLE001  everything goes to the caller
            settle = partial(self._settle, self.future.set_exception, error)
        self._tell(settle)

    def cancel(self) -> None:
        self._tell(self.future.cancel)

    def _tell(self, callback: Callable[[], object]) -> None:
        # A loop that was closed has no caller left to tell.
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(callback)

    def _settle(self, with_: Callable[[Any], None], value: object) -> None:
        if not self.future.done():
            with_(value)


class _Pool:
    def __init__(self, name: str, threads: int, max_waiting: int) -> None:
        self.name = name
        self.threads = threads
        self.max_waiting = max_waiting
        self.started = 0
        self.closed = False
        self.waiting: SimpleQueue[_Call | None] = SimpleQueue()

    def submit(self, call: _Call) -> None:
        if self.waiting.qsize() >= self.max_waiting:
            raise Unavailable(
                Message("too much of this is going on now; try again"), cause=f"pool {self.name}: {self.max_waiting} calls wait"
            )
        if self.started < self.threads:
            self._grow()
        self.waiting.put(call)

    def _grow(self) -> None:
        try:
            threading.Thread(target=self._work, name=f"{self.name}-{self.started + 1}", daemon=True).start()
        except RuntimeError as error:
            if not self.started:
                raise Unavailable(Message("there is no room for this now; try again"), cause=f"pool {self.name}: {error}") from error
        else:
            self.started += 1

    def close(self) -> None:
        self.closed = True
        with suppress(Empty):
            while call := self.waiting.get_nowait():
                call.cancel()
        for _ in range(self.started):
            self.waiting.put(None)

    def _work(self) -> None:
        while (call := self.waiting.get()) is not None:
            if self.closed:
                call.cancel()
            else:
                call.run()
            del call  # an idle thread keeps nothing of its last caller alive
