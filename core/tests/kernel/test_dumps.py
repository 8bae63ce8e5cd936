"""Nothing takes an image of the memory."""

import subprocess
import sys

PROGRAM = """
import ctypes, resource, subprocess
from greatseal.kernel.dumps import forbid_dumps
forbid_dumps()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE), flush=True)
subprocess.run(["sh", "-c", "ulimit -Hc"])
"""


def test_a_process_is_not_dumpable_and_its_programs_write_no_core_file():
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)

    assert done.stdout.splitlines() == ["0 (0, 0)", "0"]  # prctl(2): PR_GET_DUMPABLE is 3
