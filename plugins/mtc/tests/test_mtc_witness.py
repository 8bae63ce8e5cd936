"""A witness over HTTP, on both databases: it goes on only with what is proven, once for each step, and signs subtrees of what it saw."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from greatseal.api.audit import AuditQuery, AuditRecord
from greatseal.testing.service import Service
from greatseal_mtc import merkle
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.note import Checkpoint, Kind, Note, NoteKey, open_note
from greatseal_mtc.note import signature_lines as lines_of
from greatseal_mtc.wire import cosigned_message
from greatseal_mtc.witness.state import Next, move, remember_cosignatures
from greatseal_mtc.witnessing import AddCheckpoint, SignSubtree

ORIGIN = "log.example/1"
SECRET, OTHER = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate()
KEY = NoteKey(ORIGIN, Kind.ED25519, SECRET.public_key())
QUIET = NoteKey("quiet.example", Kind.ED25519, SECRET.public_key())
LEAVES = [SHA256.leaf(f"entry {n}".encode()) for n in range(300)]
FORKED = [*LEAVES[:5], *(SHA256.leaf(f"another {n}".encode()) for n in range(5, 300))]


def root(leaves: Sequence[bytes], start: int, end: int) -> bytes:
    return merkle.root(SHA256, leaves[start:end])


def note_of(size: int, leaves: Sequence[bytes] = LEAVES, *, secret: ed25519.Ed25519PrivateKey = SECRET, origin: str = ORIGIN) -> Note:
    checkpoint = Checkpoint(origin, size, root(leaves, 0, size))
    key = NoteKey(origin, Kind.ED25519, SECRET.public_key())
    return Note(checkpoint.text, (key.signature(secret.sign(key.message(checkpoint))),))


def proof_of(old: int, size: int, leaves: Sequence[bytes] = LEAVES) -> tuple[bytes, ...]:
    return tuple(root(leaves, *one) for one in merkle.consistency(0, old, size)) if 0 < old < size else ()


def step(old: int, size: int, leaves: Sequence[bytes] = LEAVES, **more: Any) -> bytes:
    return AddCheckpoint(old, proof_of(old, size, leaves), note_of(size, leaves, **more)).encoded


class Desk:
    """Speaks to a witness."""

    def __init__(self, service: Service, http: aiohttp.ClientSession) -> None:
        self.service = service
        self.http = http
        self.keys: list[NoteKey] = []

    async def send(self, path: str, body: bytes | None = None) -> tuple[int, str, str]:
        method = "GET" if body is None else "POST"
        async with self.http.request(method, f"{self.service.url}/witness/{path}", data=body) as answer:
            return answer.status, answer.headers.get("Content-Type", ""), await answer.text()

    async def add(self, body: bytes) -> tuple[int, str]:
        status, _, said = await self.send("add-checkpoint", body)
        return status, said

    async def forks(self) -> Sequence[AuditRecord]:
        return await self.service.host("mtc").audit_records(AuditQuery(service="ca", event_type="witness.fork"))

    def check(self, size: int, said: str, leaves: Sequence[bytes] = LEAVES) -> list[int]:
        """The cosignatures are good, of every key of the witness; their times."""
        note = note_of(size, leaves)
        _, signed = open_note(Note(note.text, (*note.signatures, *lines_of(said))), self.keys)
        assert {key.kind for key, _ in signed} == {Kind.ED25519_COSIGNER, Kind.MLDSA44_COSIGNER}
        return [time for _, time in signed]


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def desk(start_service: Any, database_url: str, http: aiohttp.ClientSession) -> Desk:
    logs = [{"origin": ORIGIN, "keys": [KEY.vkey]}, {"origin": "quiet.example", "keys": [QUIET.vkey]}]
    service = await start_service("ca", "mtc", database={"url": database_url, "migrate": "auto"}, witness={"logs": logs})
    found = Desk(service, http)
    found.keys = [NoteKey.parse(line) for line in (await found.send("vkey"))[2].splitlines()]
    return found


async def test_a_log_that_grows_is_cosigned_at_each_step(desk):
    old = 0
    for size in (1, 2, 5, 8, 255, 300, 300):
        status, said = await desk.add(step(old, size))
        assert status == 200, said
        assert all(desk.check(size, said))
        old = size

    status, kind, shown = await desk.send(f"{sha256(ORIGIN.encode()).hexdigest()}/checkpoint")
    assert (status, kind) == (200, "text/plain; charset=utf-8")
    checkpoint, signed = open_note(Note.parse(shown.encode()), [KEY, *desk.keys])
    assert (checkpoint.size, len(signed)) == (300, 3)
    assert desk.keys[0].name == f"{desk.service.url.removeprefix('http://')}/witness"


async def test_a_log_without_entries_is_one_that_grows_too(desk):
    empty = Checkpoint(ORIGIN, 0, SHA256.empty)
    none = Note(empty.text, (KEY.signature(SECRET.sign(KEY.message(empty))),))
    for _ in range(2):
        assert (await desk.add(AddCheckpoint(0, (), none).encoded))[0] == 200
    assert (await desk.add(step(0, 7)))[0] == 200

    wrong = Checkpoint("quiet.example", 0, bytes(32))
    note = Note(wrong.text, (QUIET.signature(SECRET.sign(QUIET.message(wrong))),))
    assert (await desk.add(AddCheckpoint(0, (), note).encoded))[0] == 422


async def test_the_statuses_of_the_protocol(desk):
    assert (await desk.add(step(0, 5)))[0] == 200

    assert await desk.send("add-checkpoint", step(4, 8)) == (409, "text/x.tlog.size", "5\n")
    assert await desk.send("add-checkpoint", step(0, 8)) == (409, "text/x.tlog.size", "5\n")
    assert (await desk.add(step(9, 8)))[0] == 400
    assert (await desk.add(step(5, 8, origin="other.example")))[0] == 404
    assert (await desk.add(step(5, 8, secret=OTHER)))[0] == 403
    unsigned = Note(note_of(8).text, (NoteKey("x", Kind.ED25519, OTHER.public_key()).signature(bytes(64)),))
    assert (await desk.add(AddCheckpoint(5, proof_of(5, 8), unsigned).encoded))[0] == 403
    for path in ((), proof_of(5, 8)[:-1], (*proof_of(5, 8), bytes(32)), (bytes(32),) * 4, (bytes(32),) * 63):
        assert (await desk.add(AddCheckpoint(5, path, note_of(8)).encoded))[0] == 422
    assert (await desk.add(AddCheckpoint(5, (bytes(32),), note_of(5)).encoded))[0] == 422
    assert (await desk.add(AddCheckpoint(5, proof_of(5, 8, FORKED), note_of(8, FORKED)).encoded))[0] == 200, "up to 5 both are one tree"
    assert (await desk.add(step(8, 20)))[0] == 422, "the witness went with the other one"


async def test_two_trees_of_one_size_are_409_and_kept_for_everybody_to_see(desk):
    assert (await desk.add(step(0, 8)))[0] == 200

    status, type, said = await desk.send("add-checkpoint", AddCheckpoint(8, (), note_of(8, FORKED)).encoded)

    # A size would have the log ask again with it, for ever.
    assert (status, type == "text/x.tlog.size") == (409, False)
    assert "this witness cosigned another tree of 8 entries of this log" in said
    (event,) = await desk.forks()
    assert event.sub == ORIGIN
    for leaves in (LEAVES, FORKED):
        assert b64encode(root(leaves, 0, 8)).decode() in event.detail
    for _ in range(15):
        await desk.add(AddCheckpoint(8, (), note_of(8, FORKED)).encoded)
    assert len(await desk.forks()) == 10


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\n\n", b"old 0\n\n", b"old -1\n\nx\n1\nx\n\n", b"old 00\n\n" + note_of(1).encoded, b"old 1\nAA==\n\n" + note_of(2).encoded,
        b"new 0\n\n" + note_of(1).encoded, b"old 0\r\n\r\n" + note_of(1).encoded, b"\xff" * 1000, b"old 0\n" + b"A" * 60_000,
        AddCheckpoint(0, (bytes(32),) * 64, note_of(1)).encoded, b"old 0\n\n" + note_of(1).encoded.replace("\u2014".encode(), b"-"),
        b"old 18446744073709551616\n\n" + note_of(1).encoded, b"old 0\n\n" + Note("x\n", note_of(1).signatures).encoded,
    ],
)  # fmt: skip
async def test_what_is_no_request_is_400(desk, body):
    assert (await desk.add(body))[0] == 400
    assert (await desk.send("sign-subtree", body))[0] == 400


async def test_a_body_beyond_the_limit_and_paths_that_are_none(desk):
    assert (await desk.add(b"old 0\n" + b"A" * 200_000))[0] == 413
    for path in (
        "quiet.example/checkpoint",
        "0" * 64 + "/checkpoint",
        "..%2f/checkpoint",
        f"{sha256(b'quiet.example').hexdigest()}/checkpoint",
    ):
        assert (await desk.send(path))[0] == 404
    assert (await desk.send("add-checkpoint"))[0] == 405


async def test_of_many_steps_at_once_each_size_is_left_once(desk):
    assert (await desk.add(step(0, 5)))[0] == 200

    answers = await asyncio.gather(
        *(desk.add(step(5, size, leaves)) for size in (8, 9, 100) for leaves in (LEAVES, FORKED) for _ in range(5))
    )

    won = {said for status, said in answers if status == 200}
    assert {status for status, _ in answers} <= {200, 409}
    assert won
    _, _, shown = await desk.send(f"{sha256(ORIGIN.encode()).hexdigest()}/checkpoint")
    last, _ = open_note(Note.parse(shown.encode()), [KEY])
    tree = LEAVES if last.root == root(LEAVES, 0, last.size) else FORKED
    for said in won:
        for line in lines_of(said):
            key = next(key for key in desk.keys if key.id == line.id)
            assert any(_is_good(key, note_of(size, tree), line) for size in (8, 9, 100)), "it cosigned the other tree too"


def _is_good(key: NoteKey, note: Note, line: Any) -> bool:
    try:
        key.verify(Checkpoint.parse(note.text), line)
    except ValueError:
        return False
    return True


async def test_what_was_recorded_and_not_signed_is_signed_when_it_is_asked_for(desk):
    """A kill between the record and the signature: the log asks again, or a monitor does."""
    host = desk.service.host("mtc")
    id = sha256(ORIGIN.encode()).hexdigest()
    note = note_of(5)
    recorded = Next(log=id, origin=ORIGIN, old_size=0, old_root=SHA256.empty, size=5, root=root(LEAVES, 0, 5), note=note.encoded)
    assert await host.db.write(move, recorded)

    assert await desk.send("add-checkpoint", step(0, 5)) == (409, "text/x.tlog.size", "5\n")
    _, _, shown = await desk.send(f"{id}/checkpoint")
    assert len(open_note(Note.parse(shown.encode()), [KEY, *desk.keys])[1]) == 3
    status, said = await desk.add(AddCheckpoint(5, (), note).encoded)
    assert status == 200
    desk.check(5, said)


@pytest.mark.parametrize("old", [0, 5])
async def test_of_two_proven_steps_from_one_size_one_is_taken(desk, monkeypatch, old):
    """Both were held against the same state before either was written."""
    if old:
        assert (await desk.add(step(0, old)))[0] == 200
    host = desk.service.host("mtc")
    witness, both = host._plugin.witness(host).witness, asyncio.Barrier(2)
    proven = witness._proven

    async def waiting(*args: Any) -> None:
        await proven(*args)
        await both.wait()

    monkeypatch.setattr(witness, "_proven", waiting)

    answers = await asyncio.gather(*(desk.add(step(old, 8, leaves)) for leaves in (LEAVES, FORKED)))

    assert sorted(status for status, _ in answers) == [200, 409]
    assert "8\n" in [said for _, said in answers]


async def test_of_first_steps_at_once_one_is_taken(desk):
    answers = await asyncio.gather(*(desk.add(step(0, 8, leaves)) for leaves in (LEAVES, FORKED) for _ in range(5)))

    won = {line.signature for status, said in answers if status == 200 for line in lines_of(said)}
    trees = [note_of(8, leaves) for leaves in (LEAVES, FORKED)]
    signed = {note.text for note in trees for status, said in answers if status == 200 for line in lines_of(said) if _any(desk, note, line)}
    assert won
    assert len(signed) == 1, "it cosigned two trees of one size"


def _any(desk: Desk, note: Note, line: Any) -> bool:
    return any(_is_good(key, note, line) for key in desk.keys if key.id == line.id)


@pytest.mark.parametrize(("size", "root_of"), [(5, bytes(31)), (5, b""), (1 << 48 | 1, bytes(32))])
async def test_a_checkpoint_that_cannot_be_is_400(desk, size, root_of):
    checkpoint = Checkpoint(ORIGIN, size, root_of)
    note = Note(checkpoint.text, (KEY.signature(SECRET.sign(KEY.message(checkpoint))),))

    assert (await desk.add(AddCheckpoint(0, (), note).encoded))[0] == 400


async def test_cosignatures_of_a_step_before_are_not_kept_for_the_next_one(desk):
    """The step before was slow to sign: what it kept must not stand under the checkpoint of now."""
    host, id = desk.service.host("mtc"), sha256(ORIGIN.encode()).hexdigest()
    assert (await desk.add(step(0, 5)))[0] == 200
    assert (await desk.add(step(5, 8)))[0] == 200

    await host.db.write(remember_cosignatures, id, 5, root(LEAVES, 0, 5), b"late")

    _, _, shown = await desk.send(f"{id}/checkpoint")
    assert len(open_note(Note.parse(shown.encode()), [KEY, *desk.keys])[1]) == 3


# ---- sign-subtree


async def cosigned(desk: Desk, size: int) -> Note:
    status, said = await desk.add(step(0, size))
    assert status == 200
    return Note(note_of(size).text, tuple(lines_of(said)))


def subtree(start: int, end: int, note: Note, size: int, /, **other: Any) -> bytes:
    path = tuple(root(LEAVES, *one) for one in merkle.consistency(start, end, size))
    return SignSubtree(**{"start": start, "end": end, "root": root(LEAVES, start, end), "path": path, "note": note, **other}).encoded


@pytest.mark.parametrize(("start", "end"), [(0, 1), (0, 300), (0, 77), (64, 128), (288, 300), (299, 300)])
async def test_a_subtree_of_a_cosigned_checkpoint_is_signed_as_certificates_want_it(desk, start, end):
    note = await cosigned(desk, 300)

    status, _, said = await desk.send("sign-subtree", subtree(start, end, note, 300))

    assert status == 200, said
    (line,) = lines_of(said)
    (key,) = (key for key in desk.keys if key.kind is Kind.MLDSA44_COSIGNER)
    assert (line.id, line.signature[:8]) == (key.id, bytes(8))
    message = cosigned_message(key.name, ORIGIN, start, end, root(LEAVES, start, end))
    key.key.verify(line.signature[8:], message)  # type: ignore[union-attr]


async def test_the_statuses_of_sign_subtree(desk):
    note = await cosigned(desk, 300)

    async def status(body: bytes) -> int:
        return (await desk.send("sign-subtree", body))[0]

    assert await status(subtree(64, 128, note_of(300), 300)) == 403, "the witness did not cosign this note"
    later = Note(note_of(299).text, note.signatures)
    assert await status(subtree(64, 128, later, 299)) == 403, "its signatures are of another checkpoint"
    assert await status(subtree(64, 128, note, 300, root=bytes(32))) == 422
    assert await status(subtree(64, 128, note, 300, path=())) == 422
    assert await status(subtree(64, 128, note, 300, start=128, end=192)) == 422
    beyond = SignSubtree(start=256, end=512, root=bytes(32), path=(), note=note).encoded
    assert await status(beyond) == 400
    assert await status(subtree(64, 128, note, 300).replace(b"subtree 64 128", b"subtree 65 128")) == 400
    assert await status(subtree(64, 128, Note(note_of(300, origin="other.example").text, note.signatures), 300)) == 404


# ---- Configuration


async def test_keys_may_be_files_and_without_ml_dsa_no_subtree_is_signed(start_service, http, tmp_path):
    file = tmp_path / "witness.pem"
    file.write_bytes(_pem(SECRET))
    file.chmod(0o600)
    witness = {"name": "oid/1.3.6.1.4.1.32473.9", "key_files": [str(file)], "logs": [{"origin": ORIGIN, "keys": [KEY.vkey]}]}

    desk = Desk(await start_service("ca", "mtc", witness=witness), http)

    vkey = NoteKey("oid/1.3.6.1.4.1.32473.9", Kind.ED25519_COSIGNER, SECRET.public_key()).vkey
    assert await desk.send("vkey") == (200, "text/plain; charset=utf-8", f"{vkey}\n")
    status, said = await desk.add(step(0, 5))
    assert (status, len(lines_of(said))) == (200, 1)
    assert (await desk.send("sign-subtree", subtree(0, 1, Note(note_of(5).text, tuple(lines_of(said))), 5)))[0] == 404


async def test_without_the_section_there_is_no_witness(start_service, http):
    desk = Desk(await start_service("ca", "mtc"), http)

    assert [(await desk.send("add-checkpoint", step(0, 5)))[0], (await desk.send("vkey"))[0]] == [404, 404]


@pytest.mark.parametrize(
    ("witness", "said"),
    [
        ({"name": "a b"}, "name: 'a b' is no name of a key"),
        ({"name": "a+b"}, "name: 'a\\+b' is no name of a key"),
        ({"logs": [{"origin": "", "keys": [KEY.vkey]}]}, "origin: expected one line"),
        ({"logs": [{"origin": "a\nb", "keys": [KEY.vkey]}]}, "origin: expected one line"),
        ({"logs": [{"origin": "\u20ac" * 100, "keys": [KEY.vkey]}]}, "origin: expected one line of 1 to 255 bytes"),
        ({"logs": [{"origin": "a", "keys": []}]}, "keys: a has none"),
        ({"logs": [{"origin": "a", "keys": ["a+00000000+AAAA"]}]}, "keys: "),
        ({"logs": [{"origin": "a", "keys": [KEY.vkey]}] * 2}, "logs: 'a' is there twice"),
    ],
)
async def test_a_configuration_that_cannot_be_is_refused_with_the_key(start_service, witness, said):
    with pytest.raises(Exception, match=said):
        await start_service("ca", "mtc", witness=witness)


async def test_a_key_of_another_type_stops_the_start(start_service, tmp_path):
    file = tmp_path / "witness.pem"
    file.write_bytes(_pem(ec.generate_private_key(ec.SECP256R1())))
    file.chmod(0o600)

    with pytest.raises(Exception, match="a witness signs with Ed25519 or ML-DSA-44"):
        await start_service("ca", "mtc", witness={"key_files": [str(file)]})


def _pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    made: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return made
