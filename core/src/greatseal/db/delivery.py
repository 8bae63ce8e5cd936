"""From a commit back to the callers on the event loop."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog

from greatseal.api.store import SCAN
from greatseal.db.transaction import Writing

OnChanged = Callable[[Sequence[tuple[str, str]]], None]


class Write:
    """A transaction function on its way, and then its outcome."""

    __slots__ = ("args", "code", "error", "fn", "future", "kwargs", "result", "scan", "settled", "tx")

    def __init__(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], future: "asyncio.Future[Any]") -> None:
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.future = future
        self.code = code_of(fn)
        self.scan: bool = getattr(fn, SCAN, False)
        self.settled = False
        """Its outcome is on the disk."""
        self.result: Any = None
        self.error: BaseException | None = None
        self.tx: Writing | None = None
        """What the commit has to tell; None when it failed."""

    def succeed(self, result: Any, tx: Writing) -> None:
        self.result, self.error, self.tx = result, None, tx

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.result, self.tx = None, None


def code_of(fn: Callable[..., Any]) -> object:
    """What the function is told by: a lambda, a bound method or a partial is made anew for every call."""
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(getattr(fn, "__wrapped__", fn), "__code__", fn)


class Delivery:
    """Tells what changed, runs what waits for the commit, then lets the callers go on. Everything on the event loop."""

    def __init__(self, on_changed: OnChanged, log: structlog.stdlib.BoundLogger) -> None:
        self._on_changed = on_changed
        self._log = log

    def deliver(self, calls: Sequence[Write]) -> None:
        committed = [call.tx for call in calls if call.tx is not None]
        self.tell(committed)
        for call in calls:
            if call.future.done():
                continue
            if call.error is None:
                call.future.set_result(call.result)
            else:
                call.future.set_exception(call.error)

    def tell(self, committed: Sequence[Writing]) -> None:
        """Caches first: a function that runs after the commit may look into them."""
        pairs = [pair for tx in committed for pair in tx.pairs]
        if pairs:
            self._guarded(lambda: self._on_changed(pairs))
        for tx in committed:
            for fn in tx.after:
                self._guarded(fn)

    def _guarded(self, fn: Callable[[], object]) -> None:
        try:
            fn()
        except Exception:  # noqa: BLE001 - it is committed: the callers must hear so
            self._log.exception("a function after a commit failed")
