"""Tiles: their paths, the objects that appending makes, and the hashes that are read from them."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.testing.parsers import ParserContract
from greatseal_mtc.hashes import HASHES, SHA256, Hash
from greatseal_mtc.merkle import Range, consistency, cover, inclusion, root
from greatseal_mtc.tiles import (
    MAX_ENTRY,
    Edge,
    MissingTile,
    Reader,
    Tile,
    TileCache,
    TileName,
    append,
    entries_path,
    parse_path,
    path,
    root_of,
)
from greatseal_mtc.wire import parse_bundle

VECTORS: Any = json.loads((Path(__file__).parent / "vectors/mtc.json").read_text())
PATHS = VECTORS["tile_paths"]


def entries(count: int, first: int = 0) -> list[bytes]:
    return [b"entry %d" % number for number in range(first, first + count)]


def log(size: int, hash: Hash = SHA256, batch: int = 100) -> tuple[Edge, dict[str, bytes]]:
    """A log that was made in batches: its edge, and all objects that it ever had."""
    edge, objects = Edge(), {}
    while edge.size < size:
        edge, made = append(hash, edge, entries(min(batch, size - edge.size), edge.size))
        for name, content in {**made, **edge.partials()}.items():
            assert objects.setdefault(name, content) == content, "an object never changes"
    return edge, objects


def reader(size: int, objects: dict[str, bytes], hash: Hash = SHA256, cache: TileCache | None = None) -> Reader:
    async def fetch(name: str) -> bytes | None:
        return objects.get(name)

    return Reader("default-1", hash, size, cache or TileCache(1 << 20), fetch)


# ---- Paths


def test_ca_151_paths_are_those_of_the_document():
    for what, written in PATHS["level/index -> path"].items():
        place, _, width = what.partition(" width ")
        level, _, number = place.partition("/")
        name = TileName(None if level == "entries" else int(level), int(number), int(width or 256))
        assert name.path == f"tile/{written}"
        assert parse_path(name.path) == name
    assert (path(2, 3, 4), entries_path(1000)) == ("tile/2/003.p/4", "tile/entries/x001/000")


@given(st.none() | st.integers(0, 63), st.integers(0, 1 << 48), st.integers(1, 256))
def test_a_path_is_read_as_it_was_written(level: int | None, number: int, width: int):
    name = TileName(level, number, width)

    assert parse_path(name.path) == name


@pytest.mark.parametrize(
    "text",
    [
        "", "tile/", "tile/0", "tile/0/", "tile/0/1", "tile/0/01", "tile/0/0001", "tile/0/1000", "tile/0/x1/000", "tile/0/001/000",
        "tile/0/x001/x000", "tile/0/x000/001", "tile/00/000", "tile/64/000", "tile/100/000", "tile/-1/000", "tile/+1/000",
        "tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/007", "tile/0/000.p/", "tile/0/000.p/1/", "tile/0/000.p/-1", "tile/0/000/",
        "tile/0/000\n",
"tile/0/000 ", "/tile/0/000", "tile//0/000", "tile/0/../000", "tile/0/x001/../000", "tile/0/000.p/1.p/1", "tile/Entries/000",
        "tile/entries/",
        "tile/entries/0", "tile/0/\u0661\u0661\u0661", "tile/0/%30%30%30", "tile/0/" + "x001/" * 20 + "000",
    ],
)  # fmt: skip
def test_another_spelling_of_a_path_is_refused(text: str):
    with pytest.raises(ValueError, match="tile"):
        parse_path(text)


class TestPath(ParserContract):
    valid = (b"tile/0/x001/x234/067.p/17",)
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        text = parts[0].decode("latin-1")
        assert parse_path(text).path == text


# ---- Appending


def test_ca_151_ca_152_a_log_of_70000_entries_has_the_tiles_of_the_document():
    expected = PATHS["tree 70000"]
    edge, objects = log(70_000, batch=9_999)
    names = [parse_path(name) for name in objects]
    widths = [len(level) // 32 for level in edge.levels]

    assert len([one for one in names if one.level == 0 and one.width == 256]) == expected["full_level0"]
    assert len([one for one in names if one.level == 1 and one.width == 256]) == expected["full_level1"]
    assert widths == [expected["partial_level0_width"], expected["partial_level1_width"], expected["partial_level2_width"]]
    assert edge.root(SHA256) == root(SHA256, [SHA256.leaf(one) for one in entries(70_000)])


def test_a_log_of_256_entries_has_no_partial_tile_of_leaves():
    edge, objects = log(256, batch=256)

    assert append(SHA256, Edge(), entries(256))[1].keys() == {"tile/0/000", "tile/entries/000"}
    assert set(objects) == {"tile/0/000", "tile/entries/000", "tile/1/000.p/1"}
    assert edge.levels[1] == root(SHA256, [SHA256.leaf(one) for one in entries(256)])


def test_ca_152_a_hash_of_a_level_is_the_root_of_256_hashes_of_the_one_below():
    _, objects = log(70_000, batch=8_192)
    leaves = [SHA256.leaf(one) for one in entries(70_000)]

    assert objects["tile/0/007"] == b"".join(leaves[7 * 256 : 8 * 256])
    assert objects["tile/1/000"] == b"".join(root(SHA256, leaves[at : at + 256]) for at in range(0, 65_536, 256))
    assert objects["tile/2/000.p/1"] == root(SHA256, leaves[:65_536])
    assert parse_bundle(objects["tile/entries/007"], 256) == entries(256, 7 * 256)


@given(st.lists(st.integers(0, 700), max_size=6))
def test_batches_make_the_same_log_as_one(batches: list[int]):
    edge, objects = Edge(), {}
    for batch in batches:
        edge, made = append(SHA256, edge, entries(batch, edge.size))
        objects.update(made)
    whole, at_once = append(SHA256, Edge(), entries(sum(batches)))

    assert edge == whole
    assert edge.root(SHA256) == root(SHA256, [SHA256.leaf(one) for one in entries(edge.size)])
    assert at_once == objects
    assert Edge.decode(SHA256, edge.encode(), edge.bundle) == edge


def test_nothing_appended_makes_no_objects():
    edge, _ = log(300)

    assert append(SHA256, edge, []) == (edge, {})


def test_an_entry_that_is_too_long_is_refused():
    edge, _ = append(SHA256, Edge(), [b"x" * MAX_ENTRY])

    assert edge.size == 1
    with pytest.raises(ValueError, match="65535 at most"):
        append(SHA256, edge, [b"x" * (MAX_ENTRY + 1)])


@pytest.mark.parametrize(
    "encoded", [b"", bytes(7), bytes(8) + b"x", (1).to_bytes(8), (1).to_bytes(8) + bytes(33), ((1 << 48) + 1).to_bytes(8) + bytes(64)]
)
def test_the_edge_of_another_log_is_refused(encoded: bytes):
    with pytest.raises(ValueError, match="edge of a log"):
        Edge.decode(SHA256, encoded, b"")


class TestEdge(ParserContract):
    valid = (log(70_000, batch=35_000)[0].encode(),)
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        assert Edge.decode(SHA256, parts[0], b"").encode() == parts[0]


# ---- Reading


@pytest.mark.parametrize("name", HASHES)
@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 300, 1000])
async def test_hashes_are_read_from_tiles(name: str, size: int):
    hash = HASHES[name]
    _, objects = log(size, hash)
    leaves = [hash.leaf(one) for one in entries(size)]
    wanted: list[Range] = [(0, size), *cover(size // 3, size)]
    for index in {0, size // 2, size - 1}:
        wanted += inclusion(0, size, index)
        wanted += consistency(0, index + 1, size)

    found = await reader(size, objects, hash).hashes(wanted)

    assert found == [root(hash, leaves[start:end]) for start, end in wanted]


async def test_an_older_size_is_read_when_its_partial_tiles_are_gone():
    objects = log(1000)[1]
    for name in log(300)[0].partials():
        objects.pop(name)
    leaves = [SHA256.leaf(one) for one in entries(300)]

    with pytest.raises(MissingTile, match=r"tile/1/000\.p/1 is not there"):
        await reader(300, objects).hashes([(0, 300)])
    assert await reader(300, {**objects, "tile/1/000": log(65_536, batch=65_536)[1]["tile/1/000"]}).hashes([(0, 300)]) == [
        root(SHA256, leaves)
    ]


async def test_a_tile_that_is_missing_or_of_another_length_is_told():
    _, objects = log(600)
    with pytest.raises(MissingTile, match="tile/0/001 is not there"):
        await reader(600, {name: objects[name] for name in objects if name != "tile/0/001"}).hashes([(256, 257)])
    with pytest.raises(MissingTile, match="tile/0/001 has 31 bytes, not 8192"):
        await reader(600, {**objects, "tile/0/001": b"x" * 31}).hashes([(256, 257)])


async def test_tiles_are_kept_up_to_a_bound():
    _, objects = log(256 * 40, batch=1024)
    cache, asked = TileCache(100_000), []

    async def fetch(name: str) -> bytes | None:
        asked.append(name)
        return objects.get(name)

    read = Reader("default-1", SHA256, 256 * 40, cache, fetch)
    for number in range(40):
        await read.hashes([(256 * number + 1, 256 * number + 2)])
    assert len(asked) == 40
    assert (len(cache), cache.bytes <= cache.max_bytes) == (5, True)

    held, content = (len(cache), cache.bytes), objects["tile/0/039"]
    cache.put("default-1", 0, 39, Tile(SHA256, content), content)
    assert (len(cache), cache.bytes) == held, "it is there once"
    await read.hashes([(256 * 39, 256 * 39 + 1)])
    assert len(asked) == 40, "it is at hand"
    await Reader("other-1", SHA256, 256 * 40, cache, fetch).hashes([(256 * 39, 256 * 39 + 1)])
    await read.hashes([(0, 1)])
    assert len(asked) == 42, "another log has other tiles, and the first one is gone"


@given(
    batches=st.lists(st.sampled_from([1, 1, 2, 3, 100, 255, 256, 257, 600]), min_size=1, max_size=12),
    name=st.sampled_from(["sha256", "sha512"]),
)
def test_ca_070_peaks_that_grow_with_a_log_are_those_of_its_edge(batches: list[int], name: str) -> None:
    hash, edge, peaks = HASHES[name], Edge(), ()
    for count in batches:
        after, _ = append(hash, edge, entries(count, edge.size))
        peaks = after.grown_peaks(hash, edge, peaks)
        edge = after
        assert peaks == edge.peaks(hash)
        assert len(peaks) == edge.size.bit_count()
        assert root_of(hash, peaks) == root(hash, [hash.leaf(one) for one in entries(edge.size)])
