"""Checkpoints, landmarks and revoked ranges of a running log, and what a start finds."""

import asyncio
import shutil
from contextlib import suppress

import pytest
from sqlalchemy import select

from greatseal.api.declarations import Job
from greatseal.api.problems import Conflict, StartProblem
from greatseal.db.tables import insert_new
from greatseal.testing import FakeClock
from greatseal.testing.schema import schema_matches
from greatseal.testing.service import document, serve
from greatseal_mtc import merkle
from greatseal_mtc.landmark_list import LandmarkList
from greatseal_mtc.merkle import cover
from greatseal_mtc.note import Checkpoint, Note, NoteKey, open_note
from greatseal_mtc.recording import find_at, numbers_of, open_number
from greatseal_mtc.revoked_ranges import ranges_of
from greatseal_mtc.stored_checkpoints import keep, listed, newest_of
from greatseal_mtc.stored_landmarks import active, allocate, covering
from greatseal_mtc.structures import Checkpoint as CheckpointDer
from greatseal_mtc.structures import LandmarkCertificate
from greatseal_mtc.tables import SCHEMA, checkpoint, cosignature, landmark, witnessed
from greatseal_mtc.verify import Refused, verify_certificate, verify_landmark

TREE = {"default": {"issue_as": "mtc"}}
BOTH = {"default": {}, "tree": {"issue_as": "mtc"}}
DAY = 86_400 * 1_000_000


def test_the_tables_are_what_the_migrations_make(database_url):
    assert schema_matches(SCHEMA, database_url) == []


async def rows_of(desk, table):
    return await desk.rows(select(table))


# ---- Checkpoints


