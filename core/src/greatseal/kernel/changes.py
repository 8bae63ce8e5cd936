"""Memory that follows the database: caches by key and whole snapshots, told of every change after its commit."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Generic, TypeVar

import structlog

from greatseal.api.store import Database, Tx

T = TypeVar("T")

log: structlog.stdlib.BoundLogger = structlog.get_logger("greatseal.changes")


class _Absent:
    """Not in memory: None is a value."""


_ABSENT = _Absent()


class _Failed:
    """What those who waited for another one's load get to know. Without error the loader was cancelled: try again."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


class ChangesHub:
    """A :class:`greatseal.host.Changes`. Whoever learns of commits calls :meth:`notify` on the event loop."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._memory: defaultdict[str, list[Callable[[str], None]]] = defaultdict(list)
        self._subscribers: defaultdict[str, list[Callable[[str], None]]] = defaultdict(list)

    def cache(self, kind: str, load: Callable[[Tx, str], T | None], *, size: int = 10_000) -> "MemoryCache[T]":
        """See :meth:`greatseal.host.Changes.cache`."""
        cache = MemoryCache(self._db, load, size)
        self._memory[kind].append(cache.forget)
        return cache

    def snapshot(self, kinds: Sequence[str], load: Callable[[Tx], T]) -> "MemorySnapshot[T]":
        """See :meth:`greatseal.host.Changes.snapshot`."""
        snapshot = MemorySnapshot(self._db, load)
        for kind in kinds:
            self._memory[kind].append(snapshot.forget)
        return snapshot

    def subscribe(self, kind: str, fn: Callable[[str], None]) -> None:
        """See :meth:`greatseal.host.Changes.subscribe`."""
        self._subscribers[kind].append(fn)

    def notify(self, pairs: Iterable[tuple[str, str]]) -> None:
        """What was committed. All memory forgets before the first subscriber hears, so that none of them reads the old."""
        changed = list(dict.fromkeys(pairs))
        for kind, id in changed:
            for forget in self._memory.get(kind, ()):
                forget(id)
        for kind, id in changed:
            for fn in self._subscribers.get(kind, ()):
                try:
                    fn(id)
                except Exception:
                    log.exception("a subscriber failed", kind=kind)


class MemoryCache(Generic[T]):
    """A bounded map that forgets the least recently used. What was read before a change is never kept after it."""

    def __init__(self, db: Database, load: Callable[[Tx, str], T | None], size: int) -> None:
        self._db = db
        self._load = load
        self._size = size
        self._values: OrderedDict[str, T | None] = OrderedDict()
        self._loading: dict[str, asyncio.Future[T | _Failed | None]] = {}

    def peek(self, key: str) -> T | None:
        """See :meth:`greatseal.host.Cache.peek`."""
        return self._values.get(key)

    async def get(self, key: str) -> T | None:
        """See :meth:`greatseal.host.Cache.get`."""
        found: Any = self._values.get(key, _ABSENT)
        if found is not _ABSENT:
            self._values.move_to_end(key)
            value: T | None = found
            return value
        while (waiting := self._loading.get(key)) is not None:
            result = await asyncio.shield(waiting)
            if not isinstance(result, _Failed):
                return result
            if result.error is not None:
                raise result.error
        return await self._fetch(key)

    async def _fetch(self, key: str) -> T | None:
        mine: asyncio.Future[T | _Failed | None] = asyncio.get_running_loop().create_future()
        self._loading[key] = mine
        result: T | _Failed | None = _Failed(None)
        try:
            value = result = await self._db.read(self._load, key)
        except Exception as error:
            result = _Failed(error)
            raise
        else:
            if self._loading.get(key) is mine:
                self._keep(key, value)
            return value
        finally:
            if self._loading.get(key) is mine:
                del self._loading[key]
            mine.set_result(result)

    def _keep(self, key: str, value: T | None) -> None:
        self._values[key] = value
        if len(self._values) > self._size:
            self._values.popitem(last=False)

    def forget(self, key: str) -> None:
        """The row changed. A load that is under way is not kept, and nobody joins it any more."""
        self._values.pop(key, None)
        self._loading.pop(key, None)


class MemorySnapshot(Generic[T]):
    """One immutable value."""

    def __init__(self, db: Database, load: Callable[[Tx], T]) -> None:
        @wraps(load)  # keeps the mark of scan
        def load_whole(tx: Tx, _: str) -> T:
            return load(tx)

        self._only: MemoryCache[T] = MemoryCache(db, load_whole, 1)

    async def get(self) -> T:
        """See :meth:`greatseal.host.Snapshot.get`."""
        found: Any = self._only.peek("")
        if found is None:
            found = await self._only.get("")
        value: T = found
        return value

    def forget(self, _id: str) -> None:
        """Something in it changed."""
        self._only.forget("")
