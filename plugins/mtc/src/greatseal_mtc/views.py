"""A log for those who read it: tiles and bundles of any size that it has had, entries, roots and proofs.

Nothing here grows with the log: the tiles used last are in a :class:`~greatseal_mtc.tiles.TileCache` of a fixed size, the right edge is in
the head, and all else is read when it is asked for.
"""

from collections.abc import Sequence

from greatseal.api.log import LogCorrupt, LogReader
from greatseal_mtc import merkle, tiles
from greatseal_mtc.hashes import Hash
from greatseal_mtc.merkle import Range
from greatseal_mtc.state import Made, Tree, entries_of, staged_name
from greatseal_mtc.tiles import FULL, MissingTile, Reader, TileCache, TileName

__all__ = ["LogView", "OutOfRange"]


class OutOfRange(ValueError):
    """An index, a range or a size that the log does not have."""


class LogView:
    """A log as it was at the last :meth:`refresh`; ``name`` tells logs apart in the cache.

    Every method raises Unavailable when the storage cannot be read now, and LogCorrupt when it does not hold what the head promises.
    """

    def __init__(self, name: str, storage: LogReader, cache: TileCache) -> None:
        self.name = name
        self._storage = storage
        self._cache = cache
        self._tree: Tree | None = None

    async def refresh(self) -> bool:
        """Look how far the log is now; False when nothing was written yet."""
        head = await self._storage.head()
        if head is not None and (self._tree is None or self._tree.head != head):
            self._tree = Tree.of(head)
        return head is not None

    @property
    def tree(self) -> Tree:
        """The log at the last look."""
        assert self._tree is not None, "a view is refreshed first"
        return self._tree

    @property
    def size(self) -> int:
        """Entries."""
        return self.tree.head.size

    @property
    def root(self) -> bytes:
        """The root over all entries."""
        return self.tree.head.root

    @property
    def head(self) -> tuple[int, bytes]:
        """Size and root of one moment."""
        return self.tree.head.size, self.tree.head.root

    @property
    def made(self) -> Made:
        """How the log was made."""
        return self.tree.state.made

    @property
    def hash(self) -> Hash:
        """The hash function of the log."""
        return self.tree.hash

    async def root_at(self, size: int) -> bytes:
        """The root that the log had at that size. Raises OutOfRange."""
        tree = self.tree
        if size == tree.size:
            return tree.head.root
        if size == 0:
            return tree.hash.empty
        return (await self.hashes(size, [(0, size)]))[0]

    async def subtree_root(self, start: int, end: int) -> bytes:
        """The hash of a subtree. Raises OutOfRange for a range that is none, or reaches behind the log."""
        if not merkle.is_subtree(start, end):
            raise OutOfRange(f"[{start}, {end}) is no subtree")
        return (await self.hashes(end, [(start, end)]))[0]

    async def inclusion(self, index: int, start: int, end: int) -> list[bytes]:
        """The proof that a leaf is in a subtree, leaf side first; with ``start`` 0 that of RFC 9162. Raises OutOfRange."""
        try:
            ranges = merkle.inclusion(start, end, index)
        except ValueError as error:
            raise OutOfRange(str(error)) from error
        return await self.hashes(end, ranges)

    async def consistency(self, start: int, end: int, size: int) -> list[bytes]:
        """The proof that a subtree is one of the tree of that size; with ``start`` 0 that of RFC 9162. Raises OutOfRange."""
        try:
            ranges = merkle.consistency(start, end, size)
        except ValueError as error:
            raise OutOfRange(str(error)) from error
        return await self.hashes(size, ranges)

    async def leaf(self, index: int) -> bytes:
        """The hash of a leaf. Raises OutOfRange."""
        return (await self.hashes(index + 1, [(index, index + 1)]))[0]

    async def entry(self, index: int) -> bytes:
        """An entry. Raises OutOfRange."""
        if not 0 <= index < self.size:
            raise OutOfRange(f"the log has {self.size} entries: there is no {index}")
        bundle = await self._bundle(TileName(None, index >> 8, min(FULL, self.size - (index >> 8 << 8))))
        found, _ = entries_of(bundle or b"", (index & 0xFF) + 1)
        if len(found) <= index & 0xFF:
            raise LogCorrupt(f"the entry {index} is not there")
        return found[-1]

    async def read(self, name: TileName) -> bytes | None:
        """A tile or a bundle, full or of any width that it has had; None when there was none of that name."""
        if name.level is None:
            return await self._bundle(name)
        if (part := self.tree.part(name)) is not None:
            return part
        if not self.tree.is_full(name):
            return None
        content = await self._stored(TileName(name.level, name.number).path)
        if len(content) != FULL * self.hash.size:
            raise LogCorrupt(f"{name.path} has {len(content)} bytes, not {FULL * self.hash.size}")
        return content if name.width == FULL else content[: name.width * self.hash.size]

    async def _bundle(self, name: TileName) -> bytes | None:
        tree = self.tree
        if tree.is_full(name):
            content = await self._stored(TileName(None, name.number).path)
        elif name.number == tree.size >> 8 and name.width <= tree.size & 0xFF:
            content = await self._partial_bundle()
        else:
            return None
        found, end = entries_of(content, name.width)
        if len(found) < name.width:
            raise LogCorrupt(f"{name.path} has {len(found)} entries")
        return content[:end]

    async def _partial_bundle(self) -> bytes:
        """The entries that no full bundle has. When it became full meanwhile, those are in the full one."""
        tree = self.tree
        if tree.edge.bundle:
            return tree.edge.bundle
        parts = [await self._storage.read(staged_name(start)) for start in tree.state.staged]
        found = [part for part in parts if part is not None]
        return b"".join(found) if len(found) == len(parts) else await self._stored(TileName(None, tree.size >> 8).path)

    async def _stored(self, name: str) -> bytes:
        content = await self._storage.read(name)
        if content is None:
            raise LogCorrupt(f"{name} is not there")
        return content

    async def hashes(self, size: int, ranges: Sequence[Range]) -> list[bytes]:
        """The hashes of ranges of the tree of that size, such as those of many proofs. Raises OutOfRange for a size that it has not had."""
        if not 0 < size <= self.size:
            raise OutOfRange(f"the log has {self.size} entries, not {size}")
        try:
            return await Reader(self.name, self.hash, size, self._cache, self._fetch).hashes(ranges)
        except MissingTile as missing:
            raise LogCorrupt(str(missing)) from missing

    async def _fetch(self, name: str) -> bytes | None:
        return await self.read(tiles.parse_path(name))
