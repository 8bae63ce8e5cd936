"""Where a transparency log rests: append-only objects and one head that moves by compare-and-swap.

The log itself (tree, tiles, checkpoints) is the mtc plugin's; a backend stores bytes under names and keeps four promises:

- **Durable.** When ``commit`` or ``publish`` has returned, what it wrote survives a power cut.
- **Atomic.** A ``commit`` that was cut off is seen by the next holder either whole, objects and head, or not at all.
- **Once.** An object never changes: writing other bytes under a name that exists is :class:`LogCorrupt`.
- **One writer.** While a :class:`LogWriter` is held no other process holds one of that log, and a writer that lost its hold without
  knowing (a network pause) changes nothing: each holder raises a number, or replaces a mark, that :class:`LogWriter` looks at.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import ClassVar

import msgspec

from greatseal.api.problems import Internal, Unavailable


class LogHead(msgspec.Struct, frozen=True, kw_only=True):
    """How far a log is: its ``size`` in entries, its ``root`` hash, and ``edge``, which the backend keeps and does not read."""

    size: int
    root: bytes
    edge: bytes = b""


class LogReader(ABC):
    """A log, open for reading in any process. Every method raises Unavailable when the storage cannot be reached now."""

    @abstractmethod
    async def head(self) -> LogHead | None:
        """The head of the last commit; None before the first one."""

    @abstractmethod
    async def read(self, name: str) -> bytes | None:
        """A committed object, such as ``tile/0/000.p/17``; None when there is none of that name or it was discarded."""

    @abstractmethod
    async def published(self, name: str) -> bytes | None:
        """What :meth:`LogWriter.publish` wrote last under ``name``."""


class LogWriter(LogReader):
    """A log that this process alone may append to. Calls come one at a time; each raises LogMoved when the hold was lost."""

    @abstractmethod
    async def commit(self, before: LogHead | None, after: LogHead, objects: Mapping[str, bytes]) -> None:
        """Write ``objects`` and move the head from ``before`` to ``after``, as one step.

        Indices below ``after.size`` are promised from here on, so nothing that names them may leave the process earlier.
        Raises :class:`LogMoved` when the head is not ``before``, :class:`LogCorrupt` when an object exists with other bytes, Unavailable
        when it could not be written: nothing is visible then, and the same call, or another one, may be made. Where the storage went away
        before it answered, :class:`~greatseal.api.problems.Uncertain`: :meth:`head` tells what became of it.
        """

    @abstractmethod
    async def publish(self, name: str, content: bytes) -> None:
        """Replace a small document that is not an object, such as ``checkpoint``: readers see the old one or the new one, whole."""

    @abstractmethod
    async def discard(self, names: Iterable[str]) -> None:
        """Objects that will not be read any more, such as a partial tile whose full one exists. A name without object is no error."""


class LogBackend(ABC):
    """Storage for logs, chosen by its ``name``: ``files``, ``sql``."""

    name: ClassVar[str]

    @abstractmethod
    def hold(self, log: str) -> AbstractAsyncContextManager[LogWriter]:
        """Take the log for writing until the context ends; made when it does not exist. Raises :class:`LogHeld`.

        Entering finishes or undoes a commit that was cut off.
        """

    @abstractmethod
    def reader(self, log: str) -> LogReader:
        """The log for reading, without a hold; it may be empty."""


class LogHeld(Unavailable):
    """Another process writes the log; the detail names it where that is known."""


class LogMoved(Internal):
    """The head is not the one that the writer knew: it has lost its hold, or an old backup was restored."""


class LogCorrupt(Internal):
    """An object is missing or holds other bytes than the log promises."""
