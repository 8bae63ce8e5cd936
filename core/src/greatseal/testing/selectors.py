"""What every selector must do, as a test class to inherit."""

import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, ClassVar

import pytest

from greatseal.api.workload import Peer, Selector, Workload

__all__ = ["SelectorContract", "local_workload"]

STRANGE: tuple[object, ...] = (
    None, True, False, 0, -1, 1, 10**400, 1.5, float("nan"), "", " ", "\x00", "a\nb", "é\u202e", "x" * 100_000, "/", "..", [], [None],
    ["a"], {}, {"type": "x"}, {"alg": 1}, [[[[]]]],
)  # fmt: skip
"""Values that anybody may write into an entry."""
REMOTE = Workload(node_id="n2", hostname="other.example")
"""A caller of another machine that declares nothing of itself."""

_watched: ContextVar[list[str] | None] = ContextVar("watched", default=None)


class SelectorContract(ABC):
    """Inherit, say what matches, and every promise of :class:`greatseal.api.workload.Selector` is tested.

    .. code-block:: python

        class TestUid(SelectorContract):
            matches = 1000
            other = 1001

            def selector(self):
                return Uid()

            def workload(self, peer):
                return local_workload(peer, uid=1000)
    """

    matches: ClassVar[object]
    """A value, decoded from JSON, that is true of :meth:`workload`."""
    other: ClassVar[object]
    """A good value that is not."""

    @abstractmethod
    def selector(self) -> Selector[Any]:
        """The selector."""

    @abstractmethod
    def workload(self, peer: Peer | None) -> Workload:
        """The workload of which :attr:`matches` is true; of a selector that is not ``remote`` it is the local process ``peer``."""

    def test_declares_itself(self) -> None:
        selector = self.selector()

        assert selector.type.isalnum()
        assert isinstance(selector.remote, bool)

    def test_a_value_is_read_alike_each_time_and_without_waiting(self) -> None:
        selector = self.selector()

        with _nothing_opened():
            for value in (self.matches, self.other):
                parsed = selector.parse(value)
                assert isinstance(parsed, Hashable)
                assert parsed == selector.parse(value)
                assert hash(parsed) == hash(selector.parse(value))
        assert selector.parse(self.matches) != selector.parse(self.other)

    @pytest.mark.parametrize("value", STRANGE, ids=lambda value: repr(value)[:20])
    def test_any_value_is_read_or_refused_with_words(self, value: object) -> None:
        selector, words = self.selector(), "it was read"

        with _nothing_opened():
            try:
                hash(selector.parse(value))
            except ValueError as refused:
                words = str(refused)
        assert 0 < len(words) < 1000, "ValueError says what is wrong, for whoever wrote the entry"

    @pytest.mark.asyncio
    async def test_what_is_true_is_found_and_nothing_else(self) -> None:
        selector = self.selector()
        matches, other = selector.parse(self.matches), selector.parse(self.other)

        with _process() as peer:
            workload = self.workload(None if selector.remote else peer)
            found = await selector.facts(workload, frozenset({matches, other}))
            assert isinstance(found, frozenset)
            assert matches in found
            assert other not in found
            assert matches in await selector.facts(workload, frozenset({matches})), "asked again"
            assert isinstance(await selector.facts(workload, frozenset()), frozenset)

    @pytest.mark.asyncio
    async def test_nothing_is_true_of_a_stranger(self) -> None:
        selector = self.selector()
        wanted = frozenset({selector.parse(self.matches), selector.parse(self.other)})

        assert not await _found(selector, REMOTE, wanted)

    @pytest.mark.asyncio
    async def test_a_process_that_has_ended_has_no_new_facts(self) -> None:
        selector = self.selector()
        wanted = frozenset({selector.parse(self.matches), selector.parse(self.other)})

        with _process() as peer:
            workload = self.workload(None if selector.remote else peer)
            alive = await selector.facts(workload, wanted)
            _end(peer.pid)
            assert await _found(selector, workload, wanted) <= alive


def local_workload(peer: Peer | None, **facts: Any) -> Workload:
    """A process of this machine, with what its socket told of it."""
    return Workload(node_id="n1", hostname="host.example", peer=peer, **facts)


async def _found(selector: Selector[Any], workload: Workload, wanted: frozenset[Any]) -> frozenset[Any]:
    """The facts; an exception counts as none."""
    with suppress(Exception):
        return await selector.facts(workload, wanted)
    return frozenset()


@contextmanager
def _process() -> Iterator[Peer]:
    """A process of our own that waits, as the other end of a socket."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    pidfd = os.pidfd_open(pid)
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:  # noqa: PTH123
            start_time = int(stat.read().rpartition(")")[2].split()[19])
        yield Peer(pid=pid, pidfd=pidfd, start_time=start_time)
    finally:
        os.close(pidfd)
        _end(pid)


def _end(pid: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@contextmanager
def _nothing_opened() -> Iterator[None]:
    """Fails when the block opens a file or a socket."""
    _install()
    opened: list[str] = []
    token = _watched.set(opened)
    try:
        yield
    finally:
        _watched.reset(token)
    assert not opened, f"parse did I/O: {opened}"


_installed: list[bool] = []


def _install() -> None:
    """The audit hook, once in a process: it cannot be taken away again."""
    if not _installed:
        _installed.append(True)
        sys.addaudithook(_heard)


def _heard(event: str, _arguments: object) -> None:
    opened = _watched.get()
    if opened is not None and event in {"open", "socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.listdir"}:
        opened.append(event)
