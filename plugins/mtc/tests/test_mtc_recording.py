"""What the database keeps of a log, whatever is written to it twice or late."""

import msgspec
import pytest

from greatseal.api.problems import Internal
from greatseal_mtc.recording import (
    Numbers,
    add_waiting,
    find,
    find_at,
    give_up,
    is_waiting,
    keep_built,
    numbers_of,
    open_number,
    record,
)
from greatseal_mtc.state import Batch
from greatseal_mtc.stored_landmarks import active, allocate, build, covering, prune
from greatseal_mtc.stored_landmarks import find as find_landmark

OTHER = "other"
"""A CA whose log no process feeds."""
ONE, TWO, THREE = (f"{number:036}" for number in (1, 2, 3))


@pytest.fixture
async def desk(open_desk):
    return await open_desk(profiles={"default": {}, "tree": {"issue_as": "mtc"}})


async def test_what_has_an_index_keeps_it(desk):
    await desk.db.write(add_waiting, ONE, OTHER, "x509", b"tbs")
    await desk.db.write(record, OTHER, 1, Batch(5, (ONE,)))
    before = await desk.db.read(find, ONE)

    await desk.db.write(record, OTHER, 2, Batch(7, (ONE,)))
    await desk.db.write(give_up, OTHER, ONE, "it is too long")

    assert (before.log_number, before.index) == (1, 5)
    assert await desk.db.read(find, ONE) == before


async def test_what_is_given_up_does_not_wait_any_more(desk):
    await desk.db.write(add_waiting, ONE, OTHER, "x509", b"tbs")
    assert await desk.db.read(is_waiting, OTHER) is True

    await desk.db.write(give_up, OTHER, ONE, "it is too long")

    assert await desk.db.read(is_waiting, OTHER) is False
    assert await desk.db.read(find, ONE) is None


async def test_a_standalone_certificate_is_stored_once(desk):
    await desk.db.write(add_waiting, ONE, OTHER, "x509", b"tbs")

    for made in (b"first", b"second"):
        await desk.db.write(keep_built, [(ONE, made)])

    assert (await desk.db.read(find, ONE)).standalone == b"first"


async def test_the_next_log_takes_what_the_one_before_has_no_standalone_certificate_of(desk):
    assert await desk.db.read(numbers_of, OTHER) is None
    await desk.db.write(open_number, OTHER, 2)
    for id in (ONE, TWO):
        await desk.db.write(add_waiting, id, OTHER, "x509", b"tbs")
    await desk.db.write(record, OTHER, 2, Batch(1, (ONE, TWO, THREE)))
    await desk.db.write(keep_built, [(ONE, b"made")])

    assert await desk.db.write(open_number, OTHER, 3) == Numbers(2, 3)
    assert await desk.db.write(open_number, OTHER, 2) == Numbers(2, 3), "no log is written again"

    found = [await desk.db.read(find, id) for id in (ONE, TWO, THREE)]
    assert [(one.log_number, one.index) for one in found] == [(2, 1), (None, None), (2, 3)]
    assert await desk.db.read(find_at, OTHER, 2, 2) is None
    assert (await desk.db.read(find_at, OTHER, 2, 3)).certificate_id == THREE


async def test_a_landmark_gets_one_certificate(desk):
    first = await desk.db.write(allocate, OTHER, 1, 5)

    assert [await desk.db.write(build, first.id, made) for made in (b"first", b"second")] == [True, False]

    assert (await desk.db.read(find_landmark, OTHER, 1, 0)).cert_der == b"first"
    assert await desk.db.read(find_landmark, OTHER, 1, 1) is None
    assert await desk.db.read(covering, OTHER, 1, 5) is None


async def test_landmarks_of_the_next_log_stay_when_the_oldest_go(desk):
    for size in (2, 3, 4):
        await desk.db.write(allocate, OTHER, 1, size)
        await desk.db.write(allocate, OTHER, 2, size)

    await desk.db.write(prune, OTHER, 1, 2)

    assert [[one.tree_size for one in await desk.db.read(active, OTHER, number)] for number in (1, 2)] == [[3, 4], [2, 3, 4]]
    await desk.db.write(prune, OTHER, 2, 2)
    assert [[one.tree_size for one in await desk.db.read(active, OTHER, number)] for number in (1, 2)] == [[], [3, 4]]


async def test_a_landmark_of_no_certificate_is_not_built(desk):
    await desk.log().checkpoints.run()
    await desk.db.write(allocate, "default", 1, 1)

    await desk.log().landmarks.tick()

    assert (await desk.db.read(active, "default", 1))[0].cert_der is None


async def test_no_landmark_relative_certificate_of_one_that_was_never_issued(desk):
    made = await desk.certify("a.example.com", profile="tree")
    landmark = await desk.log().landmarks.maybe_allocate()
    entry = await desk.entry(made.id)
    assert await desk.log().landmarks.relative(entry, landmark) is not None

    assert await desk.log().landmarks.relative(msgspec.structs.replace(entry, certificate_id=ONE), landmark) is None


async def test_a_log_whose_tiles_do_not_give_its_root_is_not_signed(desk, monkeypatch):
    await desk.certify("a.example.com", profile="tree")
    before = desk.log().checkpoints.published

    async def other(_start: int, _end: int) -> bytes:
        return bytes(32)

    monkeypatch.setattr(desk.log().log, "subtree_root", other)
    with pytest.raises(Internal):
        await desk.log().checkpoints.run()

    assert desk.log().checkpoints.published == before
