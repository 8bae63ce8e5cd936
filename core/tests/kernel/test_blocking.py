import asyncio
import contextvars
import threading

import pytest

from greatseal.api.problems import Unavailable
from greatseal.kernel.blocking import BlockingPools

CALLER = contextvars.ContextVar("CALLER", default="nobody")


@pytest.fixture
def pools():
    pools = BlockingPools(threads=2, max_waiting=3)
    yield pools
    pools.close()


class Gate:
    """Work that stays in its thread until it is let go."""

    def __init__(self):
        self.entered = asyncio.Event()
        self.opened = threading.Event()
        self.loop = asyncio.get_running_loop()

    def __call__(self):
        self.loop.call_soon_threadsafe(self.entered.set)
        self.opened.wait(30)
        return threading.current_thread().name


async def occupied(pools, pool="slow", threads=2):
    """A pool whose threads are all busy: the gates and the callers."""
    gates, callers = [], []
    for _ in range(threads):
        gate = Gate()
        callers.append(asyncio.create_task(pools.run(pool, gate)))
        await gate.entered.wait()
        gates.append(gate)
    return gates, callers


async def test_work_runs_in_a_thread_of_its_pool(pools):
    name = await pools.run("pam", lambda: threading.current_thread().name)

    assert name.startswith("pam-")


async def test_arguments_results_and_errors_pass(pools):
    assert await pools.run("pam", divmod, 7, 3) == (2, 1)
    with pytest.raises(ZeroDivisionError):
        await pools.run("pam", divmod, 7, 0)
    assert await pools.run("pam", int, "ff", base=16) == 255


async def test_an_error_that_no_future_can_carry_reaches_the_caller_as_another(pools):
    with pytest.raises(RuntimeError, match="StopIteration"):
        await pools.run("pam", next, iter(()))
    assert await pools.run("pam", int) == 0


async def test_context_variables_of_the_caller_are_seen(pools):
    CALLER.set("alice")

    assert await pools.run("pam", CALLER.get) == "alice"


async def test_a_full_queue_refuses_and_other_pools_do_not(pools):
    gates, callers = await occupied(pools)
    callers += [asyncio.create_task(pools.run("slow", int)) for _ in range(3)]
    await asyncio.sleep(0)

    with pytest.raises(Unavailable) as refusal:
        await pools.run("slow", int)

    assert refusal.value.headers["Retry-After"]
    assert await pools.run("other", int) == 0
    for gate in gates:
        gate.opened.set()
    assert (await asyncio.gather(*callers))[2:] == [0, 0, 0]


async def test_no_more_threads_than_allowed(pools):
    names = set(await asyncio.gather(*(pools.run("pam", lambda: threading.current_thread().name) for _ in range(3))))

    assert names <= {"pam-1", "pam-2"}


async def test_threads_that_the_system_does_not_give_now_are_started_later(pools, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", exhausted)
        for _ in range(3):
            with pytest.raises(Unavailable):
                await pools.run("pam", int)
    assert await pools.run("pam", int) == 0

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", exhausted)
        assert await pools.run("pam", int) == 0


def exhausted(_thread):
    raise RuntimeError("can't start new thread")


async def test_work_whose_caller_was_cancelled_does_not_start(pools):
    gates, callers = await occupied(pools)
    started = []
    waiting = asyncio.create_task(pools.run("slow", started.append, 1))
    await asyncio.sleep(0)
    waiting.cancel()
    for gate in gates:
        gate.opened.set()

    await asyncio.gather(*callers)
    await pools.run("slow", int)

    assert waiting.cancelled()
    assert started == []


async def test_running_work_whose_caller_was_cancelled_ends_unheard(pools):
    gates, callers = await occupied(pools, threads=1)
    callers[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await callers[0]
    gates[0].opened.set()

    assert await pools.run("slow", int) == 0


async def test_closing_cancels_what_waits_and_refuses_new_work(pools):
    gates, callers = await occupied(pools)
    waiting = asyncio.create_task(pools.run("slow", int))
    await asyncio.sleep(0)

    pools.close()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(Unavailable):
        await pools.run("slow", int)
    for gate in gates:
        gate.opened.set()
    await asyncio.gather(*callers)
