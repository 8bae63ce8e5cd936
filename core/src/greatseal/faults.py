"""Fault points: places where tests kill, fail or hold the process. Nothing happens without GREATSEAL_FAULTS=1.

GREATSEAL_FAULT names what to do: ``point:action[:n]`` on the n-th hit (from 1), ``point:action:n-m`` on each from n to m; ``kill``
ends the process at once, ``enospc`` and ``eio`` raise the OSError of a full or broken disk, ``hold`` blocks until the file
GREATSEAL_FAULT_RELEASE exists.
"""

import errno
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

__all__ = ["active", "arm", "hits", "passed", "point"]

active = os.environ.get("GREATSEAL_FAULTS") == "1"
"""Read when the module is imported."""

_hits: Counter[str] = Counter()
_lock = threading.Lock()
_armed: dict[str, tuple[str, range]] = {}


def arm(plan: str) -> None:
    """Add a plan, ``point:action[:n[-m]]``; hits count from now."""
    name, action, *rest = plan.rsplit(":", 2) if plan.count(":") == 2 else plan.rsplit(":", 1)
    first, _, last = (rest[0] if rest else "1").partition("-")
    with _lock:
        _armed[name] = (action, range(_hits[name] + int(first), _hits[name] + int(last or first) + 1))


def hits() -> dict[str, int]:
    """How often each point was passed."""
    with _lock:
        return dict(_hits)


def passed(name: str) -> None:
    """Count the hit, and do what is planned for it."""
    with _lock:
        _hits[name] += 1
        action, when = _armed.get(name, ("", range(0)))
        if _hits[name] not in when:
            return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action in {"enospc", "eio"}:
        number = errno.ENOSPC if action == "enospc" else errno.EIO
        raise OSError(number, os.strerror(number), name)
    elif action == "hold":
        release = Path(os.environ["GREATSEAL_FAULT_RELEASE"])
        while not release.exists():
            time.sleep(0.005)


def _nothing(_name: str) -> None:
    """What a point does in a service."""


point: Callable[[str], None] = passed if active else _nothing
"""A place where a test may kill the process. Chosen at import, so that hot paths ask nothing."""

if active and os.environ.get("GREATSEAL_FAULT"):
    for _plan in os.environ["GREATSEAL_FAULT"].split(","):
        arm(_plan)
