"""Nonces: ours, fresh, once, in bounded memory."""

import base64
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.testing import FakeClock
from greatseal_acme.protocol.nonces import Nonces


def made(**options) -> tuple[Nonces, FakeClock]:
    clock = FakeClock(1_700_000_000_000_000)
    return Nonces("n1", clock, **options), clock


def use(nonces: Nonces, nonce: str) -> bool:
    counter = nonces.read(nonce)
    return counter is not None and nonces.strike(counter)


def test_a_nonce_is_good_once():
    nonces, _ = made()
    nonce = nonces.issue()

    assert use(nonces, nonce)
    assert not use(nonces, nonce)


def test_reading_uses_nothing_up():
    nonces, _ = made()
    nonce = nonces.issue()

    assert nonces.read(nonce) == nonces.read(nonce) is not None


def test_a_nonce_grows_old():
    nonces, clock = made(max_age=60)
    nonce = nonces.issue()

    clock.advance(60)
    assert nonces.read(nonce) is not None
    clock.advance(1)
    assert nonces.read(nonce) is None


def test_a_nonce_of_another_process_is_refused():
    nonces, clock = made()

    assert nonces.read(Nonces("n1", clock).issue()) is None


def test_a_nonce_tells_which_node_it_is_from_and_that_node_alone_whether_it_is_true():
    nonces, clock = made()
    other = Nonces("n2", clock)

    assert nonces.maker_among(["n2", "n3"], other.issue()) == "n2"
    assert nonces.maker_among(["n3"], other.issue()) is None
    assert nonces.maker_among(["n2"], "no nonce") is None


def test_renewing_forgets_all_nonces():
    nonces, _ = made()
    before = nonces.issue()
    nonces.renew()

    assert nonces.read(before) is None
    assert use(nonces, nonces.issue())


def test_the_text_is_base64url_in_its_one_form():
    nonces, _ = made()
    nonce = nonces.issue()

    assert base64.urlsafe_b64encode(base64.urlsafe_b64decode(nonce)).decode() == nonce
    assert "=" not in nonce
    assert nonces.read(nonce + "=") is None
    assert nonces.read(nonce + "A") is None
    assert nonces.read(nonce[:-1]) is None


@given(st.text(max_size=60))
def test_no_other_text_is_a_nonce(text):
    nonces, _ = made()
    nonces.issue()

    assert nonces.read(text) is None


@given(st.integers(0, 39), st.characters(codec="ascii"))
def test_a_changed_nonce_is_refused(at, character):
    nonces, _ = made()
    nonce = nonces.issue()
    changed = nonce[:at] + character + nonce[at + 1 :]

    assert changed == nonce or nonces.read(changed) is None


@pytest.mark.parametrize(("ours", "other"), ["-+", "_/"])
def test_the_other_base64_alphabet_is_no_nonce(ours, other):
    nonces, _ = made()
    nonce = next(nonce for nonce in (nonces.issue() for _ in range(10_000)) if ours in nonce)

    assert nonces.read(nonce) is not None
    assert nonces.read(nonce.replace(ours, other)) is None


@given(st.lists(st.tuples(st.sampled_from(["issue", "use"]), st.integers(0, 100)), max_size=200))
def test_a_window_forgets_the_oldest_and_never_takes_one_twice(steps):
    window = 16
    nonces, _ = made(window=window)
    issued: list[str] = []
    used: set[int] = set()
    for step, number in steps:
        if step == "issue":
            issued.append(nonces.issue())
        elif number < len(issued):
            in_window = number >= len(issued) - window
            assert use(nonces, issued[number]) == (in_window and number not in used)
            if in_window:
                used.add(number)


def test_s105_a_million_nonces_take_no_memory():
    nonces, _ = made()
    first, before = nonces.issue(), sys.getsizeof(nonces._used)
    for _ in range(1_000_000):
        last = nonces.issue()

    assert sys.getsizeof(nonces._used) == before < 256 * 1024
    assert vars(nonces).keys() == vars(made()[0]).keys()
    assert use(nonces, last)
    assert use(nonces, first)  # still within the window of 2**20
