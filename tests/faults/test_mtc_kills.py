"""The service is killed around finalization and checkpoints, with certificates of an X.509 profile, which the log observes, and with those
that are issued by the log. A witness in another process is shown each checkpoint before anybody else could have seen it.

``make test`` runs a spread of 40 kills on each backend, ``make test-faults`` 200 at each point (GREATSEAL_FAULT_KILLS changes that).
"""

import asyncio
import base64
import random
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import cycle
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from faults.crash import Crashing, Ledger, Subscriber
from faults.invariants import check_audit, check_rest, check_signatures, leaf, rows_of, settled
from faults.test_kills import ALL, KILLS
from rig.acme import AcmeClient, Responder, eventually

from greatseal import der
from greatseal.testing.store import open_test_database
from greatseal_mtc import merkle
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.backends.files import FilesBackend
from greatseal_mtc.backends.sql import SqlBackend
from greatseal_mtc.dialects import DIALECTS
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.state import entries_of
from greatseal_mtc.tables import SCHEMA
from greatseal_mtc.tiles import TileCache, TileName
from greatseal_mtc.views import LogView
from greatseal_mtc.wire import entry_of_tbs, place_of

ANCHOR = TrustAnchorId.parse("32473.1")
NAME = "default-1"
POINTS = (
    "acme.finalize.claimed",
    "mtc.log.commit",
    "mtc.log.committed",
    "mtc.recorded",
    "mtc.log.recorded",
    "mtc.issue.logged",
    "mtc.subtree.signing",
    "mtc.subtree.signed",
    "mtc.issue.signed",
    "acme.finalize.issued",
    "ca.issue.signed",
    "ca.record.stored",
    "acme.finalize.recorded",
    "mtc.checkpoint.signed",
    "mtc.checkpoint.stored",
    "mtc.log.partials",
    "mtc.log.published",
    "mtc.checkpoint.published",
    "mtc.standalone.stored",
)
FILES = ("mtc.files.journal", "mtc.files.durable", "mtc.files.object", "mtc.files.committed")
DATABASE = ("db.commit", "db.committed")
SLOW = {
    "mtc.checkpoint.signed",
    "mtc.checkpoint.stored",
    "mtc.checkpoint.published",
    "mtc.standalone.stored",
    "mtc.log.partials",
    "mtc.log.published",
}
"""These are passed once a second."""

CERTIFICATES = """
SELECT certificate.id, certificate.der, certificate.tbs, certificate.status, certificate.issue_as, entry.position, entry.standalone
FROM ca_certificate AS certificate LEFT JOIN mtc_entry AS entry ON entry.certificate_id = certificate.id
"""


class Witness:
    """It is told of every checkpoint, signs none, and forgets nothing."""

    def __init__(self) -> None:
        self.seen: dict[int, bytes] = {}

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        application = web.Application()
        application.router.add_post("/add-checkpoint", self.told)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def told(self, request: web.Request) -> web.Response:
        _, _, note = (await request.text()).partition("\n\n")
        self.look(note)
        return web.Response(status=403)

    def look(self, note: str) -> None:
        """Two of one size are the same."""
        _, size, root, *_ = note.splitlines()
        assert self.seen.setdefault(int(size), base64.b64decode(root)) == base64.b64decode(root), f"two checkpoints of size {size}"


class Logging(Crashing):
    """A CA with a log, and a profile that issues by it."""

    def __init__(self, folder: Path, database: str, responder: Responder, witness: str) -> None:
        super().__init__(folder, database, responder)
        self.document["plugins"] = {"sets": ["ca"]}
        self.document["mtc"] = {
            "trust_anchor_id": ANCHOR.ascii,
            "checkpoint_interval_secs": 1,
            "landmark_interval_secs": 1,
            "log_backend": "files" if database.startswith("sqlite") else "sql",
            "log_path": str(folder / "mtc"),
            "witnesses": [{"url": witness, "vkey": vkey("outside", b"\x04" + bytes(range(32)))}],
        }
        self.document["profiles"] = {"default": {}, "tree": {"issue_as": "mtc"}}


