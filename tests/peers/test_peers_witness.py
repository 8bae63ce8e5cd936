"""Our running witness and our monitor, for logs that tessera writes: foreign code says what it is answered, and judges what was signed."""

import json
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import tomlkit
from peers.conftest import Quiet
from rig import warm
from rig.server import Server
from rig.tessera import TesseraLog, run

from greatseal_mtc.hashes import SHA256
from greatseal_mtc.merkle import consistency, root
from greatseal_mtc.note import Checkpoint, Note, NoteKey, signature_lines
from greatseal_mtc.tiles import FULL, entries_path, path
from greatseal_mtc.wire import parse_bundle
from greatseal_mtc.witness.service import log_id
from greatseal_mtc.witnessing import SignSubtree

pytestmark = pytest.mark.timeout(300)

Find = Callable[[str], Path]


def entries(count: int, word: str = "entry") -> list[bytes]:
    return [f"{word} {number}".encode() for number in range(count)]


@pytest.fixture
def log(go_program: Find, tmp_path: Path) -> TesseraLog:
    """A log without entries."""
    return TesseraLog(go_program("posix-oneshot"), tmp_path)


@pytest.fixture
def forked(log: TesseraLog, go_program: Find, tmp_path: Path) -> TesseraLog:
    """The same log, that has nothing of what the other says."""
    (tmp_path / "forked").mkdir()
    return TesseraLog(go_program("posix-oneshot"), tmp_path / "forked", log.private)


# ---- the witness


class Witness:
    """A service that cosigns the log of a key."""

    def __init__(self, folder: Path, log: NoteKey) -> None:
        folder.mkdir()
        self.server = Server(folder)
        known = {"origin": log.name, "keys": [log.vkey]}
        with self.server.configuration.open("a") as file:
            file.write(tomlkit.dumps({"witness": {"logs": [known]}}))

    def get(self, path: str, body: bytes | None = None) -> bytes:
        with urllib.request.urlopen(f"{self.server.base_url}/witness/{path}", body, timeout=10) as answer:
            found: bytes = answer.read()
        return found

    def vkeys(self) -> list[str]:
        """Of Ed25519, and of ML-DSA-44."""
        return self.get("vkey").decode().split()

    def policy(self, file: Path, vkey: str) -> str:
        """The option of tessera that has a log ask this witness, and publish nothing without it."""
        file.write_text(f"witness w1 {vkey} {self.server.base_url}/witness\ngroup g1 all w1\nquorum g1\n")
        return f"--witness_policy_file={file}"


@pytest.mark.parametrize("kind", [0, 1], ids=["ed25519", "ml-dsa-44"])
def test_a_log_of_tessera_is_cosigned_by_our_witness(kind: int, log: TesseraLog, go_program: Find, tmp_path: Path) -> None:
    check, witness, size = go_program("tlog-check"), Witness(tmp_path / "server", log.key), 0
    for count in (3, 300):
        with witness.server.forked():  # it goes on after a restart
            vkeys = witness.vkeys()
            log.add(entries(count), witness.policy(tmp_path / "policy", vkeys[kind]))
            (tmp_path / "published").write_bytes(witness.get(f"{log_id(log.key.name)}/checkpoint"))
        size += count
        checkpoint = Checkpoint.parse(log.note().text)

        seen = run(check, "note", log.folder / "checkpoint", log.key.vkey, vkeys[kind])
        published = run(check, "note", tmp_path / "published", log.key.vkey, *vkeys)

        assert checkpoint.size == size
        expected = [log.key.name, str(size), checkpoint.root.hex()]
        assert (seen.stdout.split(), published.stdout.split()) == (expected, expected), seen.stderr + published.stderr


def test_a_log_of_tessera_that_our_witness_does_not_know_is_not_cosigned(log: TesseraLog, tmp_path: Path) -> None:
    stranger = NoteKey("stranger.example/log", log.key.kind, log.key.key)
    witness = Witness(tmp_path / "server", stranger)

    with witness.server.forked():
        said = log.unpublished(entries(3), witness.policy(tmp_path / "policy", witness.vkeys()[0]))

    assert "says checkpoint origin is unknown: 404" in said
    assert not (log.folder / "checkpoint").exists()


