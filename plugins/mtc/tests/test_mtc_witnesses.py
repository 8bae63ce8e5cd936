"""Witnesses: what is sent to them, and that nothing is taken of an answer which is not their cosignature."""

from base64 import b64encode
from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, mldsa
from rig.cosigners import Server, reply, server
from sqlalchemy import select

from greatseal.net import fetch
from greatseal.testing.store import audit
from greatseal_mtc import witnesses
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.merkle import verify_consistency
from greatseal_mtc.note import Checkpoint, Kind, Note, NoteKey, NoteSignature, open_note
from greatseal_mtc.stored_checkpoints import cosignatures, newest_of, witnesses_of
from greatseal_mtc.verify import Trust, verify_certificate
from greatseal_mtc.wire import cosigned_message
from greatseal_mtc.witnessing import SIZE_TYPE, AddCheckpoint, SignSubtree, size_body

PROFILES = {"default": {}, "tree": {"issue_as": "mtc"}}
NAMED = "oid/1.3.6.1.4.1.32473.9"


class StubWitness:
    """An honest one, by what it remembers: the size and root of each log that it cosigned."""

    def __init__(self, there: Server, key: Any = None, name: str = "w.example") -> None:
        self.key = key or ed25519.Ed25519PrivateKey.generate()
        kind = Kind.MLDSA44_COSIGNER if isinstance(self.key, mldsa.MLDSA44PrivateKey) else Kind.ED25519_COSIGNER
        self.note_key = NoteKey(name, kind, self.key.public_key())
        self.seen: dict[str, Checkpoint] = {}
        self.log_keys: list[NoteKey] = []
        self.changed: Any = None
        there.answers |= {"/add-checkpoint": self.add, "/sign-subtree": self.sign}

    def add(self, body: bytes) -> bytes:
        if self.changed is not None:
            answer: bytes = self.changed(body)
            return answer
        asked = AddCheckpoint.parse(body)
        checkpoint, _ = open_note(asked.note, self.log_keys)
        before = self.seen.get(checkpoint.origin)
        known = 0 if before is None else before.size
        if asked.old != known:
            return reply(size_body(known), "409 Conflict", f"Content-Type: {SIZE_TYPE}\r\n")
        if before is not None and 0 < known < checkpoint.size:
            verify_consistency(SHA256, 0, known, checkpoint.size, subtree=before.root, root=checkpoint.root, proof=asked.path)
        self.seen[checkpoint.origin] = checkpoint
        return reply(self.line(checkpoint).line.encode())

    def line(self, checkpoint: Checkpoint, *, time: int = 1_800_000_000) -> NoteSignature:
        return self.note_key.signature(self.key.sign(self.note_key.message(checkpoint, time=time)), time=time)

    def sign(self, body: bytes) -> bytes:
        asked = SignSubtree.parse(body)
        checkpoint, _ = open_note(asked.note, [self.note_key])
        verify_consistency(SHA256, asked.start, asked.end, checkpoint.size, subtree=asked.root, root=checkpoint.root, proof=asked.path)
        message = cosigned_message(self.note_key.name, checkpoint.origin, asked.start, asked.end, asked.root)
        return reply(NoteSignature(self.note_key.name, self.note_key.id, bytes(8) + self.key.sign(message)).line.encode())


@pytest.fixture
async def there(monkeypatch):
    async with server() as (found, trusting):
        monkeypatch.setattr(witnesses, "fetch", partial(fetch, tls=trusting))
        yield found


async def opened(open_desk, there, witness, **more):
    told = {"url": there.url(""), "vkey": witness.note_key.vkey, **more}
    desk = await open_desk(profiles=PROFILES, mtc={"witnesses": [told], "landmark_interval_secs": 86_400})
    witness.log_keys = [NoteKey.parse(one) for one in desk.log().vkeys]
    return desk


async def grown(desk):
    certificate = await desk.certify("a.example.com", profile="default")
    await desk.logged(certificate.id)
    await desk.log().checkpoints.run()
    return await desk.db.read(newest_of, "default", 1), certificate


async def test_a_witness_cosigns_each_checkpoint_and_its_line_is_published(open_desk, there):
    witness = StubWitness(there)
    desk = await opened(open_desk, there, witness)
    for _ in range(3):
        newest, _ = await grown(desk)
        published = desk.log().checkpoints.published

        keys = [NoteKey.parse(desk.log().vkeys[0]), witness.note_key]
        checkpoint, found = open_note(Note.parse(published.note), keys)
        assert (checkpoint.size, {key.name for key, _ in found}) == (newest.size, {keys[0].name, "w.example"})
        assert await desk.log().log._writer.published("checkpoint") == published.note
    assert witness.seen[desk.log().origin].size == newest.size


async def test_a_witness_that_knows_another_size_says_so_and_is_asked_again(open_desk, there):
    witness = StubWitness(there)
    desk = await opened(open_desk, there, witness)
    first, _ = await grown(desk)
    await grown(desk)
    witness.seen[desk.log().origin] = Checkpoint(desk.log().origin, first.size, first.root)  # its own backup was put back

    newest, _ = await grown(desk)

    assert list(await desk.db.read(witnesses_of, "default", newest.sequence_no)) == [there.url("")]
    assert witness.seen[desk.log().origin].size == newest.size


