"""The monitor over real HTTP: a log that grows, one that lies in every way, and one that hangs or sends without end."""

import asyncio
import json
import os
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa

from greatseal.net import SystemResolver
from greatseal_mtc import following, monitor, tiles
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.dialects import PLANTS_05
from greatseal_mtc.entries import Entry
from greatseal_mtc.following import monitor as command
from greatseal_mtc.following import shown
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.monitor import Away, Follower, HttpSource, Lie, Seen, load, save
from greatseal_mtc.note import Checkpoint, Kind, Note, NoteKey, NoteSignature
from greatseal_mtc.tiles import FULL, Edge, TileName
from greatseal_mtc.wire import entry_of_tbs

ORIGIN = "log.example/1"
SECRET, WITNESS, OTHER = (ed25519.Ed25519PrivateKey.generate() for _ in range(3))
KEY = NoteKey(ORIGIN, Kind.ED25519, SECRET.public_key())
WITNESS_KEY = NoteKey("witness.example", Kind.ED25519_COSIGNER, WITNESS.public_key())


def entries(start: int, end: int, word: str = "entry") -> list[bytes]:
    return [f"{word} {n}".encode() for n in range(start, end)]


def entry_of(name: str) -> bytes:
    """The entry of a certificate with that name."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder(
        x509.Name([]), x509.Name([]), key.public_key(), 7, datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
    )
    signed = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False).sign(key, hashes.SHA256())
    return entry_of_tbs(PLANTS_05, TrustAnchorId("32473.1"), SHA256, signed.tbs_certificate_bytes)


class Published:
    """A tiled log in memory, served on loopback; ``replaced`` are other answers by path, ``missing`` are paths without one."""

    def __init__(self) -> None:
        self.edge = Edge()
        self.objects: dict[str, bytes] = {}
        self.secret = SECRET
        self.origin = ORIGIN
        self.witnesses: list[tuple[NoteKey, ed25519.Ed25519PrivateKey]] = []
        self.replaced: dict[str, Callable[[], Any]] = {}
        self.missing: set[str] = set()
        self.asked: list[str] = []
        self.url = ""

    def grow(self, to: int, word: str = "entry") -> None:
        self.edge, completed = tiles.append(SHA256, self.edge, entries(self.edge.size, to, word))
        self.objects |= completed
        self.objects |= self.edge.partials()
        self.objects["checkpoint"] = self.note().encoded

    def note(self) -> Note:
        checkpoint = Checkpoint(self.origin, self.edge.size, self.edge.root(SHA256))
        signatures = [KEY.signature(self.secret.sign(KEY.message(checkpoint)))]
        for key, secret in self.witnesses:
            signatures.append(key.signature(secret.sign(key.message(checkpoint, time=7)), time=7))
        return Note(checkpoint.text, tuple(signatures))

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        self.asked.append(path)
        if path in self.replaced:
            found = self.replaced[path]()
            return await found(request) if callable(found) else web.Response(body=found)
        if path in self.missing or path not in self.objects:
            return web.Response(status=404)
        return web.Response(body=self.objects[path])


@pytest.fixture
async def log() -> AsyncIterator[Published]:
    log = Published()
    app = web.Application()
    app.router.add_get("/log/{path:.*}", log.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    log.url = f"http://127.0.0.1:{runner.addresses[0][1]}/log/"
    yield log
    await runner.cleanup()


def follower(log: Published, **more: Any) -> Follower:
    return Follower(HttpSource(log.url, SystemResolver()), SHA256, [KEY], **more)


class Heard(list[tuple[int, bytes]]):
    async def __call__(self, start: int, found: Iterable[bytes]) -> None:
        self.extend(enumerate(found, start))


async def lie(follow: Follower, seen: Seen) -> Lie:
    with pytest.raises(Lie) as caught:
        await follow.step(seen, Heard())
    return caught.value


@pytest.mark.parametrize("sizes", [(1, 2, 5), (255, 256, 257), (700, 700, 701), (1, 1500), (256, 512)])
async def test_every_entry_is_read_once_and_in_order_however_the_log_grows(log, sizes):
    follow, heard = follower(log), Heard()
    seen = follow.nothing(ORIGIN)

    for size in sizes:
        log.grow(size)
        seen = await follow.step(seen, heard)
        assert (seen.size, seen.root) == (size, log.edge.root(SHA256))

    assert heard == list(enumerate(entries(0, sizes[-1])))


async def test_a_monitor_may_begin_with_the_log_as_it_is_and_reads_what_comes_then(log):
    log.grow(70_000)
    follow, heard = follower(log), Heard()

    seen = await follow.begin()
    assert not [path for path in log.asked if "entries" in path]
    log.grow(70_300)
    seen = await follow.step(seen, heard)

    assert seen.size == 70_300
    assert heard == list(enumerate(entries(70_000, 70_300), 70_000))


async def test_what_was_seen_rests_in_a_file_and_a_torn_one_is_told(log, tmp_path):
    log.grow(300)
    file = tmp_path / "log.state"
    seen = await follower(log).step(follower(log).nothing(ORIGIN), Heard())

    assert load(file, SHA256) is None
    save(file, seen)
    assert load(file, SHA256) == seen
    assert [one.name for one in tmp_path.iterdir()] == ["log.state"]
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match="no state of a monitor"):
        load(file, SHA256)


async def test_partial_tiles_that_are_gone_are_read_from_the_full_ones(log):
    log.grow(300)
    note = log.objects["checkpoint"]
    log.grow(600)
    log.objects["checkpoint"] = note
    log.missing |= {path for path in log.objects if ".p/" in path and "/001" in path}
    heard = Heard()

    seen = await follower(log).step(follower(log).nothing(ORIGIN), heard)

    assert seen.size == len(heard) == 300
    assert (await follower(log).begin()).edge == seen.edge


# ---- A log that lies (security rows)


async def test_two_trees_of_one_size_are_a_fork_with_both_notes(log):
    log.grow(40)
    seen = await follower(log).step(follower(log).nothing(ORIGIN), Heard())
    other = Published()
    other.grow(40, "another")
    log.objects = other.objects

    found = await lie(follower(log), seen)

    assert "forked: it signed two trees of 40 entries" in str(found)
    assert found.notes == (seen.note, other.objects["checkpoint"])


@pytest.mark.parametrize(("before", "after"), [(40, 41), (40, 600), (256, 300), (257, 1024)])
async def test_a_tree_that_does_not_hold_the_one_before_is_a_fork(log, before, after):
    log.grow(before)
    seen = await follower(log).step(follower(log).nothing(ORIGIN), Heard())
    other = Published()
    other.grow(after, "another")
    log.objects = other.objects

    found = await lie(follower(log), seen)

    assert f"forked: its tree of {after} entries does not hold that of {before}" in str(found)
    assert len(found.notes) == 2


@pytest.mark.parametrize("wrong", [0, 39, 40, 255, 256, 599])
async def test_an_entry_that_is_not_the_one_of_the_tree_is_told_by_its_index(log, wrong):
    log.grow(600)
    bundle = TileName(None, wrong >> 8, min(FULL, 600 - (wrong >> 8 << 8))).path
    at = wrong & 0xFF
    shown = entries(wrong - at, min(600, wrong - at + 256))
    shown[at] = b"hidden"
    log.replaced[bundle] = lambda: b"".join(map(tiles.frame, shown))

    found = await lie(follower(log), follower(log).nothing(ORIGIN))

    assert f"the entry {wrong} is not the one in the tree" in str(found)


async def test_an_older_checkpoint_is_no_news_and_one_of_another_tree_a_fork(log):
    log.grow(300)
    old = log.objects["checkpoint"]
    log.grow(500)
    seen = await follower(log).step(follower(log).nothing(ORIGIN), Heard())
    log.objects["checkpoint"] = old

    with pytest.raises(Away, match="300 entries; the one of 500 was seen"):
        await follower(log).step(seen, Heard())

    other = Published()
    other.grow(300, "another")
    log.objects["checkpoint"] = other.objects["checkpoint"]
    assert "forked: the tree of 300" in str(await lie(follower(log), seen))


@pytest.mark.parametrize(("size", "older"), [(8, 0), (8, 3), (300, 299), (300, 256), (600, 513)])
async def test_a_smaller_tree_of_a_log_without_its_tiles_is_held_against_what_was_seen(log, size, older):
    other = Published()
    other.grow(older, "another")
    same = Published()
    same.grow(older)
    log.grow(size)
    seen = await follower(log).step(follower(log).nothing(ORIGIN), Heard())

    for name in [name for name in log.objects if name != "checkpoint"]:
        del log.objects[name]
    log.objects["checkpoint"] = same.objects["checkpoint"]
    with pytest.raises(Away, match=f"{older} entries; the one of {size} was seen before$"):
        await follower(log).step(seen, Heard())
    if older:
        log.objects["checkpoint"] = other.objects["checkpoint"]
        assert f"forked: the tree of {older}" in str(await lie(follower(log), seen))


async def test_a_smaller_tree_that_cannot_be_held_against_anything_is_told_as_that(log):
    log.grow(200)
    smaller = log.objects["checkpoint"]
    log.grow(300)
    seen = await follower(log).step(follower(log).nothing(ORIGIN), Heard())
    log.objects["checkpoint"] = smaller
    log.missing |= {"tile/0/000"}

    with pytest.raises(Away, match=r"its checkpoint of 200 entries; the one of 300 was seen before, and tile/0/000 is not there"):
        await follower(log).step(seen, Heard())


async def test_a_checkpoint_of_another_key_origin_or_form_is_not_believed(log):
    log.grow(3)
    seen = await follower(log).step(follower(log).nothing(ORIGIN), Heard())
    log.secret = OTHER
    log.grow(4)
    assert "signature of log.example/1 is wrong" in str(await lie(follower(log), seen))
    for note in (b"", b"\xff", b"no note", log.objects["checkpoint"].replace(b"log.example/1 ", b"other.example "), b"\n\n" * 50_000):
        log.objects["checkpoint"] = note
        assert "none to go by" in str(await lie(follower(log), seen))
    log.secret, log.origin = SECRET, "log.example/2"
    log.grow(5)
    assert "calls itself log.example/2" in str(await lie(follower(log), seen))


async def test_a_checkpoint_that_witnesses_alone_signed_is_not_believed(log):
    log.witnesses = [(WITNESS_KEY, WITNESS)]
    log.grow(3)
    note = log.note()
    log.objects["checkpoint"] = Note(note.text, note.signatures[1:]).encoded
    follow = follower(log, witnesses=[WITNESS_KEY])

    assert "not signed by a key of the log" in str(await lie(follow, follow.nothing(ORIGIN)))


async def test_a_fork_whose_tiles_are_not_there_or_others_is_told_so(log):
    log.grow(40)
    seen = await follower(log).step(follower(log).nothing(ORIGIN), Heard())
    other = Published()
    other.grow(600, "another")
    log.objects = other.objects
    tile = "tile/0/000"
    content = log.objects.pop(tile)
    with pytest.raises(Away, match=f"{tile} is not there"):
        await follower(log).step(seen, Heard())
    log.objects[tile] = bytes(len(content))
    assert "the tiles of the log are not those of its tree of 600" in str(await lie(follower(log), seen))


async def test_too_few_cosignatures_are_refused_and_enough_are_taken(log):
    follow = follower(log, witnesses=[WITNESS_KEY], quorum=1)
    log.grow(3)
    assert "cosigned by 0 of the witnesses, not by 1" in str(await lie(follow, follow.nothing(ORIGIN)))

    log.witnesses = [(WITNESS_KEY, WITNESS)]
    log.grow(4)
    assert (await follow.step(follow.nothing(ORIGIN), Heard())).size == 4

    log.witnesses = [(WITNESS_KEY, OTHER)]
    log.grow(5)
    assert "signature of witness.example is wrong" in str(await lie(follow, follow.nothing(ORIGIN)))


@pytest.mark.parametrize(
    ("size", "root", "said"),
    [(3, bytes(31), "root of 31 bytes"), (1 << 48 | 1, bytes(32), "not a log"), (1 << 64, bytes(32), "none to go by")],
)
async def test_a_signed_size_or_root_that_cannot_be_is_refused(log, size, root, said):
    checkpoint = Checkpoint(ORIGIN, size, root)
    log.objects["checkpoint"] = Note(checkpoint.text, (KEY.signature(SECRET.sign(KEY.message(checkpoint))),)).encoded

    assert said in str(await lie(follower(log), follower(log).nothing(ORIGIN)))


async def test_a_log_that_signs_more_than_it_has_is_away_and_one_whose_tiles_are_short_lies(log):
    log.grow(300)
    log.missing.add("tile/entries/001.p/44")
    with pytest.raises(Away, match=r"tile/entries/001.p/44 is not there"):
        await follower(log).step(follower(log).nothing(ORIGIN), Heard())
    log.missing.add("tile/0/001.p/44")
    with pytest.raises(Away, match=r"tile/0/001.p/44 is not there"):
        await follower(log).begin()
    for other in (b"", bytes(31), bytes(43 * 32)):
        log.replaced["tile/0/001.p/44"] = lambda other=other: other
        with pytest.raises(Lie, match="bytes, not 1408"):
            await follower(log).begin()
    log.replaced["tile/0/001.p/44"] = lambda: bytes(44 * 32)
    with pytest.raises(Lie, match="another root"):
        await follower(log).begin()


@pytest.mark.parametrize("shown", [b"", b"\xff\xff", b"\0\0" * 43, b"\0\0" * 45, bytes(90)])
async def test_a_bundle_that_is_none_is_a_lie(log, shown):
    log.grow(44)
    log.replaced["tile/entries/000.p/44"] = lambda: shown

    assert "is no bundle of 44 entries" in str(await lie(follower(log), follower(log).nothing(ORIGIN))) or len(shown) == 90


async def endless(request: web.Request) -> web.StreamResponse:
    """Sends a gigabyte, as fast as it is taken."""
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(1024):
        await response.write(bytes(1024 * 1024))
    return response


async def test_a_gigabyte_is_cut_off_at_the_limit_of_each_object(log):
    log.grow(44)
    for path in ("checkpoint", "tile/entries/000.p/44"):
        log.replaced = {path: lambda: endless}
        with pytest.raises(Away, match="a body of over"):
            await follower(log).step(follower(log).nothing(ORIGIN), Heard())


async def test_a_log_that_hangs_is_given_up(log, monkeypatch):
    log.grow(44)
    monkeypatch.setattr(monitor, "SECONDS", 0.2)
    released = asyncio.Event()

    async def hang(_request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    log.replaced = {"tile/entries/000.p/44": lambda: hang}
    with pytest.raises(Away, match=r"not finished within 0.2 s"):
        await follower(log).step(follower(log).nothing(ORIGIN), Heard())
    released.set()


async def test_other_statuses_redirects_without_end_and_no_server_are_away(log):
    log.grow(4)

    async def failing(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=500)

    async def leading(request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(str(request.url))

    for answer, said in ((failing, "status 500"), (leading, "more than 2 redirects")):
        log.replaced = {"checkpoint": lambda answer=answer: answer}
        with pytest.raises(Away, match=said):
            await follower(log).begin()
    log.replaced, log.missing = {}, {"checkpoint"}
    with pytest.raises(Away, match="there is none"):
        await follower(log).begin()
    with pytest.raises(ValueError, match="no http or https URL"):
        HttpSource("file:///etc/passwd", SystemResolver())


@pytest.mark.parametrize(
    "change",
    [{"size": 5}, {"size": -5}, {"size": 1 << 62}, {"root": b64encode(bytes(32)).decode()}, {"root": "AA=="}, {"edge": "AAAA"},
     {"edge": b64encode(bytes(8)).decode()}, {"edge": b64encode(b"\xff" * 8).decode()},
     {"edge": b64encode((300).to_bytes(8) + bytes(32 * 45)).decode()}],
)  # fmt: skip
async def test_a_state_that_does_not_fit_itself_is_refused_and_no_log_is_accused(log, keys, tmp_path, change):
    log.grow(300)
    state = tmp_path / "log.state"
    options = (log.url, "--keys", keys, "--state", str(state))
    assert (await asyncio.to_thread(run, *options)).exit_code == 0
    log.grow(310)
    state.write_text(json.dumps(json.loads(state.read_text()) | change))

    found = await asyncio.to_thread(run, *options)

    assert (found.exit_code, found.stderr.count("\n")) == (2, 1), found.output
    assert "is no state of a monitor" in found.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log.keys", "log.state"]


async def test_a_state_of_a_log_of_another_hash_is_refused(log, keys, tmp_path):
    log.grow(3)
    options = (log.url, "--keys", keys, "--state", str(tmp_path / "log.state"))
    assert (await asyncio.to_thread(run, *options)).exit_code == 0

    for name in ("sha512", "sha3-256"):
        found = await asyncio.to_thread(run, *options, "--hash", name)
        assert (found.exit_code, found.stderr.count("\n")) == (2, 1), found.output


async def test_a_state_that_cannot_be_read_or_written_is_told_in_a_line(log, keys, tmp_path):
    log.grow(3)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for state, said in ((tmp_path, "is a directory"), (tmp_path / "nowhere" / "s", "there is no folder"), (tmp_path / "circle", "be read")):
        found = await asyncio.to_thread(run, log.url, "--keys", keys, "--state", str(state))
        assert (found.exit_code, said in found.stderr, "Traceback" in found.output) == (2, True, False), found.output
    tmp_path.joinpath(".log.state.draft").mkdir()

    found = await asyncio.to_thread(run, log.url, "--keys", keys, "--state", str(tmp_path / "log.state"))

    assert (found.exit_code, found.stderr.count("\n")) == (2, 1), found.output
    assert "cannot be written" in found.stderr


async def test_evidence_is_not_written_over_by_what_a_log_shows_later(log, keys, tmp_path):
    options = (log.url, "--keys", keys, "--state", str(tmp_path / "log.state"))
    log.grow(8)
    assert (await asyncio.to_thread(run, *options)).exit_code == 0
    first = log.objects["checkpoint"]
    other = Published()
    other.grow(8, "another")
    log.objects = other.objects
    codes = [(await asyncio.to_thread(run, *options)).exit_code for _ in range(2)]
    log.objects["checkpoint"] = b"nothing to see here"
    codes.append((await asyncio.to_thread(run, *options)).exit_code)

    assert codes == [3, 3, 3]
    assert (tmp_path / "log.state.evidence").read_bytes() == first + b"\n" + other.note().encoded
    assert (tmp_path / "log.state.evidence.2").read_bytes() == b"nothing to see here"
    assert not (tmp_path / "log.state.evidence.3").exists()


async def test_a_lie_without_a_checkpoint_that_proves_it_leaves_no_evidence(log, keys, tmp_path):
    log.grow(4)
    log.replaced["tile/0/000.p/4"] = lambda: b""

    found = await asyncio.to_thread(run, log.url, "--keys", keys, "--state", str(tmp_path / "log.state"), "--from-now")

    assert (found.exit_code, "bytes, not 128" in found.stderr, found.stderr.count("\n")) == (3, True, 1), found.output
    assert [one.name for one in tmp_path.iterdir()] == ["log.keys"]


async def test_evidence_that_cannot_be_written_is_shown(log, keys, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(following, "_kept_beside", full)
    log.objects["checkpoint"] = b"no note \xff"

    found = await asyncio.to_thread(run, log.url, "--keys", keys, "--state", str(tmp_path / "log.state"))

    assert (found.exit_code, "No space left" in found.stderr, "no note" in found.stdout) == (3, True, True)


async def test_a_witness_of_a_log_with_an_endless_name_is_not_believed(log, keys, tmp_path):
    """What ML-DSA signs has room for 255 bytes of it."""
    key = NoteKey("witness.example", Kind.MLDSA44_COSIGNER, mldsa.MLDSA44PrivateKey.generate().public_key())
    log.origin = "x" * 300
    log.grow(3)
    log.objects["checkpoint"] += NoteSignature(key.name, key.id, bytes(8 + 2420)).line.encode()

    found = await asyncio.to_thread(run, log.url, "--keys", keys, "--state", str(tmp_path / "s"), "--witness", key.vkey)

    assert (found.exit_code, "signs no checkpoint of an origin of so many bytes" in found.stderr) == (3, True), found.output


def test_the_state_is_read_by_people_too(tmp_path):
    save(tmp_path / "s", Seen(origin=ORIGIN, size=1, root=b"\1" * 32, edge=b"", note=b"text"))

    assert b64decode("AQEB") in b64decode((tmp_path / "s").read_text().split('"root": "')[1].split('"')[0])
    assert '"size": 1' in (tmp_path / "s").read_text()


# ---- The command


def run(*arguments: str) -> Any:
    """The command as a process of its own would run it; its output, what it said on stderr, and its exit code."""
    return CliRunner().invoke(command, arguments)


@pytest.fixture
def keys(tmp_path) -> str:
    file = tmp_path / "log.keys"
    file.write_text(f"{KEY.vkey}\n\n")
    return str(file)


async def test_the_command_reads_what_is_new_keeps_it_and_prints_names_that_are_asked_for(log, keys, tmp_path):
    state = str(tmp_path / "log.state")
    log.edge, _ = tiles.append(SHA256, log.edge, [b"\0\0\0\0", entry_of("www.example.org"), entry_of("www.example.com"), b"\xff"])
    log.grow(4)
    options = (log.url, "--keys", keys, "--state", state)

    first = await asyncio.to_thread(run, *options, "--domain", "example.org", "--domain", "other.example")
    again = await asyncio.to_thread(run, *options, "--entries")
    os.unlink(state)  # noqa: PTH108  # in a test that is async
    all_of_them = await asyncio.to_thread(run, *options, "--entries")

    assert (first.exit_code, again.exit_code, all_of_them.exit_code) == (0, 0, 0)
    assert first.stdout.splitlines() == [
        "entry 1: www.example.org, valid 2026-01-02 to 2026-03-02",
        f"{ORIGIN}: 4 entries, root {b64encode(log.edge.root(SHA256)).decode()}, 4 new",
    ]
    assert again.stdout.endswith(", 0 new\n")
    assert [line.partition(",")[0] for line in all_of_them.stdout.splitlines()[:-1]] == [
        "entry 0: null", "entry 1: www.example.org", "entry 2: www.example.com", "entry 3: 1 bytes that are no certificate",
    ]  # fmt: skip


async def test_the_command_may_begin_with_the_log_as_it_is(log, keys, tmp_path):
    state = str(tmp_path / "log.state")
    log.grow(300)
    begun = await asyncio.to_thread(run, log.url, "--keys", keys, "--state", state, "--from-now")
    log.grow(310)
    later = await asyncio.to_thread(run, log.url, "--key", KEY.vkey, "--state", state, "--from-now")

    assert begun.stdout.endswith("; entries are read from here on\n")
    assert later.stdout.endswith(", 10 new\n")


async def test_a_fork_ends_the_command_with_3_keeps_the_state_and_writes_the_evidence(log, keys, tmp_path):
    state = tmp_path / "log.state"
    log.grow(8)
    options = (log.url, "--keys", keys, "--state", str(state))
    assert (await asyncio.to_thread(run, *options)).exit_code == 0
    before, first = state.read_bytes(), log.objects["checkpoint"]
    other = Published()
    other.grow(9, "another")
    log.objects = other.objects

    found = await asyncio.to_thread(run, *options, "--every", "1")

    assert found.exit_code == 3
    assert "the log forked" in found.stderr
    assert state.read_bytes() == before
    assert (tmp_path / "log.state.evidence").read_bytes() == first + b"\n" + log.objects["checkpoint"]


async def test_a_log_that_is_away_ends_one_look_with_1(log, keys, tmp_path):
    found = await asyncio.to_thread(run, log.url, "--keys", keys, "--state", str(tmp_path / "s"))

    assert (found.exit_code, found.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "a log is known by its keys"),
        (("--key", "x+y+z"), "not base64"),
        (("--key", KEY.vkey, "--quorum", "1"), "only 0 witnesses are given"),
        (("--key", KEY.vkey, "--witness", "junk"), "verifier key"),
    ],
)
def test_bad_usage_ends_with_2_and_one_line(options, said, tmp_path):
    found = run("http://127.0.0.1:9/", "--state", str(tmp_path / "s"), *options)

    assert (found.exit_code, found.stderr.count("\n")) == (2, 1)
    assert said in found.stderr


def test_a_state_of_something_else_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "s").write_text("diary")
    found = run("http://127.0.0.1:9/", "--state", str(tmp_path / "s"), "--key", KEY.vkey)

    assert (found.exit_code, found.stderr) == (
        2,
        f"greatseal: {tmp_path}/s is no state of a monitor: JSON is malformed: invalid character (byte 0)\n",
    )
    assert (tmp_path / "s").read_text() == "diary"


def test_names_that_a_terminal_would_obey_are_shown_as_they_are():
    entry = Entry(names=("a\x1b[2J", "b\u202e"), subject="", not_before=0, not_after=0, key_hash=b"")

    assert shown(entry) == "a?[2J, b?, valid 1970-01-01 to 1970-01-01"
