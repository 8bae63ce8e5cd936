"""A stranger's log backend and selector under the contract classes, in a kernel, and what the classes find in others."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rig.strangers.sqlite_log import OBJECT, ProgramName, SqliteLog, Writer, head_of, transaction

from greatseal.api.log import LogBackend, LogHead, LogWriter
from greatseal.api.workload import Peer, Selector, Workload
from greatseal.testing.logs import LOG, LogBackendContract
from greatseal.testing.selectors import SelectorContract, local_workload
from greatseal.testing.service import Kernel, document


class Log(LogBackendContract):
    """``backend`` on a folder."""

    backend: ClassVar[type[SqliteLog]] = SqliteLog

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncIterator[LogBackend]:
        yield self.backend(folder)

    async def lose(self, folder: Path) -> bool:
        (folder / f"{LOG}.lock").unlink()
        return True


class TestSqliteLog(Log):
    """The stranger's backend keeps every promise."""


class TestProgramName(SelectorContract):
    """The stranger's selector keeps every promise."""

    matches = Path("/proc/self/comm").read_text(encoding="utf-8").removesuffix("\n")
    other = "another"

    def selector(self) -> Selector[str]:
        return ProgramName()

    def workload(self, peer: Peer | None) -> Workload:
        return local_workload(peer)


def test_the_kernel_has_both(tmp_path: Path, strangers: Path) -> None:
    kernel = Kernel(document(tmp_path, ["sqlite-log"]))

    assert list(kernel.registry.of(LogBackend)) == ["sqlite-file"]
    assert list(kernel.registry.of(Selector)) == ["Program"]
    assert kernel.registry.of(LogBackend)["sqlite-file"].__module__ == "strangers.sqlite_log"


class HeadFirst(Writer):
    """Moves the head in a transaction of its own, before the objects."""

    def _commit(self, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        super()._commit(before, after, {})
        with transaction(self.file) as store:
            for name, content in objects.items():
                store.execute("INSERT OR IGNORE INTO object VALUES (?, ?)", (name, content))


class Hasty(Writer):
    """Returns before it has written."""

    async def commit(self, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        asyncio.get_running_loop().call_later(0.05, self._commit, before, after, objects)


class Overwriting(Writer):
    """Takes other bytes for an object that exists."""

    def _commit(self, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        with transaction(self.file) as store:
            for name in objects:
                if store.execute(OBJECT, (name,)).fetchone():
                    store.execute("DELETE FROM object WHERE name = ?", (name,))
        super()._commit(before, after, objects)


class Careless(Writer):
    """Does not look at the head that it replaces."""

    def _commit(self, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        with transaction(self.file) as store:
            found = head_of(store)
        super()._commit(found, after, objects)


class Fenceless(Writer):
    """Does not look who holds the log."""

    def _commit(self, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        with transaction(self.file) as store:
            store.execute("INSERT INTO hold SELECT max(fence) + 1 FROM hold")
            (self.fence,) = store.execute("SELECT max(fence) FROM hold").fetchone()
        super()._commit(before, after, objects)


class Unlocked(SqliteLog):
    """Gives the hold to everybody."""

    def hold(self, log: str) -> AbstractAsyncContextManager[LogWriter]:
        return self._hold(f"{log}{os.urandom(4).hex()}")


def writing(kind: type[Writer]) -> type[SqliteLog]:
    return type(kind.__name__, (SqliteLog,), {"writer": kind})


@pytest.mark.parametrize(
    ("backend", "test"),
    [
        (writing(Overwriting), "test_an_object_never_changes"),
        (writing(Careless), "test_a_head_that_is_not_the_one_before_moves_nothing"),
        (writing(Fenceless), "test_a_writer_that_lost_its_hold_moves_nothing"),
        (Unlocked, "test_a_second_hold_is_refused_and_another_log_is_free"),
    ],
)
async def test_a_backend_that_breaks_a_promise_is_found(tmp_path: Path, backend: type[SqliteLog], test: str) -> None:
    contract: Any = type("Broken", (Log,), {"backend": backend})()

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await getattr(contract, test)(tmp_path)


@pytest.mark.parametrize(
    ("backend", "test"),
    [
        (writing(HeadFirst), "test_a_commit_that_is_cut_off_is_there_whole_or_not_at_all"),
        (writing(Hasty), "test_what_a_commit_returned_for_is_there_after_a_kill"),
        (Unlocked, "test_another_process_is_refused"),
    ],
)
def test_a_backend_that_breaks_a_promise_is_found_by_other_processes(tmp_path: Path, backend: type[SqliteLog], test: str) -> None:
    contract: Any = type("Broken", (Log,), {"backend": backend, "kills": 60})()

    with pytest.raises(AssertionError):
        getattr(contract, test)(tmp_path)


class Opening(ProgramName):
    """Reads a file to parse a value."""

    def parse(self, value: object) -> str:
        Path("/etc/hostname").exists()
        with open("/dev/null", encoding="ascii"):  # noqa: PTH123
            return super().parse(value)


class Gullible(ProgramName):
    """Believes everything."""

    async def facts(self, workload: Workload, wanted: frozenset[str]) -> frozenset[str]:
        return wanted


class Raising(ProgramName):
    """Raises something else than ValueError."""

    def parse(self, value: object) -> str:
        return super().parse(value["value"])  # type: ignore[index]


@pytest.mark.parametrize(
    ("kind", "test", "arguments"),
    [
        (Opening, "test_a_value_is_read_alike_each_time_and_without_waiting", ()),
        (Raising, "test_any_value_is_read_or_refused_with_words", (None,)),
        (Gullible, "test_what_is_true_is_found_and_nothing_else", ()),
        (Gullible, "test_nothing_is_true_of_a_stranger", ()),
    ],
)
def test_a_selector_that_breaks_a_promise_is_found(kind: type[ProgramName], test: str, arguments: tuple[Any, ...]) -> None:
    contract: Any = type("Broken", (TestProgramName,), {"selector": lambda _: kind()})()

    async def run() -> None:
        outcome = getattr(contract, test)(*arguments)
        if asyncio.iscoroutine(outcome):
            await outcome

    with pytest.raises((AssertionError, TypeError)):
        asyncio.run(run())
