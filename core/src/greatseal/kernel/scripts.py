"""Operators' programs: no shell, a cleared environment, an end that takes the whole process group with it (fault plan F17)."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from greatseal.host import ScriptResult

MAX_OUTPUT = 65_536
"""Bytes of output that are kept; what comes after is read and dropped."""


class ScriptRunner:
    """Runs programs beside the event loop (:class:`greatseal.host.Scripts`)."""

    async def run(self, path: Path, *, env: Mapping[str, str], stdin: bytes = b"", timeout: float) -> ScriptResult:
        """Run ``path`` without arguments in ``/`` with exactly ``env``; standard error is dropped.

        The program and what it started are killed when ``timeout`` seconds passed, when the caller is cancelled, and when the program
        ended and left children behind. Raises OSError when the program cannot be started.
        """
        program = _Program(path, env, stdin)
        timed_out = False
        try:
            async with asyncio.timeout(timeout):
                await program.ended.wait()
        except TimeoutError:
            timed_out = True
        finally:
            program.kill()
            try:
                # A program in uninterruptible sleep may hold its caller, but not the loop.
                await program.ended.wait()
            finally:
                program.close()
        return ScriptResult(code=None if timed_out else program.process.returncode, stdout=bytes(program.output), timed_out=timed_out)


class _Program:
    """A process that leads its own group. asyncio's own support waits for the end of the output, which a child may keep open."""

    def __init__(self, path: Path, env: Mapping[str, str], stdin: bytes) -> None:
        self.loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        self.output = bytearray()
        self.rest = memoryview(stdin)
        # The program's ends block as usual, ours do not; every descriptor is closed by exec in other programs.
        theirs_in, self.writing = os.pipe()
        self.reading, theirs_out = os.pipe()
        try:
            self.process = subprocess.Popen(  # noqa: S603  the operator configured the path; nothing of a request is in it
                [str(path)],
                stdin=theirs_in,
                stdout=theirs_out,
                stderr=subprocess.DEVNULL,
                env=dict(env),
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            os.close(self.writing)
            os.close(self.reading)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self.handle = os.pidfd_open(self.process.pid)
        os.set_blocking(self.writing, False)
        os.set_blocking(self.reading, False)
        self.loop.add_reader(self.handle, self._on_end)
        self.loop.add_reader(self.reading, self._on_output)
        self.loop.add_writer(self.writing, self._on_writable)

    def kill(self) -> None:
        """Kill what is left of the group. The leader is not reaped yet, so the number cannot belong to another group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Take the rest of the output and give everything back."""
        if self.ended.is_set():
            self.process.wait()
        while self._on_output():
            pass
        self._stop_writing()
        self.loop.remove_reader(self.reading)
        self.loop.remove_reader(self.handle)
        os.close(self.reading)
        os.close(self.handle)

    def _on_end(self) -> None:
        self.loop.remove_reader(self.handle)
        self.ended.set()

    def _on_output(self) -> bool:
        """Whether there may be more that is wanted."""
        try:
            found = os.read(self.reading, MAX_OUTPUT)
        except BlockingIOError:
            return False
        self.output += found[: MAX_OUTPUT - len(self.output)]
        if not found:
            self.loop.remove_reader(self.reading)
        return bool(found) and len(self.output) < MAX_OUTPUT

    def _on_writable(self) -> None:
        try:
            if self.rest:
                self.rest = self.rest[os.write(self.writing, self.rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.rest = self.rest[:0]
        if not self.rest:
            self._stop_writing()

    def _stop_writing(self) -> None:
        # Once closed, the number may belong to another connection of the loop.
        if self.writing >= 0:
            self.loop.remove_writer(self.writing)
            os.close(self.writing)
            self.writing = -1
