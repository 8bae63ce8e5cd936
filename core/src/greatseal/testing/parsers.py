"""What everything that reads bytes of strangers must do, as a test class to inherit."""

import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.problems import Problem

__all__ = ["ParserContract"]

CPU_SECONDS = 0.05
"""Of one input. A few that take more hold up everybody else."""
TRIES = 3
"""The shortest counts: a collection of garbage may fall into any one."""
MUTATIONS = 1000
MOST_SAID = 2000
PUT = (
    b"", b"\0", b"\xff", b'"', b"{", b"}", b"[", b"\\u0000", b"\\ud800", b"9" * 30, b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"=", b";",
    b".", b" ", b"\r\n", "\u212a".encode(), "\u202e".encode(),
)  # fmt: skip
"""What readers of DER, of JSON and of text are known to stumble over."""

GONE = (*range(9), *[None] * 9)

Change = tuple[int, int, int | None, bytes]
"""The part, the place in it, how many bytes go (None: as many as come), what comes in their stead. Numbers beyond the end count on from
the start."""


class ParserContract(ABC):
    """Inherit, say what is right, how it is read and by what errors it is refused, and the rest is tested.

    .. code-block:: python

        class TestOcspRequest(ParserContract):
            valid = (REQUEST,)
            refusals = Malformed

            def read(self, *parts):
                assert parse(parts[0]).certificates
    """

    valid: tuple[bytes, ...]
    """An input that is read, in parts which change each for itself: what lies under base64 or a signature is its own part."""
    refusals: type[Exception] | tuple[type[Exception], ...]
    """What :meth:`read` may raise for other inputs. A problem is one of 4xx, short, and fit to be shown."""
    costly: Sequence[tuple[bytes, ...]] = ()
    """Inputs, as large as they can come, that would take long to read."""

    @abstractmethod
    def read(self, *parts: bytes) -> None:
        """Put the parts together, read them, and assert what holds of everything that is read."""

    def test_what_is_right_is_read(self) -> None:
        self.read(*self.valid)

    def test_what_is_costly_is_read_or_refused_soon(self) -> None:
        for parts in self.costly:
            self._hold(parts)

    def test_seeded_mutations_are_read_or_refused_soon(self) -> None:
        chosen = random.Random(8555)  # noqa: S311
        for _ in range(MUTATIONS):
            changes = [
                (
                    chosen.randrange(9),
                    chosen.randrange(1 << 16),
                    chosen.choice(GONE),
                    chosen.choice([*PUT, *map(chosen.randbytes, (1, 1, 3))]),
                )
                for _ in range(chosen.randint(1, 4))
            ]
            self._hold(_changed(self.valid, changes))

    def test_whatever_comes_is_read_or_refused_soon(self) -> None:
        put = st.sampled_from(PUT) | st.binary(max_size=8)
        change = st.tuples(st.integers(0, 8), st.integers(0, (1 << 16) - 1), st.sampled_from(GONE), put)
        changes = st.lists(change, min_size=1, max_size=4)
        noise = st.tuples(*(st.binary(max_size=400) | st.just(part) for part in self.valid))

        @given(changes.map(lambda some: _changed(self.valid, some)) | noise)
        def holds(parts: tuple[bytes, ...]) -> None:
            self._hold(parts)

        holds()

    def _hold(self, parts: tuple[bytes, ...]) -> None:
        least = math.inf
        for _ in range(TRIES):
            wrong, began = False, time.thread_time()
            try:
                self.read(*parts)
            except self.refusals as refusal:
                wrong = isinstance(refusal, Problem) and not _is_fit(refusal)
            except Exception as error:
                error.add_note(f"the input: {parts!r}")
                raise
            least = min(least, time.thread_time() - began)
            assert not wrong, parts
            if least < CPU_SECONDS:
                return
        raise AssertionError(f"{least * 1000:.0f} ms of CPU for {sum(map(len, parts))} bytes: {[part[:200] for part in parts]}")


def _is_fit(problem: Problem) -> bool:
    return 400 <= problem.status < 500 and problem.detail.isprintable() and len(problem.detail) < MOST_SAID


def _changed(parts: Sequence[bytes], changes: Sequence[Change]) -> tuple[bytes, ...]:
    changed = [bytearray(part) for part in parts]
    for which, place, gone, put in changes:
        part = changed[which % len(changed)]
        at = place % (len(part) + 1)
        part[at : at + (len(put) if gone is None else gone)] = put
    return tuple(map(bytes, changed))
