"""The picture of the way from a leaf to the root: every step is computed, and both hashes of a level stand on their sides."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal_mtc import merkle
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.merkle import BadProof
from greatseal_mtc.page.picture import picture, walk

LEAVES = [SHA256.leaf(bytes([n])) for n in range(70)]


def proof_of(start: int, end: int, index: int) -> list[bytes]:
    return [merkle.root(SHA256, LEAVES[a:b]) for a, b in merkle.inclusion(start, end, index)]


@given(st.integers(1, 70).flatmap(lambda size: st.tuples(st.integers(0, size - 1), st.just(size))))
def test_the_way_leads_to_the_root_from_every_leaf(where: tuple[int, int]) -> None:
    index, size = where
    steps, root = walk(SHA256, (0, size), index, LEAVES[index], proof_of(0, size, index))

    assert root == merkle.root(SHA256, LEAVES[:size])
    assert all(step.hash == merkle.root(SHA256, LEAVES[step.own[0] : step.own[1]]) for step in steps)


def test_a_proof_that_was_changed_leads_elsewhere_and_one_of_another_length_nowhere():
    proof = proof_of(0, 70, 33)

    assert walk(SHA256, (0, 70), 33, LEAVES[33], [*proof[:-1], bytes(32)])[1] != merkle.root(SHA256, LEAVES)
    for wrong in (proof[1:], [*proof, bytes(32)]):
        with pytest.raises(BadProof):
            walk(SHA256, (0, 70), 33, LEAVES[33], wrong)
    with pytest.raises(BadProof):
        walk(SHA256, (0, 70), 70, LEAVES[33], proof)


@pytest.mark.parametrize(("index", "size"), [(0, 1), (0, 2), (5, 8), (69, 70), (64, 65)])
def test_the_picture_has_a_box_for_each_hash_on_its_side(index, size):
    steps, root = walk(SHA256, (0, size), index, LEAVES[index], proof_of(0, size, index))
    text = picture(steps, (0, size), root, title="The <way>", words=str)
    drawn = ET.fromstring(text)

    boxes = [(node.get("class"), float(node[0].get("x") or 0), [text.text for text in node[1:]]) for node in drawn.iter("g")]
    assert len(boxes) == 1 + 2 * len(steps)
    assert drawn.get("aria-label") == "The <way>"
    assert boxes[0][2][1] == f"{root[:6].hex()}…"
    for step, pair in zip(reversed(steps), zip(boxes[1::2], boxes[2::2], strict=True), strict=True):
        (proof, proof_x, proof_said), (own, own_x, own_said) = pair
        assert (proof, own) == ("node proof", "node own")
        assert (own_x < proof_x) == step.is_left
        assert (proof_said[1], own_said[1]) == (f"{step.proof[:6].hex()}…", f"{step.hash[:6].hex()}…")
    assert not re.search("style=|<script", text), "the policy of the page lets none through"