def test_a_log_of_tessera_with_another_key_is_not_cosigned(log: TesseraLog, go_program: Find, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = TesseraLog(go_program("posix-oneshot"), tmp_path / "other")
    witness = Witness(tmp_path / "server", log.key)

    with witness.server.forked():
        said = other.unpublished(entries(3), witness.policy(tmp_path / "policy", witness.vkeys()[0]))

    assert "says no signatures verify against trusted public key: 403" in said


@pytest.mark.parametrize(
    ("size", "words"),
    [(2, "replied with x.tlog.size 3, larger than log size 2"), (3, "did not match previous for size 3: 409"), (4, "proof is bad: 422")],
)
def test_a_log_of_tessera_that_forked_is_not_cosigned(size: int, words: str, log: TesseraLog, forked: TesseraLog, tmp_path: Path) -> None:
    forked.add(entries(1, "another"))
    witness = Witness(tmp_path / "server", log.key)

    with witness.server.forked():
        policy = witness.policy(tmp_path / "policy", witness.vkeys()[0])
        log.add(entries(3), policy)
        said = forked.unpublished(entries(size - 1, "another"), policy)
        last = witness.get(f"{log_id(log.key.name)}/checkpoint")

    assert words in said
    assert Checkpoint.parse(Note.parse(last).text) == Checkpoint.parse(log.note().text)


def test_formats_accepts_what_our_witness_signs_of_a_subtree(log: TesseraLog, go_program: Find, tmp_path: Path) -> None:
    check, witness = go_program("tlog-check"), Witness(tmp_path / "server", log.key)
    with witness.server.forked():
        _, vkey = witness.vkeys()
        log.add(entries(300), witness.policy(tmp_path / "policy", vkey))
        leaves = [SHA256.leaf(one) for number, width in ((0, FULL), (1, 44)) for one in bundle(log.folder, number, width)]
        subtree, *proof = (root(SHA256, leaves[slice(*part)]) for part in ((256, 300), *consistency(256, 300, 300)))
        asked = SignSubtree(start=256, end=300, root=subtree, path=tuple(proof), note=log.note())
        (line,) = signature_lines(witness.get("sign-subtree", asked.encoded).decode())

    signed = ("256", "300", subtree.hex(), line.signature.hex())
    assert run(check, "subtree", vkey, log.key.name, *signed).returncode == 0
    for at, wrong in ((0, "128"), (2, leaves[256].hex()), (3, f"{signed[3][:-2]}00")):
        other = [*signed[:at], wrong, *signed[at + 1 :]]
        assert "invalid signature of the subtree" in run(check, "subtree", vkey, log.key.name, *other).stderr


def bundle(folder: Path, number: int, width: int) -> list[bytes]:
    """Entries, in their order."""
    return parse_bundle((folder / entries_path(number, width)).read_bytes(), width)


# ---- the monitor


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The URL of a folder."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Monitor:
    """``greatseal log monitor``, with its state."""

    def __init__(self, folder: Path, log: NoteKey) -> None:
        self.state, self._key = folder / "state", log.vkey

    def look(self, folder: Path, *options: str) -> tuple[int, str]:
        """Once, at the log in a folder: the exit code, and what is said."""
        with served(folder) as url:
            done = warm.run("log", "monitor", url, "--key", self._key, "--state", str(self.state), *options)
        return done.returncode, done.stdout + done.stderr

    def size(self) -> int:
        """What the state has seen."""
        return int(json.loads(self.state.read_text())["size"])


@pytest.fixture
def monitor(log: TesseraLog, tmp_path: Path) -> Monitor:
    """It has seen 300 entries."""
    monitor = Monitor(tmp_path, log.key)
    log.add(entries(300))
    assert monitor.look(log.folder)[0] == 0
    return monitor


def test_our_monitor_follows_a_log_that_tessera_writes(log: TesseraLog, monitor: Monitor) -> None:
    log.add(entries(250, "later"))
    head = Checkpoint.parse(log.note().text)

    code, said = monitor.look(log.folder, "--entries")

    assert (code, monitor.size()) == (0, 550)
    *found, last = said.splitlines()
    assert last == f"{log.key.name}: 550 entries, root {b64encode(head.root).decode()}, 250 new"
    kept = [*bundle(log.folder, 1, FULL), *bundle(log.folder, 2, 38)][300 - FULL :]
    assert found == [f"entry {index}: {len(one)} bytes that are no certificate" for index, one in enumerate(kept, 300)]
    assert monitor.look(log.folder)[1].endswith(", 0 new\n")


def test_our_monitor_tells_of_a_changed_entry_and_of_a_changed_tile(log: TesseraLog, monitor: Monitor, tmp_path: Path) -> None:
    log.add(entries(250, "later"))
    good = (log.folder / entries_path(1)).read_bytes()
    change(log.folder / entries_path(1), good[:-1] + b"?")

    assert monitor.look(log.folder) == (3, f"greatseal: the entry 511 is not the one in the tree\n{evidence(monitor)}")

    change(log.folder / entries_path(1), good)
    change(log.folder / path(0, 1), bytes(FULL * SHA256.size))
    fresh = Monitor(tmp_path / "state", log.key)
    fresh.state = tmp_path / "fresh"
    assert monitor.look(log.folder)[0] == 0, "entries make the tree, whatever the tiles are"
    change(log.folder / path(1, 0, 2), bytes(2 * SHA256.size))
    code, said = fresh.look(log.folder, "--from-now")
    assert (code, fresh.state.exists()) == (3, False)
    assert said.startswith("greatseal: the tiles of the log make another root than its checkpoint of 550 entries says\n")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (299, "the log forked: the tree of 299 entries that it signed is none of its tree of 300"),
        (300, "the log forked: it signed two trees of 300 entries"),
        (600, "the log forked: its tree of 600 entries does not hold that of 300"),
    ],
)
def test_our_monitor_tells_of_a_log_that_forked(
    count: int, words: str, log: TesseraLog, forked: TesseraLog, monitor: Monitor, go_program: Find, tmp_path: Path
) -> None:
    forked.add(entries(count, "another"))

    code, said = monitor.look(forked.folder)

    assert (code, said, monitor.size()) == (3, f"greatseal: {words}\n{evidence(monitor)}", 300)
    # Whoever has the key of the log sees by the two notes that it lied.
    first, by, second, and_by = (tmp_path / "state.evidence").read_text().split("\n\n")
    roots = []
    for text, signatures in ((first, f"{by}\n"), (second, and_by)):
        (tmp_path / "note").write_text(f"{text}\n\n{signatures}")
        roots.append(run(go_program("tlog-check"), "note", tmp_path / "note", log.key.vkey).stdout.split()[1:])
    assert [size for size, _ in roots] == ["300", str(count)]
    assert roots[0] != roots[1]


def evidence(monitor: Monitor) -> str:
    return f"greatseal: the checkpoints that it showed are in {monitor.state}.evidence\n"


def change(file: Path, content: bytes) -> None:
    """Replace the content of a file that tessera wrote."""
    file.chmod(0o600)
    file.write_bytes(content)
