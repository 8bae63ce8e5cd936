"""Helper processes: a bounded number, each killed when it takes too long and made anew when it is needed."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from greatseal.api.messages import Message
from greatseal.api.problems import Unavailable
from greatseal_pam.processes import end

T = TypeVar("T")

_START = """
import sys, types
package = types.ModuleType("greatseal_pam")
package.__path__ = [sys.argv[1]]
sys.modules["greatseal_pam"] = package
from greatseal_pam.helper import main
main()
"""
COMMAND = (sys.executable, "-I", "-S", "-c", _START, str(Path(__file__).parent))
"""The package without its ``__init__``, which brings the plugin and half of the service: 20 ms and 12 MB instead of 300 ms and 60 MB."""
PASSED_ON = ("KRB5_CONFIG", "KRB5_TRACE", "TZ")
"""What of the service's environment a helper has: all else may be secret."""
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
LONGEST_ANSWER = 4 << 20
MAX_WAITING = 64
CONVERSATIONS = 500
"""After so many a helper makes room for a new one: modules leak."""
FULL = Message("too many people sign in now; try again")


class Broken(Exception):
    """A helper was ended before it answered, or answered what nobody asked."""


class _Answer(msgspec.Struct, frozen=True):
    result: msgspec.Raw = msgspec.Raw(b"null")
    outage: str = ""


class Helpers:
    """At most ``most`` helpers, which answer one question each at a time, within ``seconds``."""

    def __init__(self, name: str, *, most: int, seconds: float, log: structlog.stdlib.BoundLogger) -> None:
        self._name = name
        self._most = most
        self._seconds = seconds
        self._log = log
        self._turns = asyncio.Semaphore(most)
        self._waiting = 0
        self._idle: list[_Helper] = []
        self._busy: set[_Helper] = set()
        self._begun: set[_Helper] = set()
        """All that may live yet, also those that were ended and are not gone."""
        self._asked: set[asyncio.Task[bytes]] = set()
        self._closed = False

    async def ask(self, question: Mapping[str, object], type: type[T]) -> T:
        """The answer to a question. A caller who goes away leaves the conversation to its end: a password is changed or it is not.

        Raises Unavailable where there is none: too many wait, the time is over, a module crashed, or a source is down.
        """
        if self._closed or self._waiting >= MAX_WAITING:
            raise Unavailable(FULL, cause=f"{self._name}: {self._waiting} wait")
        task = asyncio.create_task(self._in_turn(msgspec.json.encode(question) + b"\n"))
        self._asked.add(task)
        task.add_done_callback(self._done)
        try:
            return _result(await asyncio.shield(task), type)
        except (Broken, OSError, msgspec.DecodeError) as error:
            what = question["ask"]
            self._log.error("no answer from the accounts of this machine", question=what, reason=str(error))
            raise Unavailable(Message("the accounts of this machine cannot be asked now; try again"), cause=f"{what}: {error}") from None

    async def close(self) -> None:
        """End the helpers, whatever they do."""
        self._closed = True
        for helper in (*self._busy, *self._idle):
            helper.kill()
        await asyncio.gather(*self._asked, return_exceptions=True)
        await asyncio.gather(*(helper.gone() for helper in self._begun))

    def _done(self, task: "asyncio.Task[bytes]") -> None:
        self._asked.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may be gone: then nobody else asks for it

    async def _in_turn(self, question: bytes) -> bytes:
        self._waiting += 1
        try:
            async with asyncio.timeout(self._seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise Broken(f"no helper was free within {self._seconds:g} s") from None
        finally:
            self._waiting -= 1
        try:
            return await self._converse(question)
        finally:
            self._turns.release()

    async def _converse(self, question: bytes) -> bytes:
        if self._closed:
            raise Broken("the service is stopping")
        while self._idle and self._idle[-1].is_gone:  # somebody ended it between two conversations
            self._idle.pop().kill()
        helper = self._idle.pop() if self._idle else await self._begin()
        self._busy.add(helper)
        if self._closed:
            helper.kill()
        answer = b""
        try:
            async with asyncio.timeout(self._seconds):
                answer = await helper.ask(question)
        except TimeoutError:
            raise Broken(f"no answer within {self._seconds:g} s") from None
        finally:
            self._busy.discard(helper)
            if answer and helper.asked < CONVERSATIONS and not self._closed:
                self._idle.append(helper)
            else:
                helper.kill()
        if not answer:
            await helper.gone()
            raise Broken(f"the helper was ended: {helper.ending}")
        return answer

    async def _begin(self) -> "_Helper":
        self._begun = {helper for helper in self._begun if not helper.has_ended}
        helper = await _Helper.begin()
        self._begun.add(helper)
        return helper


class _Helper:
    """A process that leads its own group; both ends of its life are pipes that no other program gets."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._handle = os.pidfd_open(process.pid)
        self._loop.add_reader(self._handle, self._on_end)
        self._answers = asyncio.StreamReader(limit=LONGEST_ANSWER)
        self._pipes: list[asyncio.BaseTransport] = []
        self._questions: asyncio.WriteTransport
        self.asked = 0

    @classmethod
    async def begin(cls) -> "_Helper":
        environ = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        process = subprocess.Popen(  # noqa: S603, ASYNC220  as the service itself starts; it takes a millisecond
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**environ, "PATH": PATH, "LC_ALL": "C"},
            cwd="/",
            start_new_session=True,
        )
        helper = cls(process)
        reading, _ = await helper._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(helper._answers), process.stdout)
        helper._questions, _ = await helper._loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        helper._pipes = [reading, helper._questions]
        return helper

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    @property
    def is_gone(self) -> bool:
        return self._ended.is_set() or self._answers.at_eof()

    @property
    def ending(self) -> str:
        code = self._process.returncode
        return f"exit {code}" if code is None or code >= 0 else signal.Signals(-code).name

    async def ask(self, question: bytes) -> bytes:
        """Empty when the process ended before its answer did."""
        self.asked += 1
        self._questions.write(question)
        try:
            answer = await self._answers.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return b""
        except asyncio.LimitOverrunError:
            raise Broken(f"an answer of more than {LONGEST_ANSWER} bytes") from None
        return answer

    def kill(self) -> None:
        """End it and what its modules started. It is not reaped before, so the number cannot belong to others."""
        if not self._ended.is_set():
            end(self._process.pid)

    async def gone(self) -> None:
        """Wait until it is; one in uninterruptible sleep is left to the system."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), 1.0)

    def _on_end(self) -> None:
        self._loop.remove_reader(self._handle)
        os.close(self._handle)
        end(self._process.pid)  # what it left behind
        self._process.wait()
        for pipe in self._pipes:
            pipe.close()
        self._ended.set()


def _result(line: bytes, type: type[T]) -> T:
    answer = msgspec.json.decode(line, type=_Answer)
    if answer.outage:
        raise Broken(answer.outage)
    return msgspec.json.decode(answer.result, type=type)
