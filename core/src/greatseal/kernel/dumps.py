"""Keys stay in memory: a crash leaves no image of it, and no other process of the same user can look into it."""

import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4


def forbid_dumps() -> None:
    """For this process; programs that it starts inherit the limit alone.

    The limit keeps a core file from being written. A handler that the system pipes dumps to (systemd-coredump, apport) gets them whatever
    the limit says, and none of a process that is not dumpable. That also closes ``/proc/<pid>/mem`` and ``ptrace`` to everybody but root,
    and so to a debugger.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
