"""What can be told of a keytab without reading it."""

import stat
from pathlib import Path

import msgspec


class Version(msgspec.Struct, frozen=True):
    """What tells that a keytab is another one."""

    inode: int
    modified: int
    changed: int
    size: int
    mode: int


def version_of(keytab: Path) -> Version | str:
    """Of the file as it is now, or why it cannot be seen."""
    try:
        found = keytab.stat()
    except OSError as error:
        return f"{keytab}: {error.strerror}"
    return Version(found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_mode)


def unfit(keytab: Path, version: Version | str | None) -> str | None:
    """Why the file is not to be used, None when it is."""
    if isinstance(version, str):
        return f"the keytab {version}"
    if version is not None and version.mode & (stat.S_IRWXO | stat.S_IWGRP):
        return f"{keytab}: others than its owner may read or change the keys of the service; run chmod 0600 {keytab}, and change the keys"
    return None
