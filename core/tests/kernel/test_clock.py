"""What the wall clock is believed to have passed, whatever it is set to."""

import pytest

from greatseal.clock import FakeClock, SystemClock

HOUR = 3600
SECOND = 1_000_000


class Machine(SystemClock):
    """The real clock on a machine whose hands a test moves."""

    def __init__(self):
        super().__init__()
        self.seconds = 5_000.0
        self.wall = 1_800_000_000

    def now(self):
        return self.wall * SECOND

    def monotonic(self):
        return self.seconds

    def watch(self, minutes):
        """As the kernel's job does it; what is believed in the end."""
        for _ in range(minutes):
            self.passed()
            self.seconds += 60
            self.wall += 60
        return self.passed()


def test_nothing_has_passed_for_certain_before_an_hour_was_watched():
    clock = Machine()

    assert clock.watch(59) == 0
    assert clock.watch(1) == (clock.wall - HOUR) * SECOND


def test_a_jump_ahead_is_believed_after_an_hour():
    clock = Machine()
    clock.watch(61)
    before = clock.wall
    clock.wall += 24 * HOUR

    assert clock.watch(59) <= before * SECOND
    assert clock.watch(2) > (before + 23 * HOUR) * SECOND


def test_a_jump_ahead_that_is_put_right_leaves_no_trace():
    clock = Machine()
    clock.watch(61)
    clock.wall += 24 * HOUR
    clock.watch(30)
    clock.wall -= 24 * HOUR

    assert clock.watch(90) == (clock.wall - HOUR) * SECOND


def test_a_step_back_is_believed_at_once():
    clock = Machine()
    clock.watch(61)
    clock.wall -= 24 * HOUR

    assert clock.passed() == clock.now()


@pytest.mark.parametrize("seconds", [HOUR, 100 * HOUR])
def test_the_clock_of_tests_passes_as_a_real_one(seconds):
    clock = FakeClock()
    clock.advance(seconds)
    assert clock.passed() == clock.now() - HOUR * SECOND

    clock.step(24 * HOUR)
    assert clock.passed() == clock.now() - 25 * HOUR * SECOND
    clock.step(-48 * HOUR)
    assert clock.passed() == clock.now()
