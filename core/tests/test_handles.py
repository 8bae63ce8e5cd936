import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.clock import FakeClock, SystemClock
from greatseal.handles import NodeHandles, node_number, node_number_of


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def handles(clock):
    return NodeHandles("n1", clock, ["n1", "n2", "n3"])


def test_a_handle_names_its_kind_and_node(handles):
    handle = handles.mint("code")

    kind, node, random = handle.split("_", 2)
    assert (kind, node, len(random)) == ("code", "n1", 43)
    assert handles.node_of(handle, "code") == "n1"


def test_a_handle_of_one_kind_is_none_of_another(handles):
    assert handles.node_of(handles.mint("code"), "refresh") is None


def test_a_handle_of_another_node_tells_it(handles, clock):
    assert handles.node_of(NodeHandles("n2", clock).mint("code"), "code") == "n2"


def test_a_handle_is_minted_once(handles):
    assert len({handles.mint("code", 16) for _ in range(1000)}) == 1000


@pytest.mark.parametrize("handle", ["", "code", "code_n1", "code_n1_", "code_n1_short", "code_N1_" + "a" * 43, "code__" + "a" * 43])
def test_what_is_no_handle_has_no_node(handles, handle):
    assert handles.node_of(handle, "code") is None


@given(st.text())
def test_any_text_is_looked_at_without_an_error(text):
    handles = NodeHandles("n1", SystemClock())

    assert handles.node_of(f"code_n1_{text}", "code") in {"n1", None}
    assert handles.node_of(text, "code") is None or text.startswith("code_")
    assert node_number_of(text) is None


@pytest.mark.parametrize(("kind", "size"), [("Code", 32), ("a_b", 32), ("", 32), ("code", 8)])
def test_a_kind_or_size_that_would_be_ambiguous_or_weak_is_a_mistake(handles, kind, size):
    with pytest.raises(ValueError):
        handles.mint(kind, size)


@pytest.mark.parametrize("label", ["", "N1", "n_1", "n-1", "thirteen00000", "n\u0661"])
def test_a_node_label_is_lower_case_letters_and_digits(label, clock):
    with pytest.raises(ValueError, match="node_id"):
        NodeHandles(label, clock)


def test_two_nodes_of_one_number_are_refused(clock):
    assert node_number("n9") == node_number("n128")

    with pytest.raises(ValueError, match="same node number"):
        NodeHandles("n9", clock, ["n9", "n128"])
    alone = NodeHandles("n9", clock)
    with pytest.raises(ValueError, match="same node number"):
        alone.know(["n128"])
    assert alone.members == ("n9",)


def test_a_public_id_is_a_uuid_of_version_8_with_the_node_inside(handles):
    id = handles.new_id()

    parsed = uuid.UUID(id)
    assert (parsed.version, parsed.variant, str(parsed)) == (8, uuid.RFC_4122, id)
    assert node_number_of(id) == node_number("n1")
    assert handles.owner_of_id(id) == "n1"


def test_public_ids_of_later_seconds_sort_later(handles, clock):
    first = handles.new_id()
    clock.advance(1)

    assert first < handles.new_id()
    assert len({handles.new_id() for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    "change", ["".format, "x".format, "{{{}}}".format, "urn:uuid:{}".format, str.upper, lambda text: text.replace("-", "")]
)
def test_an_id_of_another_form_has_no_owner(handles, change):
    id = handles.new_id()
    assert handles.owner_of_id(id) == "n1"

    assert handles.owner_of_id(change(id)) is None


def test_an_id_of_another_version_has_no_owner(handles):
    for version in "1234567":
        assert handles.owner_of_id(handles.new_id()[:14] + version + handles.new_id()[15:]) is None


def test_an_id_of_a_node_that_is_not_configured_has_no_owner(handles, clock):
    assert handles.owner_of_id(NodeHandles("gone", clock).new_id()) is None


def test_every_node_gives_the_same_owner_of_a_key_from_outside(clock):
    labels = ["n1", "n2", "n3"]
    owners = [[NodeHandles(label, clock, labels).owner_of_key(f"kid{i}") for i in range(300)] for label in labels]

    assert owners[0] == owners[1] == owners[2]
    assert all(owners[0].count(label) > 50 for label in labels)


def test_the_wall_clock_may_go_back_and_the_other_not():
    clock = FakeClock(10_000_000)
    before = clock.monotonic()

    clock.step(-3)

    assert clock.now() == 7_000_000
    assert clock.monotonic() == before
