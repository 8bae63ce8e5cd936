import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.clock import FakeClock
from greatseal.kernel.limits import LimitsImpl


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def limits(clock):
    return LimitsImpl(clock, max_keys=100)


def test_hits_over_the_limit_say_how_long_to_wait(limits, clock):
    assert [limits.hit("login", "192.0.2.1", 3, 60) for _ in range(3)] == [None] * 3
    clock.advance(10.5)

    assert limits.hit("login", "192.0.2.1", 3, 60) == 50


def test_who_waits_as_told_is_let_through(limits, clock):
    for _ in range(3):
        limits.hit("login", "k", 3, 60)
    clock.advance(limits.hit("login", "k", 3, 60))

    assert limits.hit("login", "k", 3, 60) is None


def test_hammering_does_not_prolong_the_wait(limits, clock):
    limits.hit("login", "k", 1, 60)
    for _ in range(59):
        clock.advance(1)
        assert limits.hit("login", "k", 1, 60)
    clock.advance(1)

    assert limits.hit("login", "k", 1, 60) is None


def test_a_limit_of_zero_is_off(limits):
    assert all(limits.hit("login", "k", 0, 60) is None for _ in range(1000))


def test_keys_and_buckets_count_for_themselves(limits):
    limits.hit("login", "a", 1, 60)

    assert limits.hit("login", "b", 1, 60) is None
    assert limits.hit("other", "a", 1, 60) is None
    assert limits.hit("login", "a", 1, 60) == 60


def test_a_reset_forgets_one_key(limits):
    for key in ("a", "b"):
        limits.hit("login", key, 1, 60)

    limits.reset("login", "a")
    limits.reset("unknown", "a")

    assert limits.hit("login", "a", 1, 60) is None
    assert limits.hit("login", "b", 1, 60)


def test_memory_is_bounded_and_the_most_recent_keys_stay(limits):
    for number in range(1000):
        limits.hit("login", "active", 10_000, 60)
        limits.hit("login", f"key{number}", 1, 60)

    assert len(limits._buckets["login"]) == 100
    assert limits.hit("login", "key999", 1, 60)
    assert limits.hit("login", "key0", 1, 60) is None
    assert limits.hit("login", "active", 1000, 60)


def test_a_wall_clock_that_is_set_changes_nothing(limits, clock):
    limits.hit("login", "k", 1, 60)
    clock.step(-3600)

    assert limits.hit("login", "k", 1, 60) == 60


@given(st.lists(st.floats(0, 30), max_size=80), st.integers(1, 5))
def test_no_window_ever_holds_more_than_the_limit(pauses, limit):
    clock = FakeClock()
    limits = LimitsImpl(clock)
    passed = []
    for pause in pauses:
        clock.advance(pause)
        if limits.hit("b", "k", limit, 20) is None:
            passed.append(clock.monotonic())

    assert all(sum(at - 20 < other <= at for other in passed) <= limit for at in passed)
