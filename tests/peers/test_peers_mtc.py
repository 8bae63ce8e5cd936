"""Logs and certificates of ours, judged by code that we did not write: golang.org/x/mod, formats, tessera, torchwood and mtcs."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa
from rig.litewitness import Litewitness
from rig.plants import END, Plant, PrivateKey
from rig.tessera import TesseraLog, fsck, run

from greatseal_mtc.dialects import PLANTS_07
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.landmark_list import dated_list
from greatseal_mtc.merkle import consistency, inclusion, root, verify_consistency
from greatseal_mtc.note import Checkpoint, Kind, Note, NoteKey, open_note, signature_lines
from greatseal_mtc.proofs import LogProof
from greatseal_mtc.properties import Properties
from greatseal_mtc.tiles import entries_path, path
from greatseal_mtc.wire import parse_bundle
from greatseal_mtc.witnessing import SIZE_TYPE, AddCheckpoint, parse_size, size_body

pytestmark = pytest.mark.timeout(300)

Find = Callable[[str], Path]
Program = Callable[..., "subprocess.CompletedProcess[str]"]

INDICES = (0, 1, 255, 256, 511, 512, 598, 599)


@pytest.fixture(scope="module")
def plant() -> Plant:
    """A log of 600 entries."""
    return Plant(600)


@pytest.fixture
def folder(plant: Plant, tmp_path: Path) -> Path:
    """The log in files."""
    plant.write(tmp_path / "log")
    return tmp_path / "log"


def flipped(content: bytes, at: int = -2) -> bytes:
    """One bit is another."""
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


# ---- golang.org/x/mod/sumdb and transparency-dev/formats

MAKERS: dict[str, tuple[Kind, Callable[[], PrivateKey]]] = {
    "ed25519": (Kind.ED25519, ed25519.Ed25519PrivateKey.generate),
    "p256": (Kind.ECDSA, lambda: ec.generate_private_key(ec.SECP256R1())),
    "p384": (Kind.ECDSA, lambda: ec.generate_private_key(ec.SECP384R1())),
    "ed25519-cosigner": (Kind.ED25519_COSIGNER, ed25519.Ed25519PrivateKey.generate),
    "ml-dsa-44-cosigner": (Kind.MLDSA44_COSIGNER, mldsa.MLDSA44PrivateKey.generate),
}


def test_ca_274_formats_accepts_every_kind_of_signature_and_refuses_changed_ones(plant: Plant, go_program: Find, tmp_path: Path) -> None:
    check, file = go_program("tlog-check"), tmp_path / "note"
    keys = []
    for name, (kind, make) in MAKERS.items():
        private = make()
        keys.append((NoteKey(f"{name}.example", kind, private.public_key()), private))
    signed = plant.note(*keys)
    vkeys = [key.vkey for key, _ in keys]

    file.write_bytes(signed.encoded)
    accepted = run(check, "note", file, *vkeys)
    assert accepted.stdout.split() == [plant.origin, "600", plant.checkpoint().root.hex()], accepted.stderr

    for at in range(len(keys)):
        line = signed.signatures[at]
        lines = (*signed.signatures[:at], type(line)(line.name, line.id, flipped(line.signature)), *signed.signatures[at + 1 :])
        file.write_bytes(Note(signed.text, lines).encoded)
        assert "invalid signature" in run(check, "note", file, *vkeys).stderr, keys[at][0].name
    other = Checkpoint(plant.origin, 601, plant.checkpoint().root)
    file.write_bytes(Note(other.text, signed.signatures).encoded)
    for vkey in vkeys:
        assert "invalid signature" in run(check, "note", file, vkey).stderr, vkey


def test_ca_274_tlog_makes_our_proofs_of_our_tiles(plant: Plant, folder: Path, go_program: Find) -> None:
    check, vkey = go_program("tlog-check"), (folder / "vkey").read_text()

    said = run(check, "tiles", folder, folder / "checkpoint", vkey, *INDICES)

    expected = []
    for index in INDICES:
        expected.append(f"{index} {plant.leaves[index].hex()}")
        for word, ranges in (("inclusion", inclusion(0, 600, index)), ("consistency", consistency(0, index + 1, 600))):
            expected.append(" ".join((word, *(one.hex() for one in plant.hashes(ranges)))))
    assert said.stdout.splitlines() == expected, said.stderr


@pytest.mark.parametrize("name", [path(0, 1), path(0, 2, 88), path(1, 0, 2)])
def test_tlog_refuses_a_changed_tile(folder: Path, go_program: Find, name: str) -> None:
    (folder / name).write_bytes(flipped((folder / name).read_bytes()))

    said = run(go_program("tlog-check"), "tiles", folder, folder / "checkpoint", (folder / "vkey").read_text(), *INDICES)

    assert (said.returncode, "inconsistent tile" in said.stderr) == (1, True), said.stderr


def test_formats_accepts_a_log_proof_and_refuses_a_changed_one(plant: Plant, go_program: Find, tmp_path: Path) -> None:
    check, file, entry = go_program("tlog-check"), tmp_path / "proof", tmp_path / "entry"
    key = plant.operator()
    made = LogProof(index=300, path=plant.hashes(inclusion(0, 600, 300)), note=plant.note(key), extra=b"extra")
    entry.write_bytes(plant.entries[300])

    file.write_bytes(made.encoded)
    accepted = run(check, "proof", file, entry, key[0].vkey)
    assert accepted.stdout.split() == ["300", b"extra".hex()], accepted.stderr

    entry.write_bytes(plant.entries[301])
    assert run(check, "proof", file, entry, key[0].vkey).returncode == 1
    entry.write_bytes(plant.entries[300])
    file.write_bytes(LogProof(index=300, path=made.path[::-1], note=made.note).encoded)
    assert run(check, "proof", file, entry, key[0].vkey).returncode == 1


# ---- tessera


def test_fsck_of_tessera_finds_nothing_wrong_with_our_log(folder: Path, go_program: Find) -> None:
    said = fsck(go_program("fsck"), f"file://{folder}", folder / "vkey")

    assert "Successfully" in said, said
    assert "fsck failed" not in said


@pytest.mark.parametrize("name", [path(0, 1), path(0, 2, 88), path(1, 0, 2), entries_path(1), entries_path(2, 88)])
def test_fsck_of_tessera_finds_what_was_changed(folder: Path, go_program: Find, name: str) -> None:
    (folder / name).write_bytes(flipped((folder / name).read_bytes()))

    assert "fsck failed" in fsck(go_program("fsck"), f"file://{folder}", folder / "vkey")


def test_a_log_that_tessera_writes_is_read(go_program: Find, tmp_path: Path) -> None:
    entries = [b"entry %d" % number for number in range(300)]
    log = TesseraLog(go_program("posix-oneshot"), tmp_path)
    log.add(entries)

    checkpoint, _ = open_note(log.note(), [log.key])

    kept = parse_bundle((log.folder / entries_path(0)).read_bytes(), 256)
    kept += parse_bundle((log.folder / entries_path(1, 44)).read_bytes(), 44)
    assert (checkpoint.origin, checkpoint.size, sorted(kept)) == (log.key.name, 300, sorted(entries))
    leaves = [SHA256.leaf(one) for one in kept]
    assert checkpoint.root == root(SHA256, leaves)
    assert (log.folder / path(0, 0)).read_bytes() == b"".join(leaves[:256])
    assert (log.folder / path(1, 0, 1)).read_bytes() == root(SHA256, leaves[:256])


class Witness:
    """A witness made of the functions of the plugin, in a thread: what the log and the witness say to each other is judged by tessera."""

    def __init__(self, log: NoteKey) -> None:
        self.log, self.last, self.said = log, Checkpoint(log.name, 0, SHA256.empty), list[int]()
        self._private = ed25519.Ed25519PrivateKey.generate()
        self.key = NoteKey("witness.example/ours", Kind.ED25519_COSIGNER, self._private.public_key())

    def answer(self, body: bytes) -> tuple[int, bytes]:
        """The status and the body."""
        asked = AddCheckpoint.parse(body)
        checkpoint, _ = open_note(asked.note, [self.log])
        if asked.old != self.last.size:
            return 409, size_body(self.last.size)
        if asked.old:
            verify_consistency(
                SHA256, 0, asked.old, checkpoint.size, subtree=self.last.root, root=checkpoint.root, proof=asked.path
            )  # fmt: skip
        self.last, now = checkpoint, int(time.time())
        return 200, self.key.signature(self._private.sign(self.key.message(checkpoint, time=now)), time=now).line.encode()

    @contextmanager
    def served(self) -> Iterator[str]:
        """Its URL."""
        witness = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                status, body = witness.answer(self.rfile.read(int(self.headers["Content-Length"])))
                witness.said.append(status)
                self.send_response(status)
                self.send_header("Content-Type", SIZE_TYPE if status == 409 else "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Nobody reads it."""

        with HTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/"
            finally:
                server.shutdown()
                thread.join()