async def test_ca_031_ca_032_ca_165_a_checkpoint_is_signed_stored_and_then_shown(open_desk, database_url):
    desk = await open_desk(profiles=TREE, database={"url": database_url, "migrate": "auto"})
    await desk.certify("a.example.com")
    log = desk.log()

    await log.checkpoints.run()

    stored = await desk.db.read(newest_of, "default", 1)
    parsed = CheckpointDer.parse(stored.der)
    assert (parsed.size, parsed.root, parsed.log.public_key) == (*log.log.head, log.keys.spki)
    message = log.signer.message(0, stored.size, stored.root, time=stored.created_at // 1_000_000)
    log.keys.cosigner.public_key.verify(stored.signature, message)
    assert log.checkpoints.published.checkpoint == stored
    operator, cosigner = map(NoteKey.parse, log.vkeys)
    for note, key, origin in (
        (stored.note, operator, f"{desk.service.url}/acme/mtc/tlog"),
        (stored.cosigned, cosigner, f"{desk.service.url}/acme/mtc/tlog"),
        (stored.log_note, cosigner, "oid/1.3.6.1.4.1.32473.1.0.1"),
    ):
        assert open_note(Note.parse(note), [key])[0] == Checkpoint(origin, stored.size, stored.root)
    assert await log.log._writer.published("checkpoint") == stored.note


async def test_ca_057_ca_164_no_growth_no_action(open_desk):
    desk = await open_desk(profiles=TREE)
    log = desk.log()
    await log.checkpoints.run()
    before = await rows_of(desk, checkpoint)

    await log.checkpoints.run()
    assert await rows_of(desk, checkpoint) == before
    await desk.certify("a.example.com")
    await log.checkpoints.run()

    assert [row.sequence_no for row in await rows_of(desk, checkpoint)] == [0, 1]
    jobs = {job.name: job for job in desk.parts.jobs()}
    assert isinstance(jobs["mtc-checkpoints-default"], Job)
    assert (jobs["mtc-checkpoints-default"].every, jobs["mtc-landmarks-default"].every) == (3600, 60)


async def test_no_size_has_two_checkpoints(open_desk):
    desk = await open_desk(profiles=TREE)
    await desk.log().checkpoints.run()
    newest = await desk.db.read(newest_of, "default", 1)

    with pytest.raises(Conflict):
        await desk.db.write(keep, newest)
    await asyncio.gather(*(desk.log().checkpoints.run() for _ in range(5)))
    assert len(await rows_of(desk, checkpoint)) == 1


async def test_ca_034_old_checkpoints_go_with_what_others_signed_for_them(open_desk):
    desk = await open_desk(profiles=TREE, mtc={"checkpoint_retention_count": 2})
    log = desk.log()
    await log.checkpoints.run()

    def cosigned(tx):
        for row in tx.all(select(checkpoint.c.sequence_no)):
            place = {"ca_id": "default", "sequence_no": row.sequence_no, "url": "u", "first": 0, "last": 1, "der": b"", "received_at": 0}
            tx.run(insert_new(cosignature), **place)
            line = {"ca_id": "default", "sequence_no": row.sequence_no, "url": "u", "line": "", "of_log": 0, "received_at": 0}
            tx.run(insert_new(witnessed), **line)

    for number in range(4):
        await desk.db.write(cosigned)
        await desk.certify(f"{number}.example.com")
        await log.checkpoints.run()

    assert [row.sequence_no for row in await rows_of(desk, checkpoint)] == [3, 4]
    assert [[row.sequence_no for row in await rows_of(desk, one)] for one in (cosignature, witnessed)] == [[3], [3]]
    assert (await desk.db.read(listed, "default", 10))[0] == log.checkpoints.published.checkpoint


async def test_ca_173_standalone_certificates_prove_themselves_in_the_new_part_alone(open_desk):
    desk = await open_desk(profiles=BOTH)
    log, now = desk.log(), desk.service.kernel.clock.now()
    await log.checkpoints.run()
    for round_ in range(3):
        before = log.log.size
        made = [await desk.certify(f"{number}.{round_}.example.com", profile="default") for number in range(5)]
        for one in made:
            await desk.logged(one.id)
        await log.checkpoints.run()
        subtrees = cover(before, log.log.size)
        for one in made:
            entry = await desk.entry(one.id)
            found = verify_certificate(desk.trust(), entry.standalone, now)
            assert (found.index, (found.start, found.end) in subtrees) == (entry.index, True)


async def test_standalone_certificates_that_a_kill_left_out_are_made_by_the_next_process(tmp_path, open_desk, monkeypatch):
    desk = await open_desk(profiles=BOTH)
    certificate = await desk.certify("a.example.com", profile="default")
    await desk.logged(certificate.id)

    async def killed(*_):
        raise asyncio.CancelledError

    monkeypatch.setattr(desk.log().checkpoints._standalones, "make", killed)
    with suppress(asyncio.CancelledError):
        await desk.log().checkpoints.run()
    monkeypatch.undo()
    assert (await desk.entry(certificate.id)).standalone is None

    desk.log().checkpoints._left_over = True  # as in a process that has just begun
    await desk.log().checkpoints.run()

    found = verify_certificate(desk.trust(), (await desk.entry(certificate.id)).standalone, desk.service.kernel.clock.now())
    assert (found.start, found.end) == (0, desk.log().log.size)


# ---- Landmarks


async def test_ca_038_ca_039_ca_040_ca_043_ca_044_ca_102_ca_176_ca_178_a_landmark_is_allocated_and_built(open_desk, database_url):
    desk = await open_desk(profiles=TREE, database={"url": database_url, "migrate": "auto"}, mtc={"landmark_interval_secs": 1})
    log = desk.log()
    assert await desk.db.read(active, "default", 1) == []
    assert await log.landmarks.maybe_allocate() is None  # no certificate
    certificate = await desk.certify("a.example.com")

    await log.landmarks.tick()
    (first,) = await desk.db.read(active, "default", 1)

    assert (first.ca_id, first.sequence_no, first.number, first.tree_size, first.previous_size) == ("default", 0, 1, 2, 0)
    assert first.created <= desk.service.kernel.clock.now() // 1_000_000
    assert first.tree_size == log.checkpoints.published.size
    found = LandmarkCertificate.parse(first.cert_der)
    assert (found.index, found.landmark.size, found.landmark.log.public_key) == (1, 2, log.keys.spki)
    assert verify_landmark(desk.trust(), first.cert_der).index == 1
    assert await log.landmarks.maybe_allocate() is None  # it has not grown
    entry = await desk.entry(certificate.id)
    assert await desk.db.read(covering, "default", 1, entry.index) == first
    relative = await log.landmarks.relative(entry, first)
    (subtree,) = [one for one in cover(0, 2) if one[0] <= entry.index < one[1]]
    known = {(1, *subtree): await log.log.subtree_root(*subtree)}
    now = desk.service.kernel.clock.now()
    assert verify_certificate(desk.trust(subtrees=known), relative, now).signed_by == ()
    with pytest.raises(Refused):
        verify_certificate(desk.trust(), relative, now)


async def test_ca_178_however_many_entries_have_no_certificate_the_last_one_that_has_is_the_representative(open_desk, monkeypatch):
    monkeypatch.setattr("greatseal_mtc.landmarks.TRIED", 4)
    desk = await open_desk(profiles=TREE)
    log = desk.log()
    await desk.certify("a.example.com")
    await asyncio.gather(*(log.log.append(f"{number:036}", b"given up %d" % number) for number in range(11)))

    await log.landmarks.maybe_allocate()
    await log.landmarks.tick()

    *_, landmark = await desk.db.read(active, "default", 1)
    assert landmark.tree_size == 13
    assert verify_landmark(desk.trust(), landmark.cert_der).index == 1


async def test_ca_180_ca_272_the_proof_of_a_landmark_is_that_over_all_leaf_hashes_of_its_size(open_desk, monkeypatch):
    desk = await open_desk(profiles=TREE)
    log = desk.log()
    for number in range(5):
        await desk.certify(f"{number}.example.com")
    frozen = await log.landmarks.maybe_allocate()
    await desk.certify("later.example.com")
    await log.landmarks.tick()

    (built,) = [one for one in await desk.db.read(active, "default", 1) if one.tree_size == frozen.tree_size]
    found = LandmarkCertificate.parse(built.cert_der)
    leaves = [await log.log.leaf(index) for index in range(built.tree_size)]
    assert found.path == tuple(merkle.root(log.log.hash, leaves[start:end]) for start, end in merkle.inclusion(0, len(leaves), found.index))
    assert merkle.root(log.log.hash, leaves) == await log.log.root_at(built.tree_size)


async def test_ca_177_ca_181_landmarks_come_in_their_time_and_the_oldest_go(start_service, open_desk):
    clock = FakeClock()
    desk = await open_desk(profiles=TREE, clock=clock, mtc={"max_active_landmarks": 2})
    log = desk.log()
    sizes = []
    for number in range(4):
        await desk.certify(f"{number}.example.com")
        await log.landmarks.tick()
        sizes.append((await desk.db.read(active, "default", 1))[-1].tree_size)
        await desk.certify(f"early.{number}.example.com")
        await log.landmarks.tick()  # too early
        assert (await desk.db.read(active, "default", 1))[-1].tree_size == sizes[-1]
        clock.advance(86_400)

    kept = await desk.db.read(active, "default", 1)
    assert [(one.sequence_no, one.previous_size, one.tree_size) for one in kept] == [(2, sizes[1], sizes[2]), (3, sizes[2], sizes[3])]
    assert await log.landmarks.list() == LandmarkList(4, (sizes[3], sizes[2], sizes[1]))
    entry = await desk.db.read(find_at, "default", 1, 1)
    first = await desk.db.read(covering, "default", 1, 1)
    assert first.sequence_no == 2
    assert await log.landmarks.relative(entry, first) is None  # the landmark that had it first is gone


async def test_ca_035_ca_036_ca_037_ca_041_ca_042_ca_179_allocating_is_idempotent_by_size(open_desk):
    desk = await open_desk(profiles=TREE)
    first = await desk.db.write(allocate, "default", 1, 5)

    assert await desk.db.write(allocate, "default", 1, 5) == first
    assert await desk.db.write(allocate, "default", 1, 4) is None
    second, other = await desk.db.write(allocate, "default", 1, 9), await desk.db.write(allocate, "two", 1, 5)
    assert (second.sequence_no, second.previous_size, other.sequence_no) == (1, 5, 0)
    assert (first.id, second.id, other.id) == (1, 2, 3)
    assert (first.ca_id, first.sequence_no, other.ca_id) == ("default", 0, "two")
    assert len(await rows_of(desk, landmark)) == 3


async def test_a_landmark_without_certificate_is_built_at_the_next_tick(open_desk, monkeypatch):
    desk = await open_desk(profiles=TREE)
    await desk.certify("a.example.com")
    log = desk.log()

    async def killed(*_):
        raise asyncio.CancelledError

    monkeypatch.setattr(log.landmarks, "_build", killed)
    with suppress(asyncio.CancelledError):
        await log.landmarks.tick()
    assert [one.cert_der for one in await desk.db.read(active, "default", 1)] == [None]
    monkeypatch.undo()

    await log.landmarks.tick()

    assert [one.cert_der is None for one in await desk.db.read(active, "default", 1)] == [False]


# ---- Revoked


async def test_revoked_certificates_are_told_in_ranges_until_they_have_ended(open_desk):
    clock = FakeClock()
    desk = await open_desk(profiles={"default": {"validity_days": 5}, "tree": {"issue_as": "mtc", "validity_days": 5}}, clock=clock)
    ranges = desk.parts.logs.revoked
    made = [await desk.certify(f"{number}.example.com", profile=("default", "tree")[number % 2]) for number in range(6)]
    indices = [(await desk.logged(one.id)).index for one in made]
    assert sorted(indices) == list(range(1, 7))
    assert await ranges.of("default", 1) == []
    for one in (made[0], made[1], made[4]):
        await desk.revoke(one)

    told = ranges_of(sorted(indices[number] for number in (0, 1, 4)))
    assert await ranges.of("default", 1) == told
    assert await ranges.of("default", 2) == []
    clock.advance(5.5 * 86_400)
    await ranges.tidy(["default"])
    assert await ranges.of("default", 1) == told  # clocks of relying parties differ
    clock.advance(86_400)
    await ranges.tidy(["default"])
    assert await ranges.of("default", 1) == []


def test_ranges_are_half_open_and_neighbours_are_one():
    assert ranges_of([1, 2, 3, 7, 9, 10]) == [(1, 4), (7, 8), (9, 11)]
    assert ranges_of([]) == []


# ---- What a start finds


def config(folder, **mtc):
    return document(folder, ["ca", "mtc"], mtc={"trust_anchor_id": "32473.1", **mtc}, profiles=TREE)


@pytest.fixture
def run(at):
    """``await run(config, 3)``: a service that issues so many and signs; what is shown in the end, and the log's number."""

    async def start(config, certificates=1, domain="example.com"):
        async with serve(config) as service:
            desk = at(service)
            for number in range(certificates):
                await desk.certify(f"{number}.{domain}")
            await desk.log().checkpoints.run()
            return desk.log().checkpoints.published, desk.log().number, desk.log().origin

    return start


@pytest.mark.parametrize("backend", ["files", "sql"])
async def test_a_restart_goes_on_where_it_was(tmp_path, run, backend):
    settings = config(tmp_path, log_backend=backend)
    first, _, _ = await run(settings, 3)
    second, number, _ = await run(settings, 300)

    assert (first.size, second.size, number) == (4, 304, 1)
    third, _, _ = await run(settings, 0)
    assert third == second


async def test_f27_a_log_that_was_put_back_from_a_backup_is_not_written(tmp_path, run):
    settings = config(tmp_path)
    await run(settings, 2)
    shutil.copytree(tmp_path / "mtc", tmp_path / "backup")
    await run(settings, 2)
    shutil.rmtree(tmp_path / "mtc")
    shutil.copytree(tmp_path / "backup", tmp_path / "mtc")

    with pytest.raises(StartProblem, match=r"an older copy was put back.*greatseal log recover"):
        await run(settings)


async def test_f27_a_log_that_was_lost_is_not_begun_anew(tmp_path, run):
    settings = config(tmp_path)
    await run(settings, 2)
    shutil.rmtree(tmp_path / "mtc")

    with pytest.raises(StartProblem, match=r"it was lost.*greatseal log recover"):
        await run(settings)


async def test_a_log_of_other_entries_is_not_written(tmp_path, run):
    settings, other = config(tmp_path), config(tmp_path / "other")
    (tmp_path / "other").mkdir()
    await run(settings, 2)
    await run(other, 4, "example.org")  # entries of the same names in the same second are the same
    shutil.rmtree(tmp_path / "mtc")
    shutil.copytree(tmp_path / "other" / "mtc", tmp_path / "mtc")

    with pytest.raises(StartProblem, match="another root at size 3 than was signed"):
        await run(settings)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"hash_alg": "sha384"}, "hash_alg 'sha256'"),
        ({"trust_anchor_id": "32473.7"}, "trust_anchor_id '32473.1'"),
        ({"dialect": "plants-07"}, "dialect 'plants-05'"),
    ],
)
async def test_ca_055_a_log_keeps_what_it_was_made_with(tmp_path, run, changed, said):
    await run(config(tmp_path))

    with pytest.raises(StartProblem, match=said):
        await run(config(tmp_path, **changed))


