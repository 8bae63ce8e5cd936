"""Tiles (C2SP tlog-tiles): the tree of a log in objects of 256 hashes that never change, and its entries in bundles of 256.

The objects of a log are named by their paths: ``tile/0/x001/234`` is a tile, ``tile/entries/000.p/17`` the first bundle with 17 entries.
The log in the memory of whoever appends is its :class:`Edge`; any hash of it is read from tiles by a :class:`Reader`.
"""

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from greatseal_mtc.hashes import Hash
from greatseal_mtc.merkle import MAX_SIZE, Range

__all__ = [
    "FULL",
    "MAX_ENTRY",
    "Edge",
    "Reader",
    "Tile",
    "TileCache",
    "TileName",
    "append",
    "entries_path",
    "frame",
    "parse_path",
    "path",
    "root_of",
]

FULL = 256
"""Hashes of a full tile, entries of a full bundle."""
MAX_ENTRY = 0xFFFF
"""Bytes of an entry: its length has two in a bundle."""

Fetch = Callable[[str], Awaitable[bytes | None]]
"""Reads an object by its name; None when there is none."""

_PATH = re.compile(r"tile/(entries|0|[1-9]\d?)/((?:x\d{3}/)*\d{3})(?:\.p/([1-9]\d?|1\d\d|2[0-4]\d|25[0-5]))?", re.ASCII)
_LEVELS = 64
_LONGEST = 64
"""Characters of a path; a number has at most 17 digits."""


class TileName(NamedTuple):
    """What a path names: a tile of a level, or a bundle of entries, whose level is None."""

    level: int | None
    number: int
    width: int = FULL

    @property
    def path(self) -> str:
        """The path of the object."""
        return entries_path(self.number, self.width) if self.level is None else path(self.level, self.number, self.width)


def path(level: int, number: int, width: int = FULL) -> str:
    """The path of a tile, partial where ``width`` is below 256."""
    return f"tile/{level}/{_grouped(number)}{_partial(width)}"


def entries_path(number: int, width: int = FULL) -> str:
    """The path of a bundle of entries."""
    return f"tile/entries/{_grouped(number)}{_partial(width)}"


def parse_path(text: str) -> TileName:
    """What a path names. Raises ValueError for what :attr:`TileName.path` would not write."""
    found = _PATH.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise ValueError("not the path of a tile: expected tile/<level>/<number> with groups of three digits, such as tile/0/x001/234.p/56")
    level, number, width = found.groups()
    if number.startswith("x000/"):
        raise ValueError("the number of a tile does not begin with the group x000")
    if level != "entries" and int(level) >= _LEVELS:
        raise ValueError(f"the level of a tile is at most {_LEVELS - 1}")
    return TileName(None if level == "entries" else int(level), int(re.sub(r"\D", "", number)), int(width or FULL))


def frame(entry: bytes) -> bytes:
    """An entry as it stands in a bundle, after its length."""
    if len(entry) > MAX_ENTRY:
        raise ValueError(f"an entry of {len(entry)} bytes; a log takes {MAX_ENTRY} at most")
    return len(entry).to_bytes(2) + entry


