"""A process that is killed at one of its lines: what a power cut of the program leaves is looked at by the next process."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

__all__ = ["KILLED", "lines_of", "run_apart"]

KILLED = -signal.SIGKILL
"""What :func:`run_apart` returns of a process that was killed."""

Work = Callable[[], Coroutine[Any, Any, None]]


def run_apart(work: Work, *, file: str = "", kill_at: int | None = None) -> int:
    """Run ``work`` in a forked process; its exit code, 0 when it came to its end, 1 when it raised.

    With ``kill_at`` the process is killed before it executes the line of that number, counted from 1 over all threads, of the source
    ``file``. For tests that are not on an event loop.
    """
    child = os.fork()
    if child == 0:
        os._exit(_run(work, file, kill_at))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def lines_of(work: Work, *, file: str) -> int:
    """How many lines of the source ``file`` a whole run executes; the run must succeed."""
    reader, writer = os.pipe()

    async def counted() -> None:
        count = _trace(file, None)
        await work()
        os.write(writer, str(count()).encode())

    try:
        assert run_apart(counted) == 0, "the work failed by itself"
        return int(os.read(reader, 32))
    finally:
        os.close(reader)
        os.close(writer)


def _run(work: Work, file: str, kill_at: int | None) -> int:
    try:
        if kill_at is not None:
            _trace(file, kill_at)
        asyncio.run(work())
    except BaseException:  # noqa: BLE001  # the parent sees the exit code
        return 1
    return 0


def _trace(file: str, kill_at: int | None) -> Callable[[], int]:
    lock, passed = threading.Lock(), 0

    def line(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal passed
        if event == "line":
            with lock:
                passed += 1
                if passed == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
        return line

    def call(frame: FrameType, _event: str, _argument: object) -> Any:
        return line if frame.f_code.co_filename == file else None

    threading.settrace(call)
    sys.settrace(call)
    return lambda: passed
