"""How long a failure takes."""

import pytest

from greatseal.testing import FakeClock
from greatseal_pam import pace
from greatseal_pam.pace import Pace


@pytest.fixture
def slept(monkeypatch):
    waits = []

    async def sleep(seconds):
        waits.append(round(seconds, 6))

    monkeypatch.setattr(pace.asyncio, "sleep", sleep)
    return waits


async def fail(made, clock, took, delay=0.0):
    began = clock.monotonic()
    clock.advance(took)
    await made.failed(began, delay)


async def test_s078_a_quick_failure_takes_as_long_as_a_slow_one_of_late(slept):
    clock = FakeClock()
    made = Pace(clock)

    for took in (0.5, 0.25, 0.5, 1.0, 0.5):
        await fail(made, clock, took)

    assert slept == [0.25, 0.5]


async def test_the_delay_of_the_stack_comes_after(slept):
    clock = FakeClock()
    made = Pace(clock)
    await fail(made, clock, 0.5)

    await fail(made, clock, 0.25, 1.5)

    assert slept == [1.75]


async def test_one_slow_answer_holds_up_others_for_so_long_and_not_for_ever(slept):
    clock = FakeClock()
    made = Pace(clock)
    await fail(made, clock, 30.0)
    for _ in range(pace.REMEMBERED + 1):
        await fail(made, clock, 0.5)

    assert slept == [pace.SLOWEST - 0.5] * (pace.REMEMBERED - 1)
