"""Which node decides: about an id, by the number inside it; about a key from outside, by a hash over the configured nodes."""

from collections import Counter

import pytest

from greatseal.clock import FakeClock
from greatseal.handles import NodeHandles

LABELS = ("n1", "n2", "n3")


def nodes() -> list[NodeHandles]:
    return [NodeHandles(label, FakeClock(), [other for other in LABELS if other != label]) for label in LABELS]


def test_every_node_knows_the_maker_of_an_id():
    for maker in nodes():
        id = maker.new_id()
        assert {node.owner_of_id(id) for node in nodes()} == {maker.node_id}


@pytest.mark.parametrize("id", ["", "kid-1", "00000000-0000-4000-8000-000000000000"])
def test_an_id_that_no_node_made_has_no_owner(id):
    assert nodes()[0].owner_of_id(id) is None


def test_an_id_of_a_node_that_is_not_configured_has_no_owner():
    assert nodes()[0].owner_of_id(NodeHandles("gone", FakeClock()).new_id()) is None


def test_every_node_names_the_same_owner_of_a_key():
    owners = Counter()
    for number in range(3000):
        (owner,) = {node.owner_of_key(f"eab:{number}") for node in nodes()}
        owners[owner] += 1

    assert set(owners) == set(LABELS)
    assert min(owners.values()) > 800


def test_a_node_that_leaves_moves_only_its_own_keys():
    three, two = NodeHandles("n1", FakeClock(), ["n2", "n3"]), NodeHandles("n1", FakeClock(), ["n2"])

    for number in range(500):
        before = three.owner_of_key(f"eab:{number}")
        assert before == "n3" or two.owner_of_key(f"eab:{number}") == before


def test_a_node_alone_decides_about_everything():
    assert NodeHandles("n1", FakeClock()).owner_of_key("anything") == "n1"
