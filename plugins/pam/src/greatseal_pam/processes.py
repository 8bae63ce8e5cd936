"""The end of a process with all that it started. The standard library alone."""

import os
import signal
from contextlib import suppress
from pathlib import Path


def end(leader: int) -> None:
    """Kill the group of a leader that was not reaped yet, and what it started that left the group, as the scripts of pam_exec do."""
    # The group last: whoever calls this may be in it.
    for pid in _descendants(leader):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in children.read_text().split()]
    return found + [one for child in found for one in _descendants(child)]
