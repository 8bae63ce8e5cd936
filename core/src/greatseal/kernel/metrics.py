"""Counters and histograms in memory."""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

__all__ = ["Counter", "Histogram", "Metrics"]

M = TypeVar("M", "Counter", "Histogram")

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the buckets of a histogram of seconds."""
MOST = 2000
"""Sets of labels of one metric; what comes after them is not counted: somebody made a label of what anybody may choose."""
_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


class Counter:
    """See :class:`greatseal.host.Counter`."""

    def __init__(self, name: str, help: str, labels: Sequence[str]) -> None:  # as Prometheus calls it
        self.name, self.help, self.labels = name, help, tuple(labels)
        self._counts: dict[tuple[str, ...], float] = {}

    def add(self, amount: float, *labels: str) -> None:
        """See :meth:`greatseal.host.Counter.add`."""
        before = self._counts.get(labels)
        if before is not None:
            self._counts[labels] = before + amount
        elif len(self._counts) < MOST:
            _check(self, labels)
            self._counts[labels] = amount

    def counts(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """Each set of labels with its count."""
        yield from sorted(self._counts.items())


class _Row:
    __slots__ = ("_bounds", "buckets", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.buckets[bisect_left(self._bounds, value)] += 1
        self.total += value


def _uncounted(_value: float) -> None:
    """There are too many sets of labels."""


class Histogram:
    """See :class:`greatseal.host.Histogram`."""

    def __init__(self, name: str, help: str, labels: Sequence[str], bounds: Sequence[float]) -> None:  # as above
        self.name, self.help, self.labels = name, help, tuple(labels)
        self._bounds = tuple(sorted(bounds))
        self._rows: dict[tuple[str, ...], _Row] = {}

    def observe(self, value: float, *labels: str) -> None:
        """See :meth:`greatseal.host.Histogram.observe`."""
        self.of(*labels)(value)

    def of(self, *labels: str) -> Callable[[float], None]:
        """What :meth:`observe` does for these values of the labels, to be kept where the same come again and again."""
        row = self._rows.get(labels)
        if row is None:
            if len(self._rows) >= MOST:
                return _uncounted
            _check(self, labels)
            row = self._rows[labels] = _Row(self._bounds)
        return row.observe

    def rows(self) -> Iterator[tuple[tuple[str, ...], list[tuple[float, int]], float]]:
        """Each set of labels with its buckets (an upper bound, and how many are not above it) and the sum of what was observed."""
        for labels, row in sorted(self._rows.items(), key=lambda one: one[0]):
            yield labels, list(zip((*self._bounds, math.inf), accumulate(row.buckets), strict=True)), row.total


class Metrics:
    """Every metric of one kernel (:class:`greatseal.host.Metrics`)."""

    def __init__(self) -> None:
        self._made: dict[str, Counter | Histogram] = {}

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:  # as above
        """See :meth:`greatseal.host.Metrics.counter`."""
        return self._kept(Counter(name, help, labels))

    def histogram(self, name: str, help: str, labels: Sequence[str] = (), bounds: Sequence[float] = SECONDS) -> Histogram:
        """See :meth:`greatseal.host.Metrics.histogram`."""
        return self._kept(Histogram(name, help, labels, bounds))

    def all(self) -> list[Counter | Histogram]:
        """By their names."""
        return [self._made[name] for name in sorted(self._made)]

    def _kept(self, metric: M) -> M:
        wrong = [name for name in (metric.name, *metric.labels) if not _NAME.fullmatch(name) or name == "le"]
        if wrong or metric.name in self._made:
            raise ValueError(f"metric {metric.name}: " + (f"{wrong[0]!r} is no name" if wrong else "there is one of this name"))
        self._made[metric.name] = metric
        return metric


def _check(metric: Counter | Histogram, labels: tuple[str, ...]) -> None:
    if len(labels) != len(metric.labels):
        raise ValueError(f"metric {metric.name} has the labels {metric.labels}, not {len(labels)} of them")
