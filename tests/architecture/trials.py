"""Runs tests against mutants: one collection, and for each mutant a forked process that changes the module in its memory.

Nothing is written, and nothing stays when it is killed. A program that a test starts is not changed: choose tests that run in the process.
"""

import gc
import importlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType

import pytest
from sqlalchemy import Executable

SECONDS = 300.0
"""How long the tests of one mutant may take. A mutant that hangs was noticed."""
PASSED, FAILED, BROKEN = range(3)


@dataclass(frozen=True)
class Trial:
    """The source of a mutant and the function that it changes, and the tests of which one must fail."""

    name: str
    tests: Sequence[str]
    module: str = ""
    place: str = ""
    source: str = ""
    seconds: float = SECONDS

    def items(self, session: pytest.Session) -> list[pytest.Item]:
        """What is to be run. A name without brackets is every parameter of it."""
        return [item for item in session.items if any(f"{item.nodeid}[".startswith((f"{test}[", f"{test}::")) for test in self.tests)]


class Trials:
    """A pytest plugin. ``failures`` has the tests that failed by the name of each trial; None when it could not be made."""

    def __init__(self, trials: Sequence[Trial], jobs: int, *, whole: bool = False) -> None:
        self._trials = trials
        self._jobs = jobs
        self._whole = whole
        self._running: dict[int, tuple[Trial, int, float]] = {}
        self._failed: list[str] = []
        self.failures: dict[str, list[str] | None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        from hypothesis import settings  # pytest warns of plugins that were imported before it began

        settings.register_profile("mutants", settings.get_profile("greatseal"), database=None)
        settings.load_profile("mutants")
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one folder for all
        for trial in self._trials:
            while len(self._running) >= self._jobs:
                self._reap()
            self._begin(trial, session)
        while self._running:
            self._reap()
        return True

    def _begin(self, trial: Trial, session: pytest.Session) -> None:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            status = BROKEN
            try:
                status = self._run(trial, session)
                os.write(writing, "\n".join(self._failed).encode()[:60_000])
            finally:
                os._exit(status)
        os.close(writing)
        self._running[pid] = trial, reading, time.monotonic() + trial.seconds

    def _run(self, trial: Trial, session: pytest.Session) -> int:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        items = trial.items(session)
        if not items or (trial.source and not change(trial.module, trial.place, trial.source)):
            return BROKEN
        for item, following in zip(items, [*items[1:], None], strict=True):
            last = following is None or (self._failed and not self._whole)
            item.ihook.pytest_runtest_protocol(item=item, nextitem=None if last else following)
            if last:
                break
        return FAILED if self._failed else PASSED

    def _reap(self) -> None:
        for pid, (trial, reading, end) in list(self._running.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            late = not done and time.monotonic() > end
            if late:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if done or late:
                del self._running[pid]
                with os.fdopen(reading) as pipe:
                    failed = ["none ended in time"] if late else pipe.read().splitlines()
                self._end(trial, None if done and os.waitstatus_to_exitcode(status) == BROKEN else failed)
        time.sleep(0.01)

    def _end(self, trial: Trial, failed: list[str] | None) -> None:
        self.failures[trial.name] = failed
        if trial.source and not failed:
            print(f"{trial.name}: {'not tried' if failed is None else 'survived'}", flush=True)


def change(name: str, place: str, source: str) -> bool:
    """Give a module the code of a mutant: of the outermost function of ``place``, and its statements. False when neither is there."""
    module = importlib.import_module(name)
    mutant = compile(source, str(module.__file__), "exec")
    codes = {code.co_qualname: code for code in _codes(mutant)}
    names = place.split(".")
    for count in range(1, len(names) + 1):
        outermost = ".".join(names[:count])
        functions = [one for one in gc.get_objects() if isinstance(one, FunctionType) and one.__module__ == name]
        changed = [one for one in functions if one.__code__.co_qualname == outermost]
        for function in changed:
            function.__code__ = codes[outermost]
        if changed:
            break
    return bool(_exchange_statements(module, mutant)) or bool(changed)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _exchange_statements(module: ModuleType, mutant: CodeType) -> int:
    """Statements are made when a module is imported: put those of the mutant in the place of each that stands somewhere."""
    fresh = {**vars(module)}
    exec(mutant, fresh)
    made = {id(old): fresh[name] for name, old in vars(module).items() if isinstance(old, Executable) and fresh[name] is not old}
    for one in list(sys.modules.values()):
        for name, value in list(vars(one).items()) if isinstance(one, ModuleType) else ():
            if id(value) in made:
                setattr(one, name, made[id(value)])
    return len(made)
