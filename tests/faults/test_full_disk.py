"""A full disk, and commits that fail: 503 before anything is signed, and no restart is needed afterwards."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
from faults.crash import Crashing, Ledger, Subscriber, subscribers
from faults.invariants import check, check_answers, settled, signed
from rig.acme import Answer, Responder, csr_for, eventually
from rig.server import Server

READY = 8
# One failure heals when the group is tried again, call by call; clients see those that go on.
FAILING = [
    f"{point}:{failure}:{hits}" for point in ("db.begun", "db.commit") for failure in ("enospc", "eio") for hits in ("1", "6", "15-40")
]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    place.chmod(0o700)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(path: Path) -> None:
    """Write until nothing more fits, bytes at last."""
    with path.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            with suppress(OSError):
                while True:
                    file.write(b"\0" * size)


def check_refusal(answer: Answer) -> None:
    assert (answer.status, answer.error) == (503, "serverInternal")
    assert int(answer.headers["Retry-After"]) > 0
    assert b"No space" not in answer.body
    assert b"sqlite" not in answer.body.lower()


@pytest.mark.parametrize("log", ["elsewhere", "on the same disk"])
async def test_f07_a_full_disk_refuses_before_signing_and_heals_without_restart(small_disk, tmp_path, log):
    ledger = Ledger()
    database = f"sqlite:///{small_disk}/greatseal.db"
    async with Responder().served() as responder, aiohttp.ClientSession() as session:
        service = Crashing(tmp_path, database, responder)
        if log != "elsewhere":
            service.log = small_disk / "server.log"
        async with service.warm():
            assert await service.start()
            client = await Subscriber(service, responder, ledger, session).account("full")
            ready = [await client.ready(responder, f"full{number}.localhost") for number in range(READY)]
            async with subscribers(service, responder, ledger, 4):
                await eventually(lambda: len(ledger.certificates) >= 4)
                await until_full(service, ledger, small_disk)
                before = signed(service)
                for number, order in enumerate(ready):
                    check_refusal(await client.finalize(order.json, csr_for(f"full{number}.localhost")))
                assert signed(service) == before
                await eventually(lambda: answered(session, service, 503))
                (small_disk / "filler").unlink()
                known = len(ledger.certificates)
                await eventually(lambda: len(ledger.certificates) > known)
            await eventually(lambda: answered(session, service, 200))
            for number, order in enumerate(ready):
                done = await client.finalize(order.json, csr_for(f"full{number}.localhost"))
                assert done.status == 200, done.body
                ledger.orders.append(order.location)
                ledger.certificates[order.location] = (await client.post(done.json["certificate"])).body
            await check_answers(ledger)
            assert await service.end() == {"code": 0}
    for answer in ledger.unavailable:
        check_refusal(answer)
    assert not ledger.broken
    check(service, ledger)


async def answered(session: aiohttp.ClientSession, service: Crashing, status: int) -> bool:
    """Whether /readyz says so."""
    async with session.get(f"{service.url}/readyz") as answer:
        return answer.status == status


async def until_full(service: Crashing, ledger: Ledger, disk: Path) -> None:
    """Fill the disk until every write is refused: the write-ahead log has room of its own for a while, and finalizations end."""
    quiet = 0
    while quiet < 3:
        fill(disk / "filler")
        refused, certificates, before = len(ledger.unavailable), len(ledger.certificates), signed(service)
        await asyncio.sleep(0.1)
        same = certificates == len(ledger.certificates) and before == signed(service) and len(ledger.unavailable) > refused
        quiet = quiet + 1 if same else 0


@pytest.mark.timeout(300)
async def test_f08_commits_that_fail_refuse_and_lose_nothing(tmp_path):
    ledger = Ledger()
    async with Responder().served() as responder:
        service = Crashing(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", responder)
        async with service.warm():
            async with subscribers(service, responder, ledger, 4):
                for plan in FAILING:
                    if await service.start(plan):
                        refused, certificates = len(ledger.unavailable), len(ledger.certificates)
                        await eventually(lambda r=refused, c=certificates: len(ledger.unavailable) > r or len(ledger.certificates) > c + 4)
                        assert await service.end() == {"code": 0}
                    else:
                        assert await service.ended() == {"code": 1}
                assert await service.start()
            await check_answers(ledger)
            await eventually(lambda: settled(service))
            assert await service.end() == {"code": 0}
    assert ledger.unavailable
    for answer in ledger.unavailable:
        check_refusal(answer)
    check(service, ledger)


def test_f08_a_start_without_a_writable_database_is_one_line(tmp_path):
    environ = {"GREATSEAL_FAULTS": "1", "GREATSEAL_FAULT": "db.commit:enospc:1"}
    with pytest.raises(RuntimeError, match="ended with 1"), Server(tmp_path, []).running(environ):
        pass
    (line,) = (tmp_path / "server.log").read_text().splitlines()
    assert line.startswith("greatseal: the database cannot be used now (OSError: [Errno 28] No space left on device")
