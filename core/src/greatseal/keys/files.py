"""Files that hold secrets: nobody but their owner may read them, and they are never half written."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from greatseal.api.problems import StartProblem

_MAX_BYTES = 1_048_576


class KeyFileProblem(StartProblem):
    """A key file that will not be used. One line: which, why, and the cure."""


def read_private(path: Path) -> bytes:
    """The content of a secret file; raises KeyFileProblem when others may read it, and OSError when it cannot be read.

    A systemd credential may look readable by its group: that is the mask of the access list that gives it to the service.
    """
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileProblem(f"{path}: not a regular file")
        open_bits = status.st_mode & (0o007 if _is_credential(path) else 0o077)
        if open_bits:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            raise KeyFileProblem(f"{path}: the key file is open to others than its owner (mode {mode}); run: chmod 600 {path}")
        if status.st_size > _MAX_BYTES:
            raise KeyFileProblem(f"{path}: too large for a key file")
        return file.read(_MAX_BYTES)


def create_private(path: Path, content: bytes) -> bool:
    """Make the file with mode 0600, durably and whole; False when it exists already, and nothing is changed then."""
    temporary = _written(path, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    _sync_folder(path)
    return True


def replace_private(path: Path, content: bytes) -> None:
    """Replace the content durably: whoever reads sees the old or the new whole."""
    temporary = _written(path, content)
    try:
        temporary.replace(path)
    except OSError:
        temporary.unlink()
        raise
    _sync_folder(path)


def _is_credential(path: Path) -> bool:
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    return bool(folder) and path.resolve().parent == Path(str(folder)).resolve()


def _written(path: Path, content: bytes) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
    return temporary


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
