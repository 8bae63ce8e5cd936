"""Programs that ask for a person with a browser: settings go in as a line of JSON, ``open`` and ``done`` come out as such."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rig.provider import Person


def conversation(command: Sequence[str | Path], settings: Mapping[str, Any], person: Person) -> dict[str, Any]:
    """What the program found out."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(settings), file=process.stdin, flush=True)
        for line in process.stdout:
            said = json.loads(line)
            if "done" in said:
                result: dict[str, Any] = said["done"]
                return result
            print(json.dumps(person.visit(said["open"])), file=process.stdin, flush=True)
    raise AssertionError(f"{command} ended with {process.returncode}")
