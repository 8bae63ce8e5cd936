"""PAM services of a test: files in a folder that the plugin is told of, with the modules of this machine."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

LIBRARIES = Path("/usr/lib")
PACKAGES = {
    "pam_matrix.so": "libpam-wrapper",
    "pam_krb5.so": "libpam-krb5",
    "pam_exec.so": "libpam-modules",
    "pam_unix.so": "libpam-modules",
}
PLACES = ("*/pam_wrapper", "*/security", "pam_wrapper", "security")
SERVICE = "greatseal-test"


def module(name: str) -> Path:
    """Where a module is. Absent: the test is skipped, or fails when ``CI`` is set."""
    found = next((path for place in PLACES for path in LIBRARIES.glob(f"{place}/{name}")), None)
    if found is None:
        report = pytest.fail if os.environ.get("CI") else pytest.skip
        report(f"{name} is not installed: apt install {PACKAGES[name]}")
    return found


class Stack:
    """The service :data:`SERVICE` in a folder of its own. By default pam_matrix has the passwords, and sets them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.passwords = folder / "passwords"
        self.folder.mkdir(exist_ok=True)

    @property
    def settings(self) -> dict[str, object]:
        """Of `[pam]`."""
        return {"service": SERVICE, "config_dir": str(self.folder)}

    @property
    def matrix(self) -> str:
        """The module and its option."""
        return f"{module('pam_matrix.so')} passdb={self.passwords}"

    def people(self, **passwords: str) -> "Stack":
        self.passwords.write_text("".join(f"{name}:{password}:{SERVICE}\n" for name, password in passwords.items()))
        return self

    def say(self, auth: Iterable[str] = (), account: Iterable[str] = (), password: Iterable[str] = ()) -> "Stack":
        """Lines of each kind, each ``<control> <module> <options>``."""
        kinds = {"auth": auth, "account": account, "password": password}
        text = "".join(f"{kind} {line}\n" for kind, lines in kinds.items() for line in lines or (f"required {self.matrix}",))
        draft = self.folder / f".{SERVICE}"
        draft.write_text(text)
        draft.replace(self.folder / SERVICE)
        return self

    def script(self, name: str, text: str) -> str:
        """A line that runs a shell script in the middle of a conversation."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return f"required {module('pam_exec.so')} quiet {path}"

    def debug(self, kind: str, code: str) -> str:
        """A line whose step gives this code: ``auth``, ``acct``, ``chauthtok``; ``success``, ``acct_expired``, ..."""
        return f"required pam_debug.so {kind}={code}"
