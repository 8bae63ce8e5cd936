"""A warm parent that forks the service: a start costs milliseconds, so that it can be killed hundreds of times.

Commands come as JSON lines on stdin, each answered by one on stdout: ``start`` (configuration document, fault plans, log file) gives
``{"pid", "ready"}``, ``wait`` gives ``{"signal"}`` or ``{"code"}`` of a child that ended, ``end`` sends SIGTERM first. Every signature
of the service's keys is noted as SHA-256 of what was signed, in the file ``signatures``, before it is made.
"""

import asyncio
import json
import os
import signal
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from greatseal import faults
from greatseal.kernel import logs
from greatseal.kernel.kernel import Kernel
from greatseal.kernel.running import running
from greatseal.keys.software import SoftwareSigner


def main() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "start":
            answer = start(command)
        else:
            if command["do"] == "end":
                os.kill(command["pid"], signal.SIGTERM)
            _, status = os.waitpid(command["pid"], 0)
            answer = {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else {"code": os.WEXITSTATUS(status)}
        print(json.dumps(answer), flush=True)


def start(command: dict[str, Any]) -> dict[str, Any]:
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(heard)
        child(command, told)
        os._exit(0)
    os.close(told)
    with os.fdopen(heard, "rb") as pipe:
        ready = pipe.read(1) == b"r"
    return {"pid": pid, "ready": ready}


def child(command: dict[str, Any], ready: int) -> None:
    log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    note_signatures(Path(command["signatures"]))
    for plan in command["faults"]:
        faults.arm(plan)
    logs.configure()
    asyncio.run(serve(command["document"], ready))


async def serve(document: dict[str, Any], ready: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with running(Kernel(document)):
        os.write(ready, b"r")
        os.close(ready)
        await stop.wait()


def note_signatures(path: Path) -> None:
    """Wrap the signer: what it signs is written down before."""
    sign = SoftwareSigner.sign

    async def noted(self: SoftwareSigner, message: bytes, *more: Any, **options: Any) -> bytes:
        with path.open("ab", buffering=0) as notes:
            notes.write(sha256(message).hexdigest().encode() + b"\n")
        return await sign(self, message, *more, **options)

    SoftwareSigner.sign = noted  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