def test_a_log_of_tessera_is_witnessed_by_our_functions(go_program: Find, tmp_path: Path) -> None:
    log = TesseraLog(go_program("posix-oneshot"), tmp_path)
    witness, policy = Witness(log.key), tmp_path / "policy"

    with witness.served() as url:
        policy.write_text(f"witness w1 {witness.key.vkey} {url}\ngroup g1 all w1\nquorum g1\n")
        for count in (3, 300):
            log.add([b"entry %d" % number for number in range(count)], f"--witness_policy_file={policy}")
            checkpoint, by = open_note(log.note(), [log.key, witness.key])
            assert {one.name for one, _ in by} == {log.key.name, witness.key.name}
            assert (checkpoint, witness.said[-1]) == (witness.last, 200)

    assert witness.last.size == 303


# ---- torchwood


def ask(port: int, body: AddCheckpoint) -> tuple[int, str, bytes]:
    """What a witness answers: status, type and body."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("POST", "/add-checkpoint", body.encoded)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Content-Type", ""), answer.read()


def test_litewitness_cosigns_our_log_and_refuses_what_is_wrong(plant: Plant, go_program: Find, tmp_path: Path) -> None:
    key = plant.operator()

    def asked(old: int, size: int, *, note: Note | None = None, proof: tuple[bytes, ...] | None = None) -> AddCheckpoint:
        if proof is None:
            proof = plant.hashes(consistency(0, old, size)) if old else ()
        return AddCheckpoint(old, proof, note or plant.note(key, size=size))

    there = Litewitness(go_program("litewitness"), tmp_path)
    with there.knowing(key[0]):
        port, last = there.port, 0
        for size in (1, 256, 300, 300, 599):
            status, _, body = ask(port, asked(last, size))
            assert status == 200, body
            cosigned = Note(plant.checkpoint(size).text, tuple(signature_lines(body.decode())))
            assert open_note(cosigned, [there.key])[0].size == size
            last = size

        assert ask(port, asked(300, 600)) == (409, SIZE_TYPE, b"599\n")
        assert parse_size(b"599\n") == 599
        proof = plant.hashes(consistency(0, 599, 600))
        assert ask(port, asked(599, 600, proof=(*proof[:-1], flipped(proof[-1]))))[0] == 422
        wrong = plant.note(key)
        (line,) = wrong.signatures
        forged = Note(wrong.text, (type(line)(line.name, line.id, flipped(line.signature)),))
        assert ask(port, asked(599, 600, note=forged))[0] == 403
        other = Plant(5, origin="unknown.example/log")
        assert ask(port, AddCheckpoint(0, (), other.note(other.operator())))[0] == 403, "of an unknown log; the document says 404 by now"
        assert ask(port, asked(599, 600))[0] == 200


# ---- mtcs, which reads plants-07


@pytest.fixture
def mtcs(rust_program: Find, tmp_path: Path) -> Program:
    program = rust_program("mtcs-verify")
    return lambda *arguments: run(program, *arguments)


NOW = int(END.timestamp()) - 1

KEYS: dict[str, Callable[[], PrivateKey]] = {
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ml-dsa-44": mldsa.MLDSA44PrivateKey.generate,
}


@pytest.mark.parametrize("name", KEYS)
def test_mtcs_accepts_our_certificates_of_plants_07_and_refuses_changed_ones(name: str, mtcs: Program, tmp_path: Path) -> None:
    plant = Plant(600, PLANTS_07, KEYS[name]())
    (tmp_path / "ca").write_bytes(plant.authority())
    subtree = plant.subtree(599)
    (known,) = plant.hashes([subtree])
    standalone, relative = plant.certificate(599), plant.certificate(599, [])

    def judge(certificate: bytes, *known: str, now: int = NOW) -> str:
        (tmp_path / "certificate").write_bytes(certificate)
        return mtcs("certificates", tmp_path / "ca", now, *known, "--", tmp_path / "certificate").stdout.strip()

    landmark = f"1:{subtree[0]}:{subtree[1]}:{known.hex()}"
    assert judge(standalone) == "standalone 1 599"
    assert judge(plant.certificate(1)) == "standalone 1 1"
    assert judge(relative, landmark) == "landmark-relative 1 599"

    refused = [
        judge(standalone.replace(b"host00599", b"host00598")),
        judge(plant.certificate(599, [(plant.ca, KEYS[name]())])),
        judge(flipped(standalone)),
        judge(relative),
        judge(relative, landmark.replace(known.hex(), flipped(known).hex())),
        judge(relative.replace(b"host00599", b"host00598"), landmark),
        judge(standalone, now=NOW + 10),
        judge(standalone.replace((599).to_bytes(2), (598).to_bytes(2), 1)),
        judge(standalone + b"\0"),
    ]
    assert all(one.startswith("refused") for one in refused), refused


def test_mtcs_reads_our_landmarks_of_plants_07_and_properties(mtcs: Program, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(dated_list(3, [(400, 3000), (250, 2000), (100, 1000), (0, 0)], 0))
    assert mtcs("landmarks", file, 500).stdout.splitlines() == ["3 400 3000", "2 250 2000", "1 100 1000", "0 0 0"]
    file.write_text(dated_list(3, [(400, 3000), (400, 2000), (0, 0)], 0))
    assert mtcs("landmarks", file, 500).stdout.startswith("refused")

    file.write_bytes(Properties(trust_anchor_id=Plant(1).ca.landmark(1, 3), negotiation=True).encode())
    assert mtcs("properties", file).stdout == "32473.1.1.1.3 true\n"
    file.write_bytes(file.read_bytes() + b"\0")
    assert mtcs("properties", file).stdout.startswith("refused")


def test_mtcs_checks_our_consistency_proofs_of_subtrees(plant: Plant, mtcs: Program) -> None:
    for start, end in ((0, 256), (256, 300), (512, 600), (598, 600), (599, 600)):
        (subtree,), proof = plant.hashes([(start, end)]), plant.hashes(consistency(start, end, 600))
        good = ("consistency", start, end, 600, subtree.hex(), plant.checkpoint().root.hex())
        assert mtcs(*good, *(one.hex() for one in proof)).stdout == "consistent\n"
        assert mtcs(*good, flipped(proof[0]).hex(), *(one.hex() for one in proof[1:])).stdout == "refused\n"