async def test_f27_a_witness_that_knows_a_larger_tree_is_told_to_operators(open_desk, there):
    witness = StubWitness(there)
    desk = await opened(open_desk, there, witness)
    witness.seen[desk.log().origin] = Checkpoint(desk.log().origin, 1000, bytes(32))

    newest, _ = await grown(desk)

    assert await desk.db.read(witnesses_of, "default", newest.sequence_no) == {}
    checks = {check.name: check for check in desk.parts.checks()}
    result = await checks["mtc-checkpoints"].run()
    assert (result.ok, "it has cosigned 1000 entries of this log" in result.detail) == (False, True)
    events = await desk.rows(select(audit).where(audit.c.event_type == "log.cosigner"))
    assert {one.outcome for one in events} == {"failure"}
    assert (await checks["mtc"].run()).ok


async def test_f16_a_witness_that_lies_is_refused(open_desk, there):
    witness, other = StubWitness(there), StubWitness(Server("https"))
    desk = await opened(open_desk, there, witness)
    await grown(desk)

    def checkpoint_of(body: bytes) -> Checkpoint:
        return Checkpoint.parse(AddCheckpoint.parse(body).note.text)

    def another(body: bytes) -> bytes:
        asked = checkpoint_of(body)
        return reply(witness.line(Checkpoint(asked.origin, asked.size + 1, asked.root)).line.encode())

    lies = {
        "the line of another": lambda body: reply(other.line(checkpoint_of(body)).line.encode()),
        "another checkpoint": another,
        "no time": lambda body: reply(witness.line(checkpoint_of(body), time=0).line.encode()),
        "half a line": lambda body: reply(witness.line(checkpoint_of(body)).line.encode()[:-10]),
        "no line": lambda _: reply(b""),
        "no text": lambda _: reply(b"\xff\xfe\n"),
        "a wrong signature": lambda _: reply(f"\u2014 w.example {b64encode(witness.note_key.id + bytes(72)).decode()}\n".encode()),
        "a conflict without size": lambda _: reply(b"old\n", "409 Conflict"),
        "a conflict with everything": lambda _: reply(size_body(1), "409 Conflict"),
        "a refusal": lambda _: reply(b"no", "403 Forbidden"),
        "a redirect": lambda _: reply(b"", "307 Moved", f"Location: {there.url('/add-checkpoint')}\r\n"),
    }
    for what, answer in lies.items():
        witness.changed = answer
        newest, _ = await grown(desk)
        assert await desk.db.read(witnesses_of, "default", newest.sequence_no) == {}, what
        assert desk.log().checkpoints.published.note == newest.note, what
    events = await desk.rows(select(audit).where(audit.c.event_type == "log.cosigner"))
    assert sum("status 409 without a size: " in one.detail for one in events) == 1
    witness.changed = None
    newest, _ = await grown(desk)
    assert len(await desk.db.read(witnesses_of, "default", newest.sequence_no)) == 1


async def test_a_witness_signs_subtrees_for_certificates(open_desk, there):
    witness = StubWitness(there, mldsa.MLDSA44PrivateKey.generate(), NAMED)
    desk = await opened(open_desk, there, witness, subtrees=True)
    await grown(desk)
    newest, certificate = await grown(desk)

    signed = await desk.db.read(cosignatures, "default", newest.sequence_no)
    assert {one.cosigner.name for _, one in signed} == {NAMED}
    trust, (_, first) = desk.trust(), signed[0]
    both = Trust(
        dialect=trust.dialect, hash=trust.hash, ca=trust.ca, quorum=2, required=trust.required,
        cosigners={**trust.cosigners, first.cosigner: witness.key.public_key()},
    )  # fmt: skip
    standalone = (await desk.entry(certificate.id)).standalone
    found = verify_certificate(both, standalone, desk.service.kernel.clock.now())
    assert len(found.signed_by) == 2
    assert found.start > 0  # of the new part alone
    log_note = Note.parse(desk.log().checkpoints.published.log_note)
    assert len(open_note(log_note, [NoteKey.parse(desk.log().vkeys[1]), witness.note_key])[1]) == 2


async def test_a_witness_that_signs_another_subtree_is_refused(open_desk, there):
    witness = StubWitness(there, mldsa.MLDSA44PrivateKey.generate(), NAMED)
    desk = await opened(open_desk, there, witness, subtrees=True)
    good = witness.sign

    def timed(body: bytes) -> bytes:
        asked = SignSubtree.parse(body)
        message = cosigned_message(NAMED, Checkpoint.parse(asked.note.text).origin, asked.start, asked.end, asked.root, time=7)
        return reply(NoteSignature(NAMED, witness.note_key.id, (7).to_bytes(8) + witness.key.sign(message)).line.encode())

    def other(body: bytes) -> bytes:
        asked = SignSubtree.parse(body)
        message = cosigned_message(NAMED, "another log", asked.start, asked.end, asked.root)
        return reply(NoteSignature(NAMED, witness.note_key.id, bytes(8) + witness.key.sign(message)).line.encode())

    for answer in (timed, other, lambda _: reply(b"no", "422 Unprocessable Content")):
        there.answers["/sign-subtree"] = answer
        newest, _ = await grown(desk)
        assert await desk.db.read(cosignatures, "default", newest.sequence_no) == []
    there.answers["/sign-subtree"] = good
    newest, _ = await grown(desk)
    assert await desk.db.read(cosignatures, "default", newest.sequence_no) != []
