"""Kills around notices: whoever was signed in with a new device is told of it by mail, once at least, and of nothing that did not happen.

``make test`` runs a spread of kills on each database, ``make test-faults`` 200 at each point.
"""

import asyncio
import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest
from faults.identity import PASSWORD, Identity, Visitor
from faults.invariants import rows_of
from faults.test_kills import ALL, KILLS
from rig.mailbox import Mailbox
from rig.people import write_users

from greatseal.testing.desk import forgetful

POINTS = ("notices.carried", "db.commit", "db.committed")
PEOPLE = [f"person{number}" for number in range(40)]
"""So many that none of them is over the ten notices of an hour."""
SPREAD = [(point, hit * (3 if point.startswith("db.") else 1)) for hit in (1, 2, 3) for point in POINTS]


@pytest.mark.timeout(300)
async def test_a_spread_of_kills_loses_no_notice(database_url, tmp_path, record_property):
    record_property("figures", await kill(database_url, tmp_path, SPREAD))


@ALL
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("point", POINTS)
async def test_two_hundred_kills_around_notices_at_each_point(database_url, tmp_path, record_property, point):
    chosen = random.Random(point)
    plan = [(point, chosen.randint(1, 4) * (3 if point.startswith("db.") else 1)) for _ in range(KILLS)]
    record_property("figures", await kill(database_url, tmp_path, plan))


class Household(Visitor):
    """One person after the other signs in with another program each time, and waits for a mail before the next, or for a kill."""

    stop = False

    def __init__(self, service: Identity, http: aiohttp.ClientSession, box: Mailbox) -> None:
        super().__init__(service, http)
        self.box = box
        self.tried = 0
        self.acknowledged: set[int] = set()

    async def work(self) -> None:
        while not self.stop:
            self.tried += 1
            body = {"username": PEOPLE[self.tried % len(PEOPLE)], "password": PASSWORD}
            told = self.box.mails.qsize()  # a mail may be faster than the answer
            answer = await self.ask("POST", "/api/auth/login", json=body, headers={"User-Agent": f"p{self.tried}/1"})
            if answer is not None:
                assert answer.status == 200, answer
                self.acknowledged.add(self.tried)
                pid = self.service.pid
                while self.service.pid == pid and self.box.mails.qsize() == told and not self.stop:  # noqa: ASYNC110  # a thread tells
                    await asyncio.sleep(0.005)


async def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> str:
    """Carry out the plan while somebody signs in, let all mails come, and compare them with what was acknowledged."""
    with Mailbox(folder, "off").served() as box:
        service = Identity(folder, database, plugins={"enabled": ["idp", "users-file", "notices"]}, notices=box.settings())
        write_users(folder / "users.toml", PASSWORD, {name: {"email": f"{name}@example.org"} for name in PEOPLE})
        async with service.warm(), forgetful() as http:
            async with asyncio.TaskGroup() as group:
                household = Household(service, http, box)
                group.create_task(household.work())
                for point, hit in plan:
                    await service.start(f"{point}:kill:{hit}")
                    await service.killed()
                    make_due(database)
                assert await service.start()
                household.stop = True
            assert await service.end() == {"code": 0}
            make_due(database)
            assert await service.start()
            while waiting(database):  # noqa: ASYNC110  # of another process
                await asyncio.sleep(0.05)
            assert await service.end() == {"code": 0}
        told = [int(re.findall(r"Browser: Program p(\d+)", box.read().get_content())[0]) for _ in range(box.mails.qsize())]
        with rows_of(database) as ask:
            happened = ask("SELECT count(*) FROM core_audit WHERE event_type = 'login_success'")[0][0]
    assert household.acknowledged <= set(told)
    assert set(told) <= set(range(1, household.tried + 1))
    assert len(set(told)) == happened
    return f"{len(plan)} kills, {happened} sign-ins, {len(told)} mails"


def make_due(database: str) -> None:
    """What the killed ones were at is begun anew, now and not in a minute: by then more would wait than a person may have."""
    statement = "UPDATE notices_notice SET due_at = 0, attempts = 0"
    if database.startswith("sqlite"):
        with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as store:
            store.execute(statement)
            store.commit()
    else:
        import psycopg

        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(statement.encode())


def waiting(database: str) -> int:
    """Notices that were not carried yet."""
    with rows_of(database) as ask:
        return int(ask("SELECT count(*) FROM notices_notice")[0][0])