async def test_ca_074_f05_a_second_process_on_a_log_is_refused_at_once(tmp_path, run):
    shared = str(tmp_path / "shared")
    (tmp_path / "other").mkdir()
    async with serve(config(tmp_path, log_path=shared)):
        with pytest.raises(StartProblem, match="one process writes a log"):
            await run(config(tmp_path / "other", log_path=shared))


async def test_the_next_log_number_goes_on_after_a_lost_log(tmp_path, run, at):
    settings = config(tmp_path)
    first, _, origin = await run(settings, 2)
    shutil.rmtree(tmp_path / "mtc")
    async with serve({**settings, "mtc": {"enabled": False}, "profiles": {"default": {}}}) as service:
        numbers = await service.kernel.store.write(open_number, "default", 2)
    assert (numbers.first, numbers.current) == (1, 2)

    second, number, later = await run(settings, 1)

    assert (number, second.size, later) == (2, 2, f"{origin}/2")
    assert second.checkpoint.sequence_no > first.checkpoint.sequence_no
    async with serve(settings) as service:
        desk = at(service)
        certificate = await desk.certify("z.example.com")
        assert int.from_bytes(certificate.serial) == 2 << 48 | 2
        verify_certificate(desk.trust(), certificate.der, service.kernel.clock.now())
        assert (await desk.db.read(numbers_of, "default")).current == 2
