"""The service is killed at every durable step of validation, cascade and finalization; invariants hold by a ledger outside of it.

``make test`` runs a spread of 40 kills on each database, ``make test-faults`` 200 at each point (GREATSEAL_FAULT_KILLS changes that).
"""

import os
import random
from pathlib import Path

import pytest
from faults.crash import Crashing, Ledger, subscribers
from faults.invariants import check, check_answers
from rig.acme import Responder

POINTS = (
    "acme.challenge.accepted",
    "acme.validation.probed",
    "acme.validation.decided",
    "ca.reserve.recorded",
    "acme.finalize.claimed",
    "ca.issue.signing",
    "ca.issue.signed",
    "acme.finalize.issued",
    "ca.record.stored",
    "acme.finalize.recorded",
    "db.commit",
    "db.committed",
)
OFTEN = 5
"""Commits are so many, those of reads and of a start too, that the points of the database are counted in fives."""
SPREAD = [(point, hit * (OFTEN if point.startswith("db.") else 1)) for hit in (1, 2, 4, 7) for point in POINTS][:40]
KILLS = int(os.environ.get("GREATSEAL_FAULT_KILLS", "200"))
SUBSCRIBERS = 4
ALL = pytest.mark.skipif(not os.environ.get("GREATSEAL_ALL_FAULTS"), reason="make test-faults runs every kill")


@pytest.mark.timeout(300)
async def test_f01_a_spread_of_kills_loses_and_doubles_nothing(database_url, tmp_path, record_property):
    record_property("figures", await kill(database_url, tmp_path, SPREAD))


@ALL
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", POINTS)
async def test_f01_two_hundred_kills_at_each_point(database_url, tmp_path, point, record_property):
    chosen = random.Random(point)
    deepest = 12 * (OFTEN if point.startswith("db.") else 1)
    record_property("figures", await kill(database_url, tmp_path, [(point, chosen.randint(1, deepest)) for _ in range(KILLS)]))


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> str:
    """Carry out the plan under load, let every client come to its end, and check the invariants."""
    ledger = Ledger()
    async with Responder().served() as responder:
        service = Crashing(folder, database, responder)
        async with service.warm():
            async with subscribers(service, responder, ledger, SUBSCRIBERS):
                for point, hit in plan:
                    await service.start(f"{point}:kill:{hit}")
                    await service.killed()
                assert await service.start()
            await check_answers(ledger)
            assert await service.end() == {"code": 0}
    assert len(ledger.certificates) >= len(plan) // 20
    check(service, ledger)
    return f"{len(plan)} kills, {len(ledger.certificates)} certificates, {len(ledger.accounts)} accounts"
