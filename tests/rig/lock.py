"""Pin every dependency in pyproject.toml: `python3 tests/rig/lock.py .uv/bin/uv`.

The pins are `[tool.uv] constraint-dependencies`: names and versions without the addresses that a lock file records.
"""

import re
import subprocess
import sys
from pathlib import Path

PYPROJECT = Path("pyproject.toml")
BLOCK = re.compile(r"^constraint-dependencies = \[\n(?:.*\n)*?\]\n", re.MULTILINE)
EXPORT = [
    "export",
    "--quiet",
    "--all-packages",
    "--all-groups",
    "--all-extras",
    "--no-hashes",
    "--no-emit-workspace",
    "--no-annotate",
    "--no-header",
]


def main(uv: str) -> None:
    """Resolve without the old pins, then write what was found. The file is as it was when anything fails."""
    before = PYPROJECT.read_text()
    unpinned = BLOCK.sub("", before)
    try:
        PYPROJECT.write_text(unpinned)
        subprocess.run([uv, "lock", "--upgrade"], check=True)
        exported = subprocess.run([uv, *EXPORT], check=True, capture_output=True, text=True)
    except BaseException:
        PYPROJECT.write_text(before)
        raise
    pins = [line.split(" \\")[0].strip().replace('"', "'") for line in exported.stdout.splitlines() if "==" in line]
    block = "constraint-dependencies = [\n" + "".join(f'    "{pin}",\n' for pin in pins) + "]\n"
    PYPROJECT.write_text(unpinned.replace("[tool.uv]\n", f"[tool.uv]\n{block}", 1))
    subprocess.run([uv, "lock", "--quiet"], check=True)


main(sys.argv[1])
