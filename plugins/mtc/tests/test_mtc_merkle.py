"""Trees, subtrees and their proofs, against the digests of the draft and single values."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal_mtc.hashes import HASHES, SHA256
from greatseal_mtc.merkle import (
    MAX_SIZE,
    BadProof,
    Range,
    consistency,
    cover,
    evaluate,
    inclusion,
    is_subtree,
    root,
    verify_consistency,
)

VECTORS: Any = json.loads((Path(__file__).parent / "vectors/mtc.json").read_text())
ACCUMULATED = VECTORS["accumulated_sha256_n130"]
BYTES = VECTORS["tree_byte_leaves"]
OTHER = SHA256.leaf(b"other")
LEAVES = [SHA256.leaf(bytes((number,))) for number in range(130)]

HASH_OF: dict[Range, bytes] = {}


def hash_of(one: Range) -> bytes:
    """The hash of a range of the leaves that are single bytes."""
    if one not in HASH_OF:
        HASH_OF[one] = root(SHA256, LEAVES[slice(*one)])
    return HASH_OF[one]


def subtrees(size: int = 130) -> Iterator[Range]:
    return ((start, end) for end in range(1, size + 1) for start in range(end) if is_subtree(start, end))


def proof(ranges: list[Range]) -> list[bytes]:
    return [hash_of(one) for one in ranges]


def digest(lines: Iterator[str]) -> str:
    return sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def shown(ranges: list[Range]) -> str:
    return "".join(f" {hash_of(one).hex()}" for one in ranges)


# ---- The four digests of -05 appendix C


def test_ca_070_the_hashes_of_all_subtrees_are_those_of_the_draft():
    found = list(subtrees())

    assert len(found) == 581
    assert digest(f"[{start}, {end}) {hash_of((start, end)).hex()}" for start, end in found) == ACCUMULATED["subtree_hashes"]


def test_the_inclusion_proofs_of_all_subtrees_are_those_of_the_draft():
    lines = (f"{index} [{start}, {end}){shown(inclusion(start, end, index))}" for start, end in subtrees() for index in range(start, end))

    assert digest(lines) == ACCUMULATED["subtree_inclusion_proofs"]


def test_the_consistency_proofs_of_all_subtrees_are_those_of_the_draft():
    def lines() -> Iterator[str]:
        for size in range(1, 131):
            for start, end in subtrees(size):
                yield f"[{start}, {end}) {size}{shown(consistency(start, end, size))}"

    assert digest(lines()) == ACCUMULATED["subtree_consistency_proofs"]


def test_what_covers_all_ranges_is_that_of_the_draft():
    """A range that is a subtree stands by itself there."""

    def lines() -> Iterator[str]:
        for end in range(1, 131):
            for start in range(end):
                found = ((start, end),) if is_subtree(start, end) else cover(start, end)
                yield " ".join(f"[{low}, {high})" for low, high in found)

    assert digest(lines()) == ACCUMULATED["covering_subtrees"]


# ---- Single values


def test_ca_071_the_root_of_nothing_is_the_hash_of_nothing():
    assert root(SHA256, []).hex() == BYTES["empty_root"]


def test_ca_063_a_leaf_is_hashed_after_a_zero_byte():
    assert {number: LEAVES[int(number)].hex() for number in BYTES["leaf_hash"]} == BYTES["leaf_hash"]
    assert SHA256.leaf(b"entry") == sha256(b"\0entry").digest()
    assert SHA256.node(b"left", b"right") == sha256(b"\1leftright").digest()


def test_ca_070_single_roots():
    assert {size: hash_of((0, int(size))).hex() for size in BYTES["root"]} == BYTES["root"]
    assert {one: hash_of(tuple(map(int, one.split(",")))).hex() for one in BYTES["subtree"]} == BYTES["subtree"]


@pytest.mark.parametrize("case", BYTES["inclusion"], ids=lambda case: f"{case['index']}-{case['start']}-{case['end']}")
def test_single_inclusion_proofs(case: Any):
    assert [one.hex() for one in proof(inclusion(case["start"], case["end"], case["index"]))] == case["proof"]


@pytest.mark.parametrize("case", BYTES["consistency"], ids=lambda case: f"{case['start']}-{case['end']}-{case['n']}")
def test_single_consistency_proofs(case: Any):
    assert [one.hex() for one in proof(consistency(case["start"], case["end"], case["n"]))] == case["proof"]


@pytest.mark.parametrize("case", BYTES["cover"], ids=lambda case: "-".join(map(str, case["interval"])))
def test_single_covers(case: Any):
    assert [list(one) for one in cover(*case["interval"])] == case["subtrees"]


def test_ca_056_a_hash_has_32_48_or_64_bytes():
    assert {name: one.size for name, one in HASHES.items()} == {
        "sha256": 32, "sha384": 48, "sha512": 64, "sha3-256": 32, "sha3-384": 48, "sha3-512": 64,
    }  # fmt: skip


# ---- What proofs prove


def slow_root(leaves: list[bytes]) -> bytes:
    """RFC 9162 s2.1.1, as it is written."""
    if len(leaves) == 1:
        return leaves[0]
    middle = 1
    while 2 * middle < len(leaves):
        middle *= 2
    return sha256(b"\1" + slow_root(leaves[:middle]) + slow_root(leaves[middle:])).digest()


@given(st.integers(1, 130))
def test_ca_070_the_root_is_that_of_the_rfc(size: int):
    assert root(SHA256, LEAVES[:size]) == slow_root(LEAVES[:size])


def test_every_inclusion_proof_holds_and_no_other_hash_does():
    for start, end in subtrees():
        for index in range(start, end):
            path = proof(inclusion(start, end, index))
            assert evaluate(SHA256, start, end, index, leaf=LEAVES[index], proof=path) == hash_of((start, end))
            assert evaluate(SHA256, start, end, index, leaf=LEAVES[index - 1], proof=path) != hash_of((start, end))
            for wrong in (path[1:], [*path, LEAVES[0]]) if path else ([LEAVES[0]],):
                with pytest.raises(BadProof):
                    evaluate(SHA256, start, end, index, leaf=LEAVES[index], proof=wrong)


def test_every_consistency_proof_holds_and_no_other_tree_does():
    for size in (*range(1, 40), 63, 64, 65, 127, 128, 129, 130):
        for start, end in subtrees(size):
            part, whole, path = hash_of((start, end)), hash_of((0, size)), proof(consistency(start, end, size))
            verify_consistency(SHA256, start, end, size, subtree=part, root=whole, proof=path)
            for other_part, other_whole, other_path in (
                (OTHER, whole, path),
                (part, OTHER, path),
                (part, whole, [*path, OTHER]),
                *([(part, whole, path[1:]), (part, whole, [OTHER, *path[1:]]), (part, whole, [*path[:-1], OTHER])] if path else []),
            ):
                with pytest.raises(BadProof):
                    verify_consistency(SHA256, start, end, size, subtree=other_part, root=other_whole, proof=other_path)


@given(st.integers(0, MAX_SIZE - 1), st.integers(1, MAX_SIZE))
def test_what_covers_a_range_is_subtrees_and_little_more(start: int, length: int):
    end = min(start + length, MAX_SIZE)
    found = cover(start, end)

    assert all(is_subtree(*one) for one in found)
    assert (found[0][0] <= start, found[-1][1]) == (True, end)
    if len(found) == 2:
        (low, middle), (next_one, _) = found
        assert middle == next_one
        assert (middle - low).bit_count() == 1, "the left one is full"
        assert start - low < (middle - low + 1) / 2


@given(st.integers(0, MAX_SIZE - 1), st.integers(0, 47), st.data())
def test_proofs_in_the_largest_trees_have_as_many_hashes_as_they_should(end: int, height: int, data: st.DataObject):
    end += 1
    start = end - 1 >> height << height
    index = data.draw(st.integers(start, end - 1))
    path = [LEAVES[1]] * len(inclusion(start, end, index))

    evaluate(SHA256, start, end, index, leaf=LEAVES[0], proof=path)
    with pytest.raises(BadProof, match=f"of {len(path) + 1} hashes"):
        evaluate(SHA256, start, end, index, leaf=LEAVES[0], proof=[*path, LEAVES[0]])
    ranges = consistency(start, end, MAX_SIZE)
    with pytest.raises(BadProof, match=r"is not of the subtree|is not one of the tree"):
        verify_consistency(SHA256, start, end, MAX_SIZE, subtree=LEAVES[0], root=LEAVES[0], proof=[LEAVES[1]] * len(ranges))


@pytest.mark.parametrize(
    ("start", "end"), [(0, 0), (4, 4), (5, 4), (-1, 1), (1, 3), (4, 9), (7, 9), (0, MAX_SIZE + 1), (MAX_SIZE, MAX_SIZE + 1)]
)
def test_what_is_no_subtree_has_no_proofs(start: int, end: int):
    assert not is_subtree(start, end)
    with pytest.raises(ValueError, match="no leaf"):
        inclusion(start, end, start)
    with pytest.raises(BadProof, match="no leaf"):
        evaluate(SHA256, start, end, start, leaf=LEAVES[0], proof=[])
    with pytest.raises(ValueError, match="no subtree"):
        consistency(start, end, 1000)
    with pytest.raises(BadProof, match="no subtree"):
        verify_consistency(SHA256, start, end, 1000, subtree=LEAVES[0], root=LEAVES[0], proof=[])


@pytest.mark.parametrize(("start", "end"), [(0, 0), (4, 4), (5, 4), (-1, 1), (0, MAX_SIZE + 1)])
def test_what_is_no_range_is_not_covered(start: int, end: int):
    with pytest.raises(ValueError, match="no range"):
        cover(start, end)


@pytest.mark.parametrize("index", [3, 8])
def test_a_leaf_outside_of_the_subtree_has_no_proof(index: int):
    with pytest.raises(ValueError, match="no leaf"):
        inclusion(4, 8, index)
    with pytest.raises(BadProof, match="no leaf"):
        evaluate(SHA256, 4, 8, index, leaf=LEAVES[0], proof=[LEAVES[0]] * 2)


@pytest.mark.parametrize("size", [7, MAX_SIZE + 1])
def test_a_tree_that_is_too_small_or_too_large_has_no_consistency_proof(size: int):
    with pytest.raises(ValueError, match="no subtree"):
        consistency(4, 8, size)


def test_a_hash_of_another_length_is_refused():
    with pytest.raises(BadProof, match="31 bytes"):
        evaluate(SHA256, 0, 2, 0, leaf=LEAVES[0], proof=[LEAVES[1][:31]])
    with pytest.raises(BadProof, match="not of 32 bytes"):
        verify_consistency(SHA256, 0, 1, 2, subtree=LEAVES[0], root=hash_of((0, 2)), proof=[LEAVES[1] + b"x"])
