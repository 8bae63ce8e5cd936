"""A process that dies anywhere while it issues, logs and signs leaves what the next one goes on with (fault plan F04; I5).

What left the process before is written down as it would be seen from outside: every published note, and every certificate.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from greatseal.api.inventory import CertificateQuery
from greatseal.testing.kills import KILLED, lines_of, run_apart
from greatseal.testing.service import document, serve
from greatseal_mtc import checkpoints, issuer, recording, standalone, stored_checkpoints, stored_landmarks
from greatseal_mtc.note import Checkpoint, Note, NoteKey, open_note
from greatseal_mtc.recording import newest_below
from greatseal_mtc.stored_landmarks import active
from greatseal_mtc.tables import checkpoint, entry
from greatseal_mtc.verify import verify_certificate, verify_landmark

ALL = os.environ.get("GREATSEAL_ALL_FAULTS") == "1"
KILLS = 33 if ALL else 2
PARTS = (issuer, recording, checkpoints, stored_checkpoints, standalone, stored_landmarks)
PROFILES = {"default": {}, "tree": {"issue_as": "mtc"}}


def settings(folder: Path, backend: str) -> dict[str, Any]:
    mtc = {"trust_anchor_id": "32473.1", "log_backend": backend, "landmark_interval_secs": 1}
    return document(folder, ["ca", "mtc"], mtc=mtc, profiles=PROFILES)


def working(config: dict[str, Any], told: Path, at: Any) -> Callable[[], Awaitable[None]]:
    """What the process does until it is killed: it tells what it has shown."""

    async def work() -> None:
        with told.open("ab", buffering=0) as file:
            async with serve(config) as service:
                desk = at(service)
                for _ in range(2):
                    ordinary = await desk.certify("a.example.com", profile="default")
                    certificate = await desk.certify("b.example.com", profile="tree")
                    file.write(json.dumps({"certificate": certificate.der.hex()}).encode() + b"\n")
                    await desk.logged(ordinary.id)
                    await desk.log().checkpoints.run()
                    note = desk.log().checkpoints.published.note
                    file.write(json.dumps({"note": note.decode()}).encode() + b"\n")
                    await desk.log().landmarks.tick()

    return work


def seen(told: Path) -> Iterator[dict[str, str]]:
    """What got out."""
    lines = told.read_bytes().split(b"\n") if told.exists() else []
    for line in lines:
        if line.endswith(b"}"):
            yield json.loads(line)


async def looked(config: dict[str, Any], told: Path, at: Any) -> None:
    """The next process settles what was begun, and everything holds."""
    async with serve(config) as service:
        desk = at(service)
        log = desk.log()
        now = service.kernel.clock.now()
        for row in await desk.rows(select(checkpoint)):
            assert await log.log.root_at(row.tree_size) == bytes(row.root_hash)
        for id in [one.id for one in await desk.issuance.certificates(CertificateQuery(status="signing"))]:
            prepared = await desk.db.read(desk.issuance.reserved, id)
            settled = await desk.issuance.settle(prepared)
            assert settled is not None
            await desk.db.write(desk.issuance.record, prepared, settled)
        await desk.certify("c.example.com", profile="tree")
        for row in await desk.rows(select(entry)):
            await desk.logged(row.certificate_id)
        await log.checkpoints.run()
        await log.landmarks.tick()
        indices = sorted(row.position for row in await desk.rows(select(entry)))
        assert indices == list(range(1, log.log.size)), "an index is missing, or is there twice"
        for one in await desk.db.read(newest_below, "default", 1, log.log.size, 1000):
            certificate = await desk.issuance.certificate(one.certificate_id)
            whole = one.standalone if one.issue_as == "x509" else certificate.der
            assert verify_certificate(desk.trust(), whole, now).index == one.index
        operator = NoteKey.parse(log.vkeys[0])
        roots: dict[int, bytes] = {}
        for one in seen(told):
            if "note" in one:
                shown: Checkpoint = open_note(Note.parse(one["note"].encode()), [operator])[0]
                assert roots.setdefault(shown.size, shown.root) == shown.root == await log.log.root_at(shown.size)
            else:
                verify_certificate(desk.trust(), bytes.fromhex(one["certificate"]), now)
        for one in await desk.db.read(active, "default", 1):
            assert verify_landmark(desk.trust(), one.cert_der).index < one.tree_size


@pytest.mark.parametrize("backend", ["files", "sql"])
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__.rpartition(".")[2])
def test_f04_i5_a_kill_anywhere_loses_no_index_and_forks_no_log(tmp_path, at, part, backend):
    source = part.__file__
    counted = tmp_path / "counted"
    counted.mkdir()
    lines = lines_of(working(settings(counted, backend), counted / "told", at), file=source)
    assert lines
    for number in sorted({1 + (lines - 1) * (2 * nth + 1) // (2 * KILLS) for nth in range(KILLS)}):
        folder = tmp_path / f"killed{number}"
        folder.mkdir()
        config, told = settings(folder, backend), folder / "told"
        assert run_apart(working(config, told, at), file=source, kill_at=number) in {KILLED, 0}
        asyncio.run(looked(config, told, at))
