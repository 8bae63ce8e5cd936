"""Files that are there whole or not at all, and folders that are on the disk."""

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from socket import gethostname
from typing import TypeVar
from zlib import crc32

import msgspec

from greatseal.api.log import LogHeld
from greatseal.api.problems import Unavailable

__all__ = ["content_of", "locked", "remove", "sync_all", "unreachable", "whole", "with_checksum", "write"]

T = TypeVar("T")


def unreachable(error: OSError) -> Unavailable:
    """What a caller sees of a disk that fails."""
    return Unavailable("the log cannot be used now", cause=f"{type(error).__name__}: {error}")


def content_of(path: str) -> bytes | None:
    """What is in a file; None when there is none of that name. Raises Unavailable when the disk does not give it."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(file).st_size
            content = os.read(file, size)
            while len(content) < size and (more := os.read(file, size - len(content))):
                content += more
            return content
        finally:
            os.close(file)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise unreachable(error) from error


def with_checksum(state: object) -> bytes:
    """A small state, for a file that may be torn: checksum, length and content. What comes after that is nothing."""
    body = msgspec.msgpack.encode(state)
    return crc32(body).to_bytes(4) + len(body).to_bytes(4) + body


def whole(path: str, kind: type[T]) -> T | None:
    """What :func:`with_checksum` was given; None when there is no such file, and when it was torn."""
    content = content_of(path) or b""
    body = content[8 : 8 + int.from_bytes(content[4:8])]
    return msgspec.msgpack.decode(body, type=kind) if body and crc32(body).to_bytes(4) == content[:4] else None


def write(path: str, content: bytes, *, beside: str, last: bool = False) -> None:
    """A file with that content, made ``beside`` and renamed, so that it is never seen in parts; with ``last`` it survives a power cut."""
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        written = os.write(file, content)
        while written < len(content):
            written += os.write(file, memoryview(content)[written:])
        if last:
            os.fsync(file)
    finally:
        os.close(file)
    try:
        os.rename(beside, path)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.rename(beside, path)
    if last:
        sync(os.path.dirname(path))


def sync(path: str) -> None:
    """Return when what is there, file or folder, is on the disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_all(root: str, paths: Iterable[str]) -> None:
    """Files, and the folders from each of them up to ``root``: each is a name in the one above it. A file that is gone is no error."""
    folders = {root}
    for path in paths:
        with suppress(FileNotFoundError):
            sync(path)
        folder = os.path.dirname(path)
        while folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    for folder in folders:
        with suppress(FileNotFoundError):
            sync(folder)


def remove(paths: Iterable[str]) -> None:
    """Unlink files, for good."""
    folders = set()
    for path in paths:
        folders.add(os.path.dirname(path))
        with suppress(FileNotFoundError):
            os.unlink(path)
    for folder in folders:
        with suppress(FileNotFoundError):
            sync(folder)


def locked(folder: str) -> int:
    """Take the lock ``<folder>/lock`` of a folder that is nobody else's, made when absent; closing the descriptor gives it back.

    Raises LogHeld, and OSError as the disk does.
    """
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o700)
    lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()} on {gethostname()}".encode(), 0)
    except BlockingIOError:
        holder = os.pread(lock, 200, 0).decode(errors="replace")
        os.close(lock)
        raise LogHeld(f"{holder or 'another process'} writes the log in {os.path.dirname(folder)}") from None
    except OSError:
        os.close(lock)
        raise
    return lock
