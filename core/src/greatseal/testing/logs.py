"""What every log backend must do, as a test class to inherit."""

import asyncio
import inspect
import os
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from greatseal.api.log import LogBackend, LogCorrupt, LogHead, LogHeld, LogMoved, LogWriter
from greatseal.testing.kills import KILLED, lines_of, run_apart

__all__ = ["LOG", "LogBackendContract"]

LOG = "default"
"""The log that the tests hold."""
ONE = LogHead(size=1, root=b"\x01" * 32, edge=b"edge of one")
TWO = LogHead(size=2, root=b"\x02" * 32)
OLD = {"tile/0/000.p/1": b"the first leaf", "entries/000.p/1": b"\x00\xff" * 500}
NEW = {"tile/0/000.p/2": b"two leaves", "entries/000.p/2": b"both entries", "tile/0/x001/234": b"", "large": os.urandom(200_000)}


class LogBackendContract(ABC):
    """Inherit, say how to open the backend on a place, and every promise of :mod:`greatseal.api.log` is tested.

    .. code-block:: python

        class TestFiles(LogBackendContract):
            @asynccontextmanager
            async def opened(self, folder):
                yield FilesBackend(folder)

    Whether bytes survive a power cut of the machine no test can see: say in the backend where it waits for the disk. What it leaves when
    its process is killed is tested at :attr:`kills` of the lines that a commit executes.
    """

    kills: ClassVar[int] = 40
    """At how many lines of a commit the process is killed, evenly spread: all lines where there are fewer."""
    free_within: ClassVar[float] = 5.0
    """Seconds in which the hold of a process that was killed is free again."""

    @abstractmethod
    def opened(self, folder: Path) -> AbstractAsyncContextManager[LogBackend]:
        """The backend on what is kept in ``folder``, which is a name of its own for storage elsewhere. Each process opens its own."""

    async def lose(self, folder: Path) -> bool:  # noqa: ARG002  # for whoever overrides it
        """Take the hold from whoever has it, as a network pause or the end of a lease would, so that the next hold succeeds.

        False where a hold cannot be lost while its process lives.
        """
        return False

    @pytest.mark.asyncio
    async def test_declares_itself(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            assert re.fullmatch(r"[a-z][a-z0-9-]*", backend.name)

    @pytest.mark.asyncio
    async def test_an_empty_log_has_nothing(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend, backend.hold(LOG) as writer:
            for reader in (writer, backend.reader(LOG), backend.reader("another")):
                assert await reader.head() is None
                assert await reader.read("tile/0/000") is None
                assert await reader.published("checkpoint") is None

    @pytest.mark.asyncio
    async def test_what_was_committed_is_read_here_and_elsewhere(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend, self.opened(tmp_path) as elsewhere:
            async with backend.hold(LOG) as writer:
                await writer.commit(None, ONE, OLD)
                await writer.commit(ONE, TWO, NEW)
                for reader in (writer, backend.reader(LOG), elsewhere.reader(LOG)):
                    assert await reader.head() == TWO
                    assert {name: await reader.read(name) for name in {**OLD, **NEW}} == {**OLD, **NEW}
            assert await elsewhere.reader("another").head() is None

    @pytest.mark.asyncio
    async def test_a_head_that_is_not_the_one_before_moves_nothing(self, tmp_path: Path) -> None:
        other = LogHead(size=1, root=b"\x07" * 32, edge=ONE.edge)
        async with self.opened(tmp_path) as backend, backend.hold(LOG) as writer:
            with pytest.raises(LogMoved):
                await writer.commit(ONE, TWO, NEW)
            await writer.commit(None, ONE, OLD)
            for before in (None, other, TWO):
                with pytest.raises(LogMoved):
                    await writer.commit(before, TWO, NEW)
            assert await writer.head() == ONE
            assert [await writer.read(name) for name in NEW] == [None] * len(NEW)

    @pytest.mark.asyncio
    async def test_an_object_never_changes(self, tmp_path: Path) -> None:
        name, content = next(iter(OLD.items()))
        async with self.opened(tmp_path) as backend, backend.hold(LOG) as writer:
            await writer.commit(None, ONE, OLD)
            with pytest.raises(LogCorrupt):
                await writer.commit(ONE, TWO, {**NEW, name: content + b"!"})
            assert await writer.head() == ONE
            assert await writer.read(name) == content
            assert [await writer.read(one) for one in NEW] == [None] * len(NEW)
            await writer.commit(ONE, TWO, {**NEW, name: content})
            assert await writer.read(name) == content

    @pytest.mark.asyncio
    async def test_a_document_is_replaced_whole_and_is_no_object(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend, backend.hold(LOG) as writer:
            await writer.publish("checkpoint", b"first")
            await writer.publish("checkpoint", b"second")
            assert await backend.reader(LOG).published("checkpoint") == b"second"
            assert await writer.read("checkpoint") is None
            assert await writer.head() is None

    @pytest.mark.asyncio
    async def test_what_was_discarded_is_gone_and_nothing_else(self, tmp_path: Path) -> None:
        gone, *kept = OLD
        async with self.opened(tmp_path) as backend, backend.hold(LOG) as writer:
            await writer.commit(None, ONE, OLD)
            await writer.discard([gone, "there is none of this name"])
            assert [await writer.read(name) for name in (gone, *kept)] == [None, *(OLD[name] for name in kept)]
            assert await writer.head() == ONE

    @pytest.mark.asyncio
    async def test_the_next_holder_finds_what_the_last_one_left(self, tmp_path: Path) -> None:
        gone, *kept = OLD
        async with self.opened(tmp_path) as backend, backend.hold(LOG) as writer:
            await writer.commit(None, ONE, OLD)
            await writer.discard([gone])
            await writer.publish("checkpoint", b"first")
        async with self.opened(tmp_path) as backend, backend.hold(LOG) as writer:
            assert await writer.head() == ONE
            assert [await writer.read(name) for name in (gone, *kept)] == [None, *(OLD[name] for name in kept)]
            assert await writer.published("checkpoint") == b"first"
            await writer.commit(ONE, TWO, NEW)

    @pytest.mark.asyncio
    async def test_a_head_moves_without_growth_and_many_times(self, tmp_path: Path) -> None:
        heads = [msgspec.structs.replace(ONE, edge=b"edge" * number) for number in range(40)]
        async with self.opened(tmp_path) as backend, backend.hold(LOG) as writer:
            before = None
            for number, after in enumerate(heads):
                await writer.commit(before, after, {f"some/{number}": os.urandom(20_000)} if number % 3 else {})
                await writer.discard([f"some/{number - 2}"])
                before = after
            assert await backend.reader(LOG).head() == heads[-1]
            assert [number for number in range(40) if await writer.read(f"some/{number}") is not None] == [38]

    @pytest.mark.asyncio
    async def test_a_second_hold_is_refused_and_another_log_is_free(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend, self.opened(tmp_path) as elsewhere:
            async with backend.hold(LOG):
                for one in (backend, elsewhere):
                    with pytest.raises(LogHeld):
                        async with one.hold(LOG):
                            pass
                async with elsewhere.hold("another"):
                    pass
            async with elsewhere.hold(LOG):
                pass

    @pytest.mark.asyncio
    async def test_a_writer_that_lost_its_hold_moves_nothing(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend, self.opened(tmp_path) as elsewhere, backend.hold(LOG) as lost:
            await lost.commit(None, ONE, OLD)
            if not await self.lose(tmp_path):
                pytest.skip("a hold cannot be lost while its process lives")
            async with elsewhere.hold(LOG) as writer:
                with pytest.raises(LogMoved):
                    await lost.commit(ONE, TWO, NEW)
                with pytest.raises(LogMoved):
                    await lost.publish("checkpoint", b"of the one that lost it")
                with pytest.raises(LogMoved):
                    await lost.discard(OLD)
                assert await writer.head() == ONE
                await writer.commit(ONE, TWO, NEW)
                assert {name: await writer.read(name) for name in {**OLD, **NEW}} == {**OLD, **NEW}
                assert await writer.published("checkpoint") is None

    def test_another_process_is_refused(self, tmp_path: Path) -> None:
        async def hold_both() -> None:
            async with self.opened(tmp_path) as backend, backend.hold(LOG):
                code = await asyncio.to_thread(run_apart, self._held_elsewhere(tmp_path))
                assert code == 0, "another process got the hold, or another error than LogHeld"

        asyncio.run(hold_both())

    def test_a_commit_that_is_cut_off_is_there_whole_or_not_at_all(self, tmp_path: Path) -> None:
        source = asyncio.run(self._source(tmp_path))
        lines = lines_of(self._committing(tmp_path / "counted"), file=source)
        seen = set()
        for number in sorted({1 + (lines - 1) * part // max(self.kills - 1, 1) for part in range(self.kills)}):
            folder = tmp_path / f"killed{number}"
            assert run_apart(self._committing(folder), file=source, kill_at=number) in {KILLED, 0}
            seen.add(asyncio.run(self._after_a_kill(folder)))
        assert seen == {"before", "after"}, f"a kill at each of {self.kills} lines left {seen} alone: is the commit in {source}?"

    def test_what_a_commit_returned_for_is_there_after_a_kill(self, tmp_path: Path) -> None:
        async def work() -> None:
            async with self.opened(tmp_path) as backend, backend.hold(LOG) as writer:
                await writer.commit(None, ONE, OLD)
                await writer.publish("checkpoint", b"first")
                os.kill(os.getpid(), 9)

        assert run_apart(work) == KILLED

        async def looked() -> None:
            async with self.opened(tmp_path) as backend, self._held(backend) as writer:
                assert await writer.head() == ONE
                assert {name: await writer.read(name) for name in OLD} == OLD
                assert await writer.published("checkpoint") == b"first"

        asyncio.run(looked())

    def _committing(self, folder: Path) -> Callable[[], Coroutine[Any, Any, None]]:
        """The work of a process: a first commit, and the one that is cut off."""
        folder.mkdir()

        async def work() -> None:
            async with self.opened(folder) as backend, backend.hold(LOG) as writer:
                await writer.commit(None, ONE, OLD)
                await writer.commit(ONE, TWO, NEW)

        return work

    def _held_elsewhere(self, folder: Path) -> Callable[[], Coroutine[Any, Any, None]]:
        async def work() -> None:
            async with self.opened(folder) as backend:
                with pytest.raises(LogHeld):
                    async with backend.hold(LOG):
                        pass

        return work

    async def _after_a_kill(self, folder: Path) -> str:
        """What the next holder sees: the log before or after the commit, from where it goes on."""
        async with self.opened(folder) as backend, self._held(backend) as writer:
            head = await writer.head()
            there = {name: await writer.read(name) for name in {**OLD, **NEW}}
            expected = {None: {}, 1: OLD, 2: {**OLD, **NEW}}[head.size if head else None]
            assert head in {None, ONE, TWO}
            assert {name: content for name, content in there.items() if content is not None} == expected, f"torn at {head}"
            if head is None:
                await writer.commit(None, ONE, OLD)
            if head != TWO:
                await writer.commit(ONE, TWO, NEW)
            assert await backend.reader(LOG).head() == TWO
            return "after" if head == TWO else "before"

    @asynccontextmanager
    async def _held(self, backend: LogBackend) -> AsyncIterator[LogWriter]:
        """The hold, as soon as that of a killed process is free."""
        async with AsyncExitStack() as stack:
            until = asyncio.get_running_loop().time() + self.free_within
            while True:
                try:
                    writer = await stack.enter_async_context(backend.hold(LOG))
                    break
                except LogHeld:
                    assert asyncio.get_running_loop().time() < until, f"the hold of a killed process is not free after {self.free_within} s"
                await asyncio.sleep(0.02)
            yield writer

    async def _source(self, folder: Path) -> str:
        """The file of the writer, at whose lines processes are killed."""
        async with self.opened(folder) as backend, backend.hold(LOG) as writer:
            return inspect.getfile(type(writer))
