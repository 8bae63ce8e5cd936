import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from greatseal.kernel.scripts import MAX_OUTPUT, ScriptRunner


@pytest.fixture
def script(tmp_path):
    """Makes an executable shell script and gives its path."""

    def make(text):
        path = tmp_path / "script"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o700)
        return path

    return make


def run(path, *, env=None, stdin=b"", timeout=20.0):
    return ScriptRunner().run(path, env=env or {}, stdin=stdin, timeout=timeout)


async def ended(pid):
    """Return when the process is gone; the test's time limit is the bound."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, gone.set)
    await gone.wait()
    loop.remove_reader(handle)
    os.close(handle)


async def test_a_script_gives_its_output_and_status(script):
    result = await run(script("echo hello; echo dropped >&2; exit 3"))

    assert (result.code, result.stdout, result.timed_out) == (3, b"hello\n", False)


async def test_a_script_sees_only_the_environment_it_was_given(script, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "x")

    result = await run(script("/usr/bin/env; /bin/pwd"), env={"ACME_TO": "alice@example.com"})

    lines = set(result.stdout.decode().split())
    assert lines <= {"ACME_TO=alice@example.com", "PWD=/", "_=/usr/bin/env", "SHLVL=0", "OLDPWD=/", "/"}
    assert "ACME_TO=alice@example.com" in lines


async def test_nothing_is_read_by_a_shell(script, tmp_path):
    path = script("echo run")
    strange = path.rename(tmp_path / "a b; touch $HOME")

    assert (await run(strange)).stdout == b"run\n"


async def test_the_input_is_given_whole(script):
    result = await run(script("/usr/bin/wc -c"), stdin=b"x" * 1_000_000)

    assert result.stdout.strip() == b"1000000"


async def test_a_script_that_reads_no_input_is_no_error(script):
    result = await run(script("exit 0"), stdin=b"x" * 1_000_000)

    assert result.code == 0


async def test_f17_a_script_that_hangs_is_killed_at_its_time_limit(script):
    started = time.perf_counter()

    result = await run(script("echo $$; exec /bin/sleep 1000"), timeout=0.5)

    assert (result.code, result.timed_out) == (None, True)
    assert time.perf_counter() - started < 10
    await ended(int(result.stdout))


async def test_f17_a_script_that_ignores_signals_is_killed(script):
    result = await run(script("trap '' TERM INT HUP; echo $$; while :; do /bin/sleep 1; done"), timeout=0.5)

    assert result.timed_out
    await ended(int(result.stdout))


async def test_f17_children_of_a_killed_script_are_killed(script):
    result = await run(script("/bin/sleep 1000 & echo $!; wait"), timeout=0.5)

    assert result.timed_out
    await ended(int(result.stdout))


async def test_f17_children_that_a_script_leaves_behind_are_killed_and_not_waited_for(script):
    result = await run(script("/bin/sleep 1000 & echo $!; exit 0"))

    assert (result.code, result.timed_out) == (0, False)
    await ended(int(result.stdout))


async def test_f17_a_child_that_left_the_group_and_keeps_the_output_open_is_not_waited_for(script):
    result = await run(script("/usr/bin/setsid /bin/sh -c 'echo $$; exec /bin/sleep 1000' & /bin/sleep 0.3; exit 0"))

    os.kill(int(result.stdout), signal.SIGKILL)
    assert result.code == 0


async def test_f17_output_is_cut_and_the_script_goes_on(script):
    result = await run(script("/usr/bin/head -c 100000000 /dev/zero && exit 5"))

    assert (result.code, len(result.stdout)) == (5, MAX_OUTPUT)


async def test_f17_a_cancelled_caller_takes_the_script_with_it(script, tmp_path):
    os.mkfifo(tmp_path / "pid")
    reading = os.open(tmp_path / "pid", os.O_RDONLY | os.O_NONBLOCK)
    task = asyncio.create_task(run(script(f"echo $$ > {tmp_path}/pid; exec /bin/sleep 1000")))
    written = asyncio.Event()
    asyncio.get_running_loop().add_reader(reading, written.set)
    await written.wait()
    asyncio.get_running_loop().remove_reader(reading)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await ended(int(os.read(reading, 100)))
    os.close(reading)


async def test_the_loop_goes_on_while_scripts_run(script):
    path = script("/bin/sleep 1")

    started = time.perf_counter()
    results = await asyncio.gather(*(run(path) for _ in range(10)))

    assert [result.code for result in results] == [0] * 10
    assert time.perf_counter() - started < 8  # one after the other would take ten


async def test_a_script_that_a_signal_ended_has_a_negative_status(script):
    assert (await run(script("kill -9 $$"))).code == -9


@pytest.mark.parametrize("mode", [0o600, None])
async def test_a_program_that_cannot_start_raises_what_the_system_said(script, tmp_path, mode):
    path = tmp_path / "absent"
    if mode:
        path = script("exit 0")
        path.chmod(mode)

    with pytest.raises(OSError, match=path.name):
        await run(path)


def descriptors():
    return sorted(entry.name for entry in Path("/proc/self/fd").iterdir())


async def test_no_descriptor_is_left(script):
    path = script("echo x")
    await run(path)
    before = descriptors()

    for _ in range(20):
        await run(path, stdin=b"y")
        with pytest.raises(OSError):
            await run(path.parent / "absent")

    assert descriptors() == before


def test_scripts_run_on_the_fast_loop_too(script):
    uvloop = pytest.importorskip("uvloop")

    result = uvloop.run(run(script("echo $(/bin/cat); exit 4"), stdin=b"z"))

    assert (result.code, result.stdout) == (4, b"z\n")
    assert uvloop.run(run(script("exec /bin/sleep 1000"), timeout=0.3)).timed_out
