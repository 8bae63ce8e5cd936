"""A service that warm parents fork, so that a start costs milliseconds."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from greatseal.testing.service import free_port

ANSWER_SECONDS = 60.0


class Parent:
    """A process that forks services; it outlives the test that started it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forkserver.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "GREATSEAL_FAULTS": "1"},
        )

    async def ask(self, **command: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(await asyncio.wait_for(asyncio.to_thread(self._process.stdout.readline), ANSWER_SECONDS))

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


IDLE: list[Parent] = []
"""Those that wait for the next test."""


class Forked:
    """The service under test, started by a warm parent. Its log and the notes about its signatures are in ``folder``."""

    def __init__(self, folder: Path, database: str, sections: Mapping[str, Mapping[str, Any]]) -> None:
        port = free_port()
        self.url = f"http://localhost:{port}"
        self.folder = folder
        self.log = folder / "server.log"
        self.signatures = folder / "signatures"
        self.key_file = folder / "cluster.key"
        self.document: dict[str, Any] = {
            **sections,
            "server": {"base_url": self.url, "listen": f"127.0.0.1:{port}", **sections.get("server", {})},
            "database": {"url": database, "migrate": "auto"},
            "cluster": {"key_file": str(self.key_file)},
        }
        self.up = asyncio.Event()
        self.pid = 0

    @asynccontextmanager
    async def warm(self) -> AsyncIterator["Forked"]:
        """With a parent. The service is killed at the end of the block; a parent whose test failed may be in the middle of something."""
        self.parent = IDLE.pop() if IDLE else Parent()
        try:
            yield self
        except BaseException:
            self._kill()
            self.parent.close()
            raise
        if self._kill():
            await self.killed()
        IDLE.append(self.parent)

    def _kill(self) -> bool:
        if self.up.is_set():
            os.kill(self.pid, signal.SIGKILL)
        return self.up.is_set()

    async def start(self, *plans: str) -> bool:
        """Start it with these fault plans; False when it ended before it was ready."""
        answer = await self.parent.ask(do="start", document=self.document, faults=plans, log=str(self.log), signatures=str(self.signatures))
        self.pid = answer["pid"]
        if answer["ready"]:
            self.up.set()
        return bool(answer["ready"])

    async def killed(self) -> None:
        """Wait until the fault killed it."""
        assert await self.ended() == {"signal": signal.SIGKILL}, self.log.read_text(errors="replace")[-4000:]

    async def ended(self) -> dict[str, int]:
        """Wait until it ended by itself, and how."""
        answer: dict[str, int] = await self.parent.ask(do="wait", pid=self.pid)
        self.up.clear()
        return answer

    async def end(self) -> dict[str, int]:
        """SIGTERM, and how it ended."""
        answer: dict[str, int] = await self.parent.ask(do="end", pid=self.pid)
        self.up.clear()
        return answer
