"""``greatseal log verify`` over logs of which one thing is not as it should be, and all else is."""

import pytest
from sqlalchemy import delete, insert, update

from greatseal.api.log import LogHead, LogReader
from greatseal_mtc import tiles
from greatseal_mtc.checking import Checked, Checking, Wrong
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.keys import note_line
from greatseal_mtc.note import Checkpoint, Note
from greatseal_mtc.state import Batch, Made, State, staged_name
from greatseal_mtc.tables import checkpoint, entry, landmark
from greatseal_mtc.tiles import Edge, TileCache
from greatseal_mtc.views import LogView
from greatseal_mtc.wire import NULL_ENTRY

BOTH = {"default": {}, "tree": {"issue_as": "mtc"}}
NOBODY = "nobody"


class Kept(LogReader):
    """A log in memory, whose parts a test may change."""

    def __init__(self, entries: list[bytes]) -> None:
        self.edge, self.objects = tiles.append(SHA256, Edge(), entries)
        self.objects[staged_name(0)] = self.edge.bundle

    async def head(self) -> LogHead:
        state = State(made=Made("sha256", "plants-05", 1, "32473.1"), edge=self.edge.encode(), last=Batch(1, ()), staged=(0,))
        return LogHead(size=self.edge.size, root=self.edge.root(SHA256), edge=state.encode())

    async def read(self, name: str) -> bytes | None:
        return self.objects.get(name)

    async def published(self, name: str) -> bytes | None:
        raise NotImplementedError


@pytest.fixture
async def check(open_desk):
    """``await check(kept)``: what is said of a log that the database knows nothing of."""
    desk = await open_desk(profiles=BOTH)

    async def run(kept: Kept) -> Checked:
        view = LogView("kept", kept, TileCache(1 << 20))
        await view.refresh()
        return await Checking(desk.service.host("mtc"), desk.issuance, NOBODY, view, []).run(lambda _: None)

    return run


def entries(count: int) -> list[bytes]:
    return [NULL_ENTRY, *(b"entry %d" % number for number in range(1, count))]


async def test_a_log_without_null_entry_is_told(check):
    assert (await check(Kept(entries(5)))).entries == 5

    with pytest.raises(Wrong, match="the entry 0 is not the null entry"):
        await check(Kept([b"entry 0", *entries(5)[1:]]))


@pytest.mark.parametrize("name", ["tile/entries/000", "tile/entries/001", "tile/0/000", "tile/0/001"])
async def test_what_is_not_there_is_told_by_its_name(check, name):
    kept = Kept(entries(600))
    del kept.objects[name]

    with pytest.raises(Wrong, match=f"{name} cannot be read: ") as caught:
        await check(kept)
    assert caught.value.index == 256 * int(name[-1])


async def test_a_head_that_is_not_made_of_the_tiles_is_told(check):
    kept = Kept(entries(512))
    level0, level1 = kept.edge.levels
    kept.edge = Edge(512, (level0, level1[:-1] + bytes([level1[-1] ^ 1])))

    with pytest.raises(Wrong, match="the head of the log says another root than its 512 entries make"):
        await check(kept)


async def test_a_tile_above_the_first_level_that_is_gone_or_not_made_of_those_below_is_told(check):
    kept = Kept(entries(65_536))
    assert (await check(kept)).entries == 65_536
    whole = kept.objects["tile/1/000"]
    kept.objects["tile/1/000"] = whole[:-1] + bytes([whole[-1] ^ 1])

    with pytest.raises(Wrong, match="tile/1/000 is not made of the tiles below it") as caught:
        await check(kept)
    assert caught.value.index == 255 * 256
    del kept.objects["tile/1/000"]
    with pytest.raises(Wrong, match="tile/1/000 cannot be read: "):
        await check(kept)


async def test_what_the_database_says_of_a_log_is_held_against_it(open_desk):
    desk = await open_desk(profiles=BOTH)
    log, host = desk.log(), desk.service.host("mtc")
    ids = [(await desk.certify(f"{number}.example.com", profile="tree")).id for number in range(3)]
    await log.checkpoints.run()
    key = log.keys.note_key(log.origin)
    size, root = log.log.head
    newest = log.checkpoints.published.checkpoint

    async def said(*changes):
        for change in changes:
            await desk.db.write(lambda tx, change=change: tx.run(change))
        view = desk.parts.logs.view_of("default", 1)
        await view.refresh()
        try:
            await Checking(host, desk.issuance, "default", view, [key]).run(lambda _: None)
        except Wrong as wrong:
            return str(wrong)
        return "right"

    async def note(**values):
        return await said(update(checkpoint).where(checkpoint.c.sequence_no == newest.sequence_no).values(**values))

    async def signed(size, root):
        of = Checkpoint(log.origin, size, root)
        return Note(of.text, (await note_line(log.keys.operator, key, of, time=0),)).encoded

    assert (await said(), size) == ("right", 4)
    unsigned = "the note of the checkpoint of 4 entries is none to go by: "
    assert (await note(note=newest.cosigned)).startswith(unsigned), "it is signed by the cosigner alone"
    for other in ((3, root), (4, bytes(32))):
        assert await note(note=await signed(*other)) == "the note of the checkpoint of 4 entries says another tree"
    assert await note(note=newest.note) == "right"
    assert await note(tree_size=5) == "the log has 4 entries, and a checkpoint of 5 was signed"
    assert await note(root_hash=bytes(32), tree_size=4) == "the checkpoint of 4 entries is of another tree than the log has: the log forked"
    assert await note(root_hash=root) == "right"
    row = {"ca_id": "default", "log_number": 1, "sequence_no": 9, "previous_size": 0, "created": 0}
    assert await said(insert(landmark).values(**row, tree_size=4)) == "right"
    assert (
        await said(update(landmark).where(landmark.c.sequence_no == 9).values(tree_size=5))
        == "the log has 4 entries, and the landmark 9 has 5"
    )
    assert await said(delete(landmark).where(landmark.c.sequence_no == 9)) == "right"
    beyond = "the log has 4 entries, and the database knows a certificate with the index 4"
    assert await said(update(entry).where(entry.c.position == 3).values(position=4)) == beyond
    assert await said(update(entry).where(entry.c.position == 4).values(position=3)) == "right"
    (one, other), swapped = ids[:2], "the entry 1 is not that of the certificate "
    exchange = [update(entry).where(entry.c.certificate_id == id).values(position=at) for id, at in ((one, 9), (other, 1), (one, 2))]
    assert await said(*exchange) == swapped + other
    lost = "the database does not know every entry: an older copy of it was put back"
    assert await said(delete(entry).where(entry.c.position < 3)) == lost