def vkey(name: str, key: bytes) -> str:
    """The verifier key of a witness (C2SP signed-note)."""
    number = sha256(name.encode() + b"\n" + key).hexdigest()[:8]
    return f"{name}+{number}+{base64.b64encode(key).decode()}"


class BothProfiles(Subscriber):
    """Orders of one profile and of the other, in turns."""

    turn = cycle(({}, {"profile": "tree"}))

    async def issue(self, client: AcmeClient, *names: str, **members: str) -> str:
        return await super().issue(client, *names, **members, **next(self.turn))


@asynccontextmanager
async def subscribers(service: Logging, responder: Responder, ledger: Ledger, count: int) -> AsyncIterator[None]:
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        clients = [BothProfiles(service, responder, ledger, session) for _ in range(count)]
        for number, client in enumerate(clients):
            group.create_task(client.run(f"m{number}"))
        yield
        for client in clients:
            client.stop = True


def points_of(database: str) -> tuple[str, ...]:
    return POINTS + (FILES if database.startswith("sqlite") else DATABASE)


@pytest.mark.timeout(300)
async def test_f04_a_spread_of_kills_leaves_no_certificate_without_its_index(database_url, tmp_path, record_property):
    plan = [(point, hit) for hit in (1, 2, 3) for point in points_of(database_url)]
    record_property("figures", await kill(database_url, tmp_path, plan[:40]))


@ALL
@pytest.mark.timeout(3600)
async def test_f04_two_hundred_kills_at_each_point_around_finalization(database_url, tmp_path, record_property):
    chosen = random.Random(0)
    plan = [(point, chosen.randint(1, 2 if point in SLOW else 12)) for point in points_of(database_url) for _ in range(KILLS)]
    record_property("figures", await kill(database_url, tmp_path, plan))


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> str:
    """Carry out the plan under load, let every client come to its end, and check."""
    ledger, witness = Ledger(), Witness()
    async with Responder().served() as responder, witness.served() as url:
        service = Logging(folder, database, responder, url)
        async with service.warm():
            async with subscribers(service, responder, ledger, 4):
                for point, hit in plan:
                    await service.start(f"{point}:kill:{hit}")
                    await service.killed()
                    look(service, witness)
                assert await service.start()
            await eventually(lambda: settled(service) and not waiting(service))
            await eventually(lambda: look(service, witness) and max(witness.seen) > entries_in(service))
            assert await service.end() == {"code": 0}
    with rows_of(database) as ask:
        check_signatures(ask, service)
        check_audit(ask, ledger)
        check_rest(ask)
    assert set(ledger.certificates) == set(ledger.orders)
    size = await check_log(service, witness, ledger)
    return f"{len(plan)} kills, {size} entries, {len(witness.seen)} checkpoints seen outside"


def look(service: Logging, witness: Witness) -> bool:
    """What a web server would show of the log now."""
    if service.document["mtc"]["log_backend"] == "files":
        path = service.folder / "mtc" / NAME / "checkpoint"
        notes = [path.read_text()] if path.exists() else []
    else:
        with rows_of(service.document["database"]["url"]) as ask:
            there = ask("SELECT to_regclass('mtc_document')") != [(None,)]
            notes = [bytes(note).decode() for (note,) in ask("SELECT content FROM mtc_document WHERE name = 'checkpoint'")] if there else []
    for note in notes:
        witness.look(note)
    return bool(notes)


def waiting(service: Logging) -> int:
    """Certificates without an index."""
    with rows_of(service.document["database"]["url"]) as ask:
        ((count,),) = ask("SELECT count(*) FROM mtc_entry WHERE position IS NULL")
    return int(count)


def entries_in(service: Logging) -> int:
    with rows_of(service.document["database"]["url"]) as ask:
        ((last,),) = ask("SELECT max(position) FROM mtc_entry")
    return int(last)


