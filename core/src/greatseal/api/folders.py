"""What can be told of a file or folder without making anything: for ``verify`` hooks and settings that name one."""

import os
import stat
from pathlib import Path


def folder_problem(folder: Path) -> str | None:
    """Why this process cannot make files in ``folder``, which is made with its parents where it is not there; None when it can."""
    for found in (folder, *folder.absolute().parents):
        try:
            status = found.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return f"{found}: {error.strerror}"
        if not stat.S_ISDIR(status.st_mode):
            return f"{found} is no folder"
        if not os.access(found, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            return f"{found} cannot be written by this user"
        return None
    return f"{folder} has no folder above it"


def is_program(path: Path) -> bool:
    """Whether this process may execute the file ``path``; False too where a folder above it may not be searched."""
    return os.access(path, os.X_OK, effective_ids=os.access in os.supports_effective_ids) and path.is_file()