class Edge(msgspec.Struct, frozen=True):
    """The right edge of a log: what is not yet in full tiles.

    ``levels`` are the hashes of the partial tile of each level, one after the other; ``bundle`` is the partial bundle as it is stored.
    """

    size: int = 0
    levels: tuple[bytes, ...] = ()
    bundle: bytes = b""

    def peaks(self, hash: Hash) -> tuple[bytes, ...]:
        """The roots of the complete trees that make up the log, from left to right: one for each bit of its size."""
        return tuple(peak for level in reversed(self.levels) for peak in _peaks(hash, level))

    def root(self, hash: Hash) -> bytes:
        """The root of the log."""
        return root_of(hash, self.peaks(hash))

    def grown_peaks(self, hash: Hash, before: "Edge", peaks: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """The same as :meth:`peaks`, from those ``before`` entries were appended: of one that came alone, in two hashes and not in 255."""
        if self.size >> 8 != before.size >> 8 or not before.size:
            return self.peaks(hash)
        node, size, found = hash.node, before.size, list(peaks)
        leaves = self.levels[0]
        for at in range((size & 0xFF) * hash.size, len(leaves), hash.size):
            tree, left = leaves[at : at + hash.size], size
            while left & 1:
                tree, left = node(found.pop(), tree), left >> 1
            found.append(tree)
            size += 1
        return tuple(found)

    def encode(self) -> bytes:
        """The size and the hashes; the partial bundle is an object."""
        return b"".join((self.size.to_bytes(8), *self.levels))

    @classmethod
    def decode(cls, hash: Hash, encoded: bytes, bundle: bytes) -> "Edge":
        """What :meth:`encode` wrote, with the partial bundle of this size. Raises ValueError."""
        size = int.from_bytes(encoded[:8])
        if size > MAX_SIZE:
            raise ValueError("not the edge of a log")
        widths = [size >> shift & 0xFF for shift in range(0, size.bit_length(), 8)]
        if len(encoded) != 8 + sum(widths) * hash.size:
            raise ValueError(
                f"the edge of a log of {size} entries has {sum(widths)} hashes of {hash.size} bytes, not {len(encoded) - 8} bytes"
            )
        levels, at = [], 8
        for width in widths:
            levels.append(encoded[at : at + width * hash.size])
            at += width * hash.size
        return cls(size, tuple(levels), bundle)

    def partials(self) -> dict[str, bytes]:
        """The partial tiles and the partial bundle of this size, by their names."""
        found = {}
        for level, hashes in enumerate(self.levels):
            if width := self.size >> 8 * level & 0xFF:
                found[path(level, self.size >> 8 * level + 8, width)] = hashes
        if width := self.size & 0xFF:
            found[entries_path(self.size >> 8, width)] = self.bundle
        return found


def root_of(hash: Hash, peaks: Sequence[bytes]) -> bytes:
    """The root of the log that complete trees make up."""
    node, found = hash.node, None
    for one in reversed(peaks):
        found = one if found is None else node(one, found)
    return hash.empty if found is None else found


def append(hash: Hash, edge: Edge, entries: Iterable[bytes]) -> tuple[Edge, dict[str, bytes]]:
    """Entries at the end of a log: its new edge, and by their names the full tiles and bundles that they completed.

    Raises ValueError for an entry of more than :data:`MAX_ENTRY` bytes.
    """
    entries = list(entries)
    framed = list(map(frame, entries))
    completed: dict[str, bytes] = {}
    number, bundle, at = edge.size >> 8, edge.bundle, 0
    for end in range(FULL - (edge.size & 0xFF), len(framed) + 1, FULL):
        completed[entries_path(number)] = b"".join((bundle, *framed[at:end]))
        number, bundle, at = number + 1, b"", end
    bundle = b"".join((bundle, *framed[at:]))
    levels: list[bytes] = []
    hashes, tile = list(map(hash.leaf, entries)), edge.size
    while hashes or tile:
        level, tile = len(levels), tile >> 8
        content = b"".join((edge.levels[level] if level < len(edge.levels) else b"", *hashes))
        hashes = []
        for start in range(0, len(content) - FULL * hash.size + 1, FULL * hash.size):
            full = content[start : start + FULL * hash.size]
            completed[path(level, tile + len(hashes))] = full
            hashes.append(_peaks(hash, full)[0])
        levels.append(content[len(hashes) * FULL * hash.size :])
    return Edge(edge.size + len(framed), tuple(levels), bundle), completed


class Tile:
    """A tile with the hashes above its own, computed when first wanted and only those that are complete."""

    __slots__ = ("_above", "_levels", "_size", "width")

    def __init__(self, hash: Hash, content: bytes) -> None:
        self._above, self._size = hash.above, hash.size
        self._levels = [content]
        self.width = len(content) // hash.size

    def hash_at(self, height: int, index: int) -> bytes:
        """The ``index``-th hash that is ``height`` levels above those of the tile."""
        while len(self._levels) <= height:
            self._levels.append(self._above(self._levels[-1]))
        return self._levels[height][index * self._size : (index + 1) * self._size]


class TileCache:
    """The tiles that were used last, of every log of the process, up to so many bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._tiles: OrderedDict[tuple[str, int, int, int], tuple[Tile, int]] = OrderedDict()

    def get(self, log: str, level: int, number: int, width: int) -> Tile | None:
        """A tile, when it is still there."""
        key = (log, level, number, width)
        found = self._tiles.get(key)
        if found is None:
            return None
        self._tiles.move_to_end(key)
        return found[0]

    def put(self, log: str, level: int, number: int, tile: Tile, content: bytes) -> None:
        """Keep a tile; those that were not used for longest go."""
        key = (log, level, number, tile.width)
        if key in self._tiles:
            return
        cost = 2 * len(content) + 600  # its hashes, those above them, and the objects that hold them
        self._tiles[key] = (tile, cost)
        self.bytes += cost
        while self.bytes > self.max_bytes and len(self._tiles) > 1:
            _, (_, gone) = self._tiles.popitem(last=False)
            self.bytes -= gone

    def __len__(self) -> int:
        return len(self._tiles)


class MissingTile(LookupError):
    """A tile that the log should have is not there, or is of another length."""


Tiles = Mapping[tuple[int, int], Tile]
"""Tiles by level and number."""


class Reader:
    """The hashes of a log of ``size`` entries, from its tiles.

    What a size has had stays: hashes of an older size come from a Reader of that size over the same tiles.
    """

    def __init__(self, log: str, hash: Hash, size: int, cache: TileCache, fetch: Fetch) -> None:
        self.log = log
        self.hash = hash
        self.size = size
        self._cache = cache
        self._fetch = fetch

    async def hashes(self, ranges: Sequence[Range]) -> list[bytes]:
        """The hashes of subtrees of the log, such as those of a proof. Raises MissingTile, and what the storage raises."""
        tiles, missing = self.tiles_for(ranges)
        if missing:
            tiles = {**tiles, **{(one.level or 0, one.number): await self._load(one) for one in missing}}
        return [self.hash_of(one, tiles) for one in ranges]

    def tiles_for(self, ranges: Iterable[Range]) -> tuple[Tiles, list[TileName]]:
        """The tiles that the hashes of the ranges come from: those at hand, and the names of those to be read."""
        at_hand, missing = {}, []
        for level, number in {(height >> 3, index >> 8 - (height & 7)) for start, end in ranges for height, index in _nodes(start, end)}:
            width = min(FULL, (self.size >> 8 * level) - (number << 8))
            tile = self._cache.get(self.log, level, number, width)
            if tile is None:
                missing.append(TileName(level, number, width))
            else:
                at_hand[level, number] = tile
        return at_hand, missing

    def hash_of(self, one: Range, tiles: Tiles) -> bytes:
        """The hash of a subtree, when all its tiles are at hand."""
        found, node = None, self.hash.node
        for height, index in reversed(_nodes(*one)):
            above = height & 7
            shift = 8 - above
            part = tiles[height >> 3, index >> shift].hash_at(above, index & (1 << shift) - 1)
            found = part if found is None else node(part, found)
        assert found is not None
        return found

    async def _load(self, name: TileName) -> Tile:
        """A tile from the storage; where the partial one is gone the full one has its hashes."""
        content = await self._fetch(name.path)
        if content is None and name.width < FULL:
            content = await self._fetch(TileName(name.level, name.number).path)
            content = content[: name.width * self.hash.size] if content is not None else None
        if content is None:
            raise MissingTile(f"{name.path} is not there")
        if len(content) != name.width * self.hash.size:
            raise MissingTile(f"{name.path} has {len(content)} bytes, not {name.width * self.hash.size}")
        tile = Tile(self.hash, content)
        self._cache.put(self.log, name.level or 0, name.number, tile, content)
        return tile


def _nodes(start: int, end: int) -> list[tuple[int, int]]:
    """The complete nodes, by height and index, that make up a subtree, from left to right."""
    nodes, left = [], end - start
    while left:
        height = left.bit_length() - 1
        nodes.append((height, start >> height))
        start += 1 << height
        left -= 1 << height
    return nodes


def _peaks(hash: Hash, hashes: bytes) -> list[bytes]:
    """The roots of the complete trees that hashes of a tile make up, from left to right: one of a full tile."""
    peaks, level = [], hashes
    while level:
        if len(level) // hash.size & 1:
            peaks.append(level[-hash.size :])
        level = hash.above(level)
    peaks.reverse()
    return peaks


def _grouped(number: int) -> str:
    """A number in groups of three digits, all but the last one with an x."""
    text = f"{number % 1000:03}"
    while number := number // 1000:
        text = f"x{number % 1000:03}/{text}"
    return text


def _partial(width: int) -> str:
    return "" if width == FULL else f".p/{width}"