@asynccontextmanager
async def log_of(service: Logging) -> AsyncIterator[LogView]:
    """The log as anybody reads it who has the storage."""
    if service.document["mtc"]["log_backend"] == "files":
        view = LogView(NAME, FilesBackend(service.folder / "mtc").reader(NAME), TileCache(1 << 20))
        await view.refresh()
        yield view
    else:
        async with open_test_database(service.document["database"]["url"], SCHEMA) as database:
            view = LogView(NAME, SqlBackend(database).reader(NAME), TileCache(1 << 20))
            await view.refresh()
            yield view


async def check_log(service: Logging, witness: Witness, ledger: Ledger) -> int:
    """Every entry is that of one certificate, which knows its index; every checkpoint that left is one of this tree."""
    async with log_of(service) as view:
        size = view.size
        entries: list[bytes] = []
        for number in range((size + 255) // 256):
            bundle = await view.read(TileName(None, number, min(256, size - number * 256)))
            assert bundle is not None
            entries += entries_of(bundle)[0]
        leaves = list(map(SHA256.leaf, entries))
        for older, root in witness.seen.items():
            assert merkle.root(SHA256, leaves[:older]) == root
            proof = await view.consistency(0, older, size)
            merkle.verify_consistency(SHA256, 0, older, size, subtree=root, root=view.root, proof=proof)
    with rows_of(service.document["database"]["url"]) as ask:
        rows = ask(CERTIFICATES)
        signed = ask("SELECT tree_size, root_hash FROM mtc_checkpoint")
        landmarks = ask("SELECT tree_size FROM mtc_landmark WHERE cert_der IS NULL")
    assert {(older, bytes(root)) for older, root in signed} >= set(witness.seen.items()), "one that left was not stored"
    assert landmarks == []
    used: dict[int, str] = {}
    for id, certificate, tbs, status, issue_as, position, standalone in rows:
        if status == "unknown":
            continue
        assert status == "issued"
        assert position is not None, f"{id} has no index"
        assert used.setdefault(position, id) == id
        recorded = der.children(bytes(certificate))[0] if issue_as == "x509" else bytes(tbs or der.children(bytes(certificate))[0])
        assert entries[position] == entry_of_tbs(DIALECTS["plants-05"], ANCHOR, SHA256, recorded)
        own = bytes(certificate if issue_as == "mtc" else standalone)
        assert place_of(x509.load_der_x509_certificate(own).serial_number) == (1, position)
    assert len(set(entries)) == size
    found = {bytes(certificate) for _, certificate, _, status, *_ in rows if status == "issued"}
    assert {der_of(pem) for pem in ledger.certificates.values()} <= found
    return size


def der_of(downloaded: bytes) -> bytes:
    """A chain in PEM begins with it; a Merkle Tree certificate has no chain and comes as it is."""
    return leaf(downloaded) if downloaded.startswith(b"-----") else downloaded


async def test_f27_an_older_copy_of_the_log_does_not_start_and_the_right_one_goes_on(database_url, tmp_path):
    if not database_url.startswith("sqlite"):
        pytest.skip("the log and its rows are in one database, which is put back as a whole")
    ledger, witness = Ledger(), Witness()
    async with Responder().served() as responder, witness.served() as url:
        service = Logging(tmp_path, database_url, responder, url)
        async with service.warm():
            assert await service.start()
            async with subscribers(service, responder, ledger, 1):
                await eventually(lambda: witness.seen)
            assert await service.end() == {"code": 0}
            shutil.copytree(tmp_path / "mtc", tmp_path / "backup")
            assert await service.start()
            newest = max(witness.seen)
            async with subscribers(service, responder, ledger, 1):
                await eventually(lambda: max(witness.seen) > newest)
            assert await service.end() == {"code": 0}
            (tmp_path / "mtc").rename(tmp_path / "right")
            shutil.copytree(tmp_path / "backup", tmp_path / "mtc")
            service.log.write_bytes(b"")

            assert not await service.start()
            assert await service.ended() == {"code": 2}
            said = service.log.read_text()
            assert "an older copy was put back" in said
            assert "greatseal log recover" in said

            shutil.rmtree(tmp_path / "mtc")
            (tmp_path / "right").rename(tmp_path / "mtc")
            assert await service.start()
            assert await service.end() == {"code": 0}
    await check_log(service, witness, ledger)
