"""``greatseal`` forked from a process that has imported everything: a start costs 30 ms and not a second.

What runs is a process of its own with its own arguments, environment, folder, streams, signals and exit code. What is not shown is
the start of the interpreter and what a command imports: that is for tests that run the program itself.
"""

import atexit
import functools
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

SETS = ("ca", "idp")


class Process:
    """A command that runs, as :class:`subprocess.Popen` shows one."""

    def __init__(self, told: int) -> None:
        self._told = os.fdopen(told)
        self.pid = int(self._told.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, minus the signal's number for one that a signal ended; None while it runs."""
        if self.returncode is None:
            os.set_blocking(self._told.fileno(), False)
            if line := self._told.readline():
                self.returncode = int(line)
                self._told.close()
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("greatseal", timeout)
            time.sleep(0.005)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(arguments: Sequence[str], *, streams: Sequence[IO[Any]], env: Mapping[str, str], cwd: Path | None = None) -> Process:
    """``greatseal`` with these arguments; ``streams`` are its stdin, stdout and stderr."""
    heard, told = os.pipe()
    command = {"arguments": list(arguments), "env": dict(env), "cwd": str(cwd or Path.cwd())}
    link, _ = _parent()
    socket.send_fds(link, [json.dumps(command).encode()], [*(one.fileno() for one in streams), told])
    os.close(told)
    return Process(heard)


def run(
    *arguments: str, given: str = "", env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: float = 60
) -> "subprocess.CompletedProcess[str]":
    """Run to the end, as :func:`subprocess.run` with captured text."""
    with tempfile.TemporaryFile() as read, tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        read.write(given.encode())
        read.seek(0)
        process = start(arguments, streams=(read, said, complained), env=os.environ if env is None else env, cwd=cwd)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        shown = []
        for stream in (said, complained):
            stream.seek(0)
            shown.append(stream.read().decode())
    return subprocess.CompletedProcess(["greatseal", *arguments], code, *shown)


@functools.cache
def _parent() -> "tuple[socket.socket, subprocess.Popen[bytes]]":
    """The way to the warm process, which ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno())]
        parent = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    atexit.register(parent.wait)
    atexit.register(ours.close)
    return ours, parent


def main(link: socket.socket) -> None:
    """The warm process: a child for each message."""
    warm()
    keepers = 0
    while True:
        message, fds, *_ = socket.recv_fds(link, 1 << 20, 4)
        while keepers and os.waitpid(-1, os.WNOHANG if message else 0) != (0, 0):
            keepers -= 1
        if not message:
            return
        if os.fork() == 0:
            link.close()
            keep(json.loads(message), fds)
        keepers += 1
        for fd in fds:
            os.close(fd)


def warm() -> None:
    """Import what commands import. Collections of the children leave alone, and so uncopied, what is there by then."""
    from sqlalchemy.dialects import sqlite
    from sqlalchemy.dialects.postgresql import psycopg

    from greatseal import cli
    from greatseal.db import alembic, postgres
    from greatseal.kernel import running
    from greatseal.kernel.kernel import Kernel

    assert all((sqlite, psycopg, cli, alembic, postgres, running))
    with tempfile.TemporaryDirectory() as folder:
        Kernel({"plugins": {"sets": list(SETS)}, "server": {"base_url": "http://localhost"}, "users": {"file": f"{folder}/users"}})
    gc.collect()
    gc.freeze()


def keep(command: Mapping[str, Any], fds: Sequence[int]) -> NoReturn:
    """Fork the command, and tell its process id and how it ended."""
    *streams, told = fds
    pid = os.fork()
    if pid == 0:
        os.close(told)
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
            os.close(fd)
        become(command)
    for fd in streams:
        os.close(fd)
    os.write(told, b"%d\n" % pid)
    _, ended = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        os.write(told, b"%d\n" % os.waitstatus_to_exitcode(ended))
    os._exit(0)


def become(command: Mapping[str, Any]) -> NoReturn:
    """What the program ``greatseal`` does."""
    from greatseal.cli import main as greatseal

    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["env"])
    code = 1
    try:
        greatseal(command["arguments"], prog_name="greatseal")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  # as the interpreter does
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
