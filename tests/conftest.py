"""What several folders of tests share."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def program() -> Callable[[str, str], Path]:
    """``program(name, package)``: where a program of the machine is. Absent: the test is skipped, or fails when ``CI`` is set."""

    def find(name: str, package: str) -> Path:
        found = shutil.which(name)
        if found is None:
            report = pytest.fail if os.environ.get("CI") else pytest.skip
            report(f"{name} is not installed: apt install {package}")
        return Path(found)

    return find
