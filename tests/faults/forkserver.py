"""A warm parent that forks the service: a start costs milliseconds, so that it can be killed hundreds of times.

Commands come as JSON lines on stdin, each answered by one on stdout: ``start`` (configuration document, fault plans, log file) gives
``{"pid", "ready"}``, ``wait`` gives ``{"signal"}`` or ``{"code"}`` of a child that ended, ``end`` sends SIGTERM first. Every signature
of the service's keys is noted in the file ``signatures`` before it is made: SHA-256 of what is signed, and the key's purpose. Beside
the fault points of the service there are ``migration.statement`` before each statement of a migration, ``migration.commit``, and
``file.fsync``.
"""

import gc
import json
import os
import signal
import sys
from asyncio import Event, get_running_loop
from contextlib import redirect_stdout, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import psycopg

from greatseal import faults
from greatseal.api.problems import StartProblem
from greatseal.cli import run
from greatseal.db import alembic, postgres
from greatseal.kernel import loading, logs
from greatseal.kernel.kernel import Kernel
from greatseal.kernel.running import running
from greatseal.keys.software import SoftwareSigner

WARM = (alembic, postgres, sqlite, psycopg)
"""Imported only when they are needed: here once, for all children."""
warmed: list[dict[str, Any]] = []


def main() -> None:
    # Nothing is installed meanwhile, and a search takes as long as all the rest of a start.
    loading.entry_points = cache(loading.entry_points)  # type: ignore[assignment,attr-defined]
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "start":
            warm(command["document"])
            answer = start(command)
        else:
            if command["do"] == "end":
                os.kill(command["pid"], signal.SIGTERM)
            _, status = os.waitpid(command["pid"], 0)
            answer = {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else {"code": os.WEXITSTATUS(status)}
        print(json.dumps(answer), flush=True)


def warm(document: dict[str, Any]) -> None:
    """Import the plugins here, too. Garbage collections of the children leave alone, and so uncopied, what is there by then."""
    if document["plugins"] in warmed:
        return
    warmed.append(document["plugins"])
    with suppress(StartProblem), redirect_stdout(sys.stderr):  # stdout is for answers
        Kernel(document)
    gc.collect()
    gc.freeze()


def start(command: dict[str, Any]) -> dict[str, Any]:
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(heard)
        os._exit(child(command, told))
    os.close(told)
    with os.fdopen(heard, "rb") as pipe:
        ready = pipe.read(1) == b"r"
    return {"pid": pid, "ready": ready}


def child(command: dict[str, Any], ready: int) -> int:
    """The service; its exit code is that of the command line."""
    log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    note_signatures(Path(command["signatures"]))
    more_points()
    for plan in command["faults"]:
        faults.arm(plan)
    logs.configure()
    try:
        run(serve(command["document"], ready))
    except StartProblem as problem:
        print(problem, flush=True)
        return 2
    except Exception as error:  # noqa: BLE001  # a fault point may raise anywhere
        print(repr(error), flush=True)
        return 1
    return 0


async def serve(document: dict[str, Any], ready: int) -> None:
    stop = Event()
    get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with running(Kernel(document)):
        os.write(ready, b"r")
        os.close(ready)
        await stop.wait()


def note_signatures(path: Path) -> None:
    """Wrap the signer: what it signs is written down before."""
    sign = SoftwareSigner.sign

    async def noted(self: SoftwareSigner, message: bytes, *more: Any, **options: Any) -> bytes:
        with path.open("ab", buffering=0) as notes:
            notes.write(f"{sha256(message).hexdigest()} {self.info.purpose}\n".encode())
        return await sign(self, message, *more, **options)

    SoftwareSigner.sign = noted  # type: ignore[method-assign]


def more_points() -> None:
    """Fault points where the service calls others."""
    event.listen(Engine, "before_cursor_execute", lambda *_: faults.point("migration.statement"))
    event.listen(Engine, "commit", lambda *_: faults.point("migration.commit"))
    sync = os.fsync

    def synced(descriptor: Any) -> None:
        faults.point("file.fsync")
        sync(descriptor)

    os.fsync = synced


if __name__ == "__main__":
    main()
